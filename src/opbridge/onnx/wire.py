"""The little of protobuf's wire format that opbridge writes and reads by hand.

Weights do not go through protobuf: its serializer copies them several times. Reading goes by hand where only the
outline of a file matters, which may be far larger than what is to be read of it.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator

__all__ = ["GRAPH", "INITIALIZER", "METADATA", "OPSET", "RAW_DATA", "fields", "lead", "varint"]

# Field numbers of onnx.proto: ModelProto.graph, opset_import and metadata_props, GraphProto.initializer,
# TensorProto.raw_data.
GRAPH = 7
OPSET = 8
METADATA = 14
INITIALIZER = 5
RAW_DATA = 9

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5


def varint(number: int) -> bytes:
    """A non-negative integer in base 128, the lowest digits first."""
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)


def lead(field: int, length: int) -> bytes:
    """What stands before the `length` bytes of a message, string or bytes field."""
    return varint(field << 3 | _LENGTH) + varint(length)


def _read_varint(buffer: bytes | mmap.mmap, position: int, end: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 70, 7):
        if position >= end:
            raise ValueError("the message ends inside a number")
        digit = buffer[position]
        position += 1
        number |= (digit & 0x7F) << shift
        if digit < 0x80:
            return number, position
    raise ValueError("a number is longer than ten bytes")


def fields(buffer: bytes | mmap.mmap, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """The fields of the message at `buffer[start:end]`: number, and where the content starts and ends.

    The content's end may lie beyond `end` in the last field, which tells that the message was cut off.

    Raises:
        ValueError: This is no protobuf message.
    """
    while start < end:
        tag, start = _read_varint(buffer, start, end)
        number, kind = tag >> 3, tag & 7
        if not number:
            raise ValueError("a field has the number 0")
        if kind == _VARINT:
            stop = _read_varint(buffer, start, end)[1]
        elif kind == _LENGTH:
            length, start = _read_varint(buffer, start, end)
            stop = start + length
        elif kind in (_FIXED64, _FIXED32):
            stop = start + (8 if kind == _FIXED64 else 4)
        else:
            raise ValueError(f"field {number} has the unknown kind {kind}")
        yield number, start, stop
        start = stop
