"""The process that asks ONNX Runtime where nodes run; its arguments are a file with a request, and one to answer in."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import onnx
import onnxruntime

from opbridge.errors import OpbridgeError
from opbridge.runtimes.onnxruntime import cuda_provider
from opbridge.runtimes.onnxruntime.kernel_table import LOG_NOTHING
from opbridge.runtimes.onnxruntime.loading import FLOAT_PRODUCTS, session

__all__ = ["main"]

_COPIES = ("MemcpyToHost", "MemcpyFromHost")


def main() -> None:
    """Answers the one request."""
    request, answer = map(Path, sys.argv[1:])
    asked = json.loads(request.read_text())
    try:
        found = _placed(asked)
    except OpbridgeError as error:
        found = {"error": type(error).__name__, "message": str(error)}
    answer.write_text(json.dumps(found))


def _placed(asked: Mapping[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="opbridge-placement-") as folder:
        written = Path(folder) / "loaded.onnx"
        (Path(folder) / "weights").symlink_to("/dev/null")  # they would be as large as those of the model
        options = onnxruntime.SessionOptions()
        options.log_severity_level = LOG_NOTHING
        options.optimized_model_filepath = str(written)
        for key, value in (
            FLOAT_PRODUCTS,
            ("session.record_ep_graph_assignment_info", "1"),
            ("session.optimized_model_external_initializers_file_name", "weights"),
            ("session.optimized_model_external_initializers_min_size_in_bytes", "1024"),
        ):
            options.add_session_config_entry(key, value)
        providers = cuda_provider.providers(asked["device"])
        loaded = session(asked["model"], kernels=asked["kernels"], options=options, providers=providers)
        nodes = [
            [each.ep_name, node.name, node.domain, node.op_type]
            for each in loaded.get_provider_graph_assignment_info()
            for node in each.get_nodes()
        ]
        return {"nodes": nodes, "copies": list(_copies(onnx.load(written, load_external_data=False).graph))}


def _copies(graph: Any) -> Iterator[list[str]]:
    """The copies between the devices: the operator, the value, and the names and operators of the nodes around it."""
    by_output = {name: node for node in graph.node for name in node.output if name}
    for node in graph.node:
        if node.op_type in _COPIES:
            before = by_output.get(node.input[0])
            after = next((each for each in graph.node if node.output[0] in each.input), None)
            given = "" if before is None else before.name
            value = node.input[0] if node.op_type == "MemcpyFromHost" else node.output[0]
            yield [
                node.op_type,
                value,
                given,
                "" if before is None else before.op_type,
                "" if after is None else after.name,
                "" if after is None else after.op_type,
            ]
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                yield from _copies(body)
