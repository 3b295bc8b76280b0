"""The process of an `IsolatedSession`: loads the model, and runs it for each request."""

from __future__ import annotations

import ctypes
import resource
import signal
import socket
import sys
from pathlib import Path
from typing import Any

from opbridge.errors import OpbridgeError
from opbridge.runtimes.onnxruntime.isolated import receive, send, tensor_from, tensor_to
from opbridge.runtimes.onnxruntime.loading import session

__all__ = ["main"]

_DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG."""


def main() -> None:
    """Answers requests until the other end closes."""
    _die_with_parent()
    connection = socket.socket(fileno=int(sys.argv[1]))

    def read(size: int) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            count = connection.recv_into(view)
            if count == 0:
                raise SystemExit(0)
            view = view[count:]
        return data

    loaded = _load(connection, read)
    while True:
        _answer(connection, read, loaded)


def _load(connection: socket.socket, read: Any) -> Any:
    asked = receive(read)
    model = asked["model"] if asked["model"] is not None else bytes(read(asked["size"]))
    try:
        loaded = session(model, **asked["arguments"])
    except OpbridgeError as error:
        send(connection, {"error": type(error).__name__, "message": str(error)})
        raise SystemExit(0) from None
    _limit(asked["limits"]["gigabytes"])
    described = {
        "inputs": [[each.name, each.type, each.shape] for each in loaded.get_inputs()],
        "outputs": [[each.name, each.type, each.shape] for each in loaded.get_outputs()],
        "providers": loaded.get_providers(),
    }
    send(connection, described)
    return loaded


def _answer(connection: socket.socket, read: Any, loaded: Any) -> None:
    asked = receive(read)
    feeds = {each["name"]: tensor_from(each, read) for each in asked["feeds"]}
    try:
        values = loaded.run_with_ort_values(asked["outputs"], feeds)
        results = [tensor_to(each) for each in values]
    except Exception as error:  # whatever ONNX Runtime raises; its errors have no other common base class
        send(connection, {"error": "RunError", "message": str(error)})
        return
    send(connection, {"outputs": [described for described, _ in results]}, [block for _, block in results])


def _limit(gigabytes: float) -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    most = used + int(gigabytes * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
