"""The process of an `IsolatedSession`: loads the model, and runs it for each request."""

from __future__ import annotations

import contextlib
import dataclasses
import resource
import socket
import sys
from pathlib import Path
from typing import Any

from opbridge.errors import OpbridgeError
from opbridge.kernels import aten
from opbridge.runtimes.arguments import ModelMetadata
from opbridge.runtimes.ending import die_with_parent
from opbridge.runtimes.messages import Read, receive, send, until_closed
from opbridge.runtimes.onnxruntime.isolated import tensor_from, tensor_to
from opbridge.runtimes.onnxruntime.loading import session
from opbridge.runtimes.onnxruntime.model_file import required_kernels

__all__ = ["main"]

_TIMES_FILES = 3


def main() -> None:
    """Answers requests until the other end closes."""
    die_with_parent()
    connection = socket.socket(fileno=int(sys.argv[1]))

    read = until_closed(connection)
    loaded = _load(connection, read)
    while True:
        _answer(connection, read, loaded)


def _load(connection: socket.socket, read: Read) -> Any:
    asked = receive(read)
    model = asked["model"] if asked["model"] is not None else bytes(read(asked["size"]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    gigabytes = asked["limits"]["gigabytes"]
    try:
        if aten.NAME in required_kernels(model):
            aten.load_torch("The model", "")
            _load_libraries(asked["libraries"])
        _limit(gigabytes, beside=_TIMES_FILES * _bytes_of(model))
        loaded = session(model, **asked["arguments"])
    except OpbridgeError as error:
        send(connection, {"error": type(error).__name__, "message": str(error)})
        raise SystemExit(0) from None
    _limit(gigabytes)
    metadata = loaded.get_modelmeta()
    described = {
        "metadata": {each.name: getattr(metadata, each.name) for each in dataclasses.fields(ModelMetadata)},
        "inputs": [[each.name, each.type, each.shape] for each in loaded.get_inputs()],
        "outputs": [[each.name, each.type, each.shape] for each in loaded.get_outputs()],
        "providers": loaded.get_providers(),
    }
    send(connection, described)
    return loaded


def _answer(connection: socket.socket, read: Read, loaded: Any) -> None:
    asked = receive(read)
    feeds = {each["name"]: tensor_from(each, read) for each in asked["feeds"]}
    try:
        values = loaded.run_with_ort_values(asked["outputs"], feeds)
        results = [tensor_to(each) for each in values]
    except Exception as error:  # whatever ONNX Runtime raises; its errors have no other common base class
        send(connection, {"error": "RunError", "message": str(error)})
        return
    send(connection, {"outputs": [described for described, _ in results]}, [block for _, block in results])


def _load_libraries(paths: list[str]) -> None:
    """Loads libraries with operators into PyTorch; what cannot be loaded is missed where it is called."""
    import torch

    for path in paths:
        with contextlib.suppress(OSError):
            torch.ops.load_library(path)


def _bytes_of(model: str | bytes) -> int:
    """The size of a model, with the files of its folder that may hold its weights."""
    if isinstance(model, bytes):
        return len(model)
    sizes = [each.stat().st_size for each in Path(model).parent.iterdir() if each.suffix != ".onnx" and each.is_file()]
    return Path(model).stat().st_size + sum(sizes)


def _limit(gigabytes: float, *, beside: int | None = None) -> None:
    """Limits the memory of this process to what it has and so many gigabytes.

    Args:
        gigabytes: How many.
        beside: Bytes that it may have beside them until the limit is set again; None: it stays.
    """
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    wanted = used + int(gigabytes * 2**30) + (beside or 0)
    if most != resource.RLIM_INFINITY:
        wanted = min(wanted, most)
    resource.setrlimit(resource.RLIMIT_AS, (wanted, wanted if beside is None else most))
