"""The part of protobuf's wire format that opbridge writes and reads without protobuf.

Weights are not serialized by protobuf, which copies them several times. Files are read without it where only a few
fields of a large file are needed.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator

__all__ = ["GRAPH", "INITIALIZER", "METADATA", "OPSET", "RAW_DATA", "field_header", "fields", "varint"]

# Field numbers of onnx.proto: ModelProto.graph, opset_import and metadata_props, GraphProto.initializer,
# TensorProto.raw_data.
GRAPH = 7
OPSET = 8
METADATA = 14
INITIALIZER = 5
RAW_DATA = 9

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5


def varint(number: int) -> bytes:
    """A non-negative integer in base 128, the least significant digits first."""
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)


def field_header(field: int, length: int) -> bytes:
    """The tag and the length that precede the content of a message, string or bytes field of `length` bytes."""
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
    """The fields of the message at `buffer[start:end]`.

    Yields:
        The number of the field, and the offsets at which its content starts and ends. The end of the last field lies
        beyond `end` if the message is truncated.

    Raises:
        ValueError: The bytes are no protobuf message.
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
