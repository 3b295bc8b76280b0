"""How a process talks with the one that runs a model: a length, a JSON header, and the bytes that it tells of.

Nothing that the other process says is unpickled, as a file may have taken it over.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

__all__ = ["Read", "framed", "receive", "received", "send", "until_closed"]

Read = Callable[[int], bytearray]
"""Reads so many bytes."""

_MOST_HEADER = 64 << 20
_LENGTHS = 16


def send(connection: socket.socket, header: Mapping[str, Any], blocks: Sequence[Any] = ()) -> None:
    """Sends a header, and blocks of bytes that it tells of."""
    for each in framed(header, blocks):
        connection.sendall(each)


def framed(header: Mapping[str, Any], blocks: Sequence[Any] = ()) -> Iterator[Any]:
    """A header and blocks as the bytes that are sent, in parts."""
    text = json.dumps(header).encode()
    yield f"{len(text):0{_LENGTHS}d}".encode() + text
    yield from blocks


def receive(read: Read) -> dict[str, Any]:
    """A header, by a function that reads so many bytes.

    Raises:
        ValueError: It is none.
        OSError: The other end is closed.
    """
    size = int(read(_LENGTHS))
    if not 0 < size <= _MOST_HEADER:
        raise ValueError("the header has no length")
    header = json.loads(bytes(read(size)))
    if not isinstance(header, dict):
        raise ValueError("the header is no object")
    return header


def received(connection: socket.socket, size: int, deadline: float) -> bytearray:
    """So many bytes.

    Raises:
        TimeoutError: They are not there before the deadline, which is a `time.monotonic`.
        OSError: The other end is closed.
    """
    data = bytearray(size)
    view = memoryview(data)
    while view:
        connection.settimeout(max(deadline - time.monotonic(), 1e-3))
        count = connection.recv_into(view)
        if count == 0:
            raise ConnectionResetError("the other end is closed")
        view = view[count:]
    return data


def until_closed(connection: socket.socket) -> Read:
    """Reads for a worker, which ends when the other end is closed."""

    def read(size: int) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            count = connection.recv_into(view)
            if count == 0:
                raise SystemExit(0)
            view = view[count:]
        return data

    return read
