"""What the processes that run models have in common: they load a model, and answer requests for it."""

from __future__ import annotations

import os
import resource
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from opbridge.errors import OpbridgeError
from opbridge.runtimes.ending import die_with_parent
from opbridge.runtimes.messages import Read, receive, send, until_closed

__all__ = ["Answer", "bytes_of", "limit_memory", "serve", "silence"]

Loaded = TypeVar("Loaded")

Answer = tuple[Mapping[str, Any], Sequence[Any]]
"""The header of a message, and the blocks that follow it."""


def serve(
    load: Callable[[Mapping[str, Any], str | bytes], tuple[Loaded, Mapping[str, Any]]],
    run: Callable[[Loaded, Mapping[str, Any], Read], Answer],
) -> None:
    """Answers requests until the other end closes the socket, whose number is the argument of the process.

    Args:
        load: Loads the model of the first request, given with the request, and returns it with what to answer. An
            OpbridgeError that it raises is the answer, and ends the process.
        run: Runs the model for a request, and returns the answer. One whose header has "ends" is the last: the process
            cannot go on, and the next run starts another.
    """
    die_with_parent()
    connection = socket.socket(fileno=int(sys.argv[1]))
    read = until_closed(connection)
    asked = receive(read)
    model = asked["model"] if asked["model"] is not None else bytes(read(asked["size"]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        loaded, said = load(asked, model)
    except OpbridgeError as error:
        send(connection, {"error": type(error).__name__, "message": str(error)})
        raise SystemExit(0) from None
    send(connection, said)
    while True:
        header, blocks = run(loaded, receive(read), read)
        send(connection, header, blocks)
        if header.get("ends"):
            raise SystemExit(0)


def bytes_of(model: str | bytes, folder: str | None = None) -> int:
    """The size of a model, with the files of its folder that may hold its weights.

    Args:
        model: The path of the file, or its content.
        folder: For a content, the folder of its external data; None: it has none.
    """
    own = len(model) if isinstance(model, bytes) else Path(model).stat().st_size
    beside = folder if isinstance(model, bytes) else Path(model).parent
    if beside is None:
        return own
    return own + sum(
        each.stat().st_size for each in Path(beside).iterdir() if each.suffix != ".onnx" and each.is_file()
    )


def silence() -> None:
    """Drops what runtimes print, which is meant for their developers; with OPBRIDGE_DEBUG=1 it goes to stderr."""
    if os.environ.get("OPBRIDGE_DEBUG", "0") not in ("", "0"):
        os.dup2(2, 1)
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)


def limit_memory(gigabytes: float, *, beside: int | None = None) -> None:
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
