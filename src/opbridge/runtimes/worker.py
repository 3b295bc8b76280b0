"""The process of a `RuntimeSession`: loads the model in the runtime, and runs it for each request."""

from __future__ import annotations

import os
import resource
import socket
import sys
from pathlib import Path
from typing import Any

from opbridge.errors import OpbridgeError
from opbridge.runtimes import Loaded, known
from opbridge.runtimes.ending import die_with_parent
from opbridge.runtimes.messages import Read, receive, send, until_closed
from opbridge.runtimes.tensors import from_message, to_message

__all__ = ["main"]

_TIMES_FILES = 4


def main() -> None:
    """Answers requests until the other end closes."""
    die_with_parent()
    connection = socket.socket(fileno=int(sys.argv[1]))
    read = until_closed(connection)
    loaded = _load(connection, read)
    while True:
        _answer(connection, read, loaded)


def _load(connection: socket.socket, read: Read) -> Loaded:
    asked = receive(read)
    model = asked["model"] if asked["model"] is not None else bytes(read(asked["size"]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _limit(asked["limits"]["gigabytes"], model)
    _silence()
    try:
        loaded = known.find(asked["runtime"]).load(model, *asked["kernels"])
    except OpbridgeError as error:
        send(connection, {"error": type(error).__name__, "message": str(error)})
        raise SystemExit(0) from None
    send(connection, {"loaded": True})
    return loaded


def _silence() -> None:
    """Drops what runtimes print, which is meant for their developers; with OPBRIDGE_DEBUG=1 it goes to stderr."""
    if os.environ.get("OPBRIDGE_DEBUG", "0") not in ("", "0"):
        os.dup2(2, 1)
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)


def _answer(connection: socket.socket, read: Read, loaded: Loaded) -> None:
    asked = receive(read)
    feeds = {each["name"]: from_message(each, read) for each in asked["feeds"]}
    try:
        results = [to_message(each) for each in loaded.run(feeds)]
    except Exception as error:  # the runtimes' errors have no other common base class
        message = " ".join(str(error).split()) or type(error).__name__
        send(connection, {"error": "RunError", "message": message[:4000]})
        return
    send(connection, {"outputs": [said for said, _ in results]}, [block for _, block in results])


def _limit(gigabytes: float, model: Any) -> None:
    """Limits what this process and those that it starts may write to: address space alone costs nothing, and runtimes
    reserve much of it."""
    beside = len(model) if isinstance(model, bytes) else _bytes_at(Path(model))
    most = resource.getrlimit(resource.RLIMIT_DATA)[1]
    used = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    wanted = used + int(gigabytes * 2**30) + _TIMES_FILES * beside
    if most != resource.RLIM_INFINITY:
        wanted = min(wanted, most)
    resource.setrlimit(resource.RLIMIT_DATA, (wanted, most))


def _bytes_at(path: Path) -> int:
    """The size of a file, with those of its folder that may hold its weights."""
    sizes = [each.stat().st_size for each in path.parent.iterdir() if each.suffix != ".onnx" and each.is_file()]
    return path.stat().st_size + sum(sizes)
