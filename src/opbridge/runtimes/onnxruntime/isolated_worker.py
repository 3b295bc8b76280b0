"""The process of an `IsolatedSession`: loads the model, and runs it for each request."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from typing import Any

from opbridge.kernels import aten
from opbridge.runtimes.arguments import ModelMetadata
from opbridge.runtimes.messages import Read
from opbridge.runtimes.onnxruntime import cuda_provider
from opbridge.runtimes.onnxruntime.isolated import tensor_from, tensor_to
from opbridge.runtimes.onnxruntime.loading import session
from opbridge.runtimes.onnxruntime.model_file import required_kernels
from opbridge.runtimes.serving import Answer, bytes_of, limit_memory, serve, silence

__all__ = ["main"]

_TIMES_FILES = 3


def main() -> None:
    """Answers requests until the other end closes."""
    serve(_load, _run)


def _load(asked: Mapping[str, Any], model: str | bytes) -> tuple[Any, dict[str, Any]]:
    gigabytes = asked["limits"]["gigabytes"]
    if asked["quiet"]:
        silence()
    if aten.NAME in required_kernels(model):
        aten.load_torch("The model", "")
        _load_libraries(asked["libraries"])
    given = [each if isinstance(each, str) else tuple(each) for each in asked["arguments"]["providers"] or ()]
    arguments = {**asked["arguments"], "providers": given or None}
    if cuda_provider.is_named(given):  # whose driver reserves address space for all memory of all devices
        loaded = session(model, **arguments)
    else:
        limit_memory(gigabytes, beside=_TIMES_FILES * bytes_of(model, arguments["data_folder"]))
        loaded = session(model, **arguments)
        limit_memory(gigabytes)
    metadata = loaded.get_modelmeta()
    return loaded, {
        "metadata": {each.name: getattr(metadata, each.name) for each in dataclasses.fields(ModelMetadata)},
        "inputs": [[each.name, each.type, each.shape] for each in loaded.get_inputs()],
        "outputs": [[each.name, each.type, each.shape] for each in loaded.get_outputs()],
        "providers": loaded.get_providers(),
        "note": loaded.note,
    }


def _run(loaded: Any, asked: Mapping[str, Any], read: Read) -> Answer:
    feeds = {each["name"]: tensor_from(each, read) for each in asked["feeds"]}
    try:
        values = loaded.run_with_ort_values(asked["outputs"], feeds)
        results = [tensor_to(each) for each in values]
    except Exception as error:  # whatever ONNX Runtime raises; its errors have no other common base class
        message = cuda_provider.with_explanation(str(error))
        return {"error": "RunError", "message": message, "ends": cuda_provider.is_fatal(str(error))}, []
    return {"outputs": [described for described, _ in results]}, [block for _, block in results]


def _load_libraries(paths: list[str]) -> None:
    """Loads libraries with operators into PyTorch; what cannot be loaded is missed where it is called."""
    import torch

    for path in paths:
        with contextlib.suppress(OSError):
            torch.ops.load_library(path)
