"""A large model file without its weights in memory: they are read from the file when they are needed."""

from __future__ import annotations

import mmap
import os

import onnx
import onnx_ir as ir

from opbridge.onnx.wire import GRAPH, INITIALIZER, RAW_DATA, field_header, fields, varint

__all__ = ["content", "load"]

_LEAST_BYTES = 1 << 26
"""Smaller files are read as a whole."""

_LEAST_WEIGHT = 1 << 12

# Field numbers of onnx.proto: TensorProto.external_data and data_location, StringStringEntryProto.key and value.
_EXTERNAL, _LOCATION = 13, 14
_KEY, _VALUE = 1, 2


def load(path: str) -> ir.Model | None:
    """The model in a file; None where it is to be read as a whole.

    Args:
        path: The path of the file.
    """
    light = content(path)
    return None if light is None else ir.from_proto(onnx.ModelProto.FromString(light))


def content(path: str) -> bytes | None:
    """The content of a file with places in it for the data of its weights; None where it is to be read as a whole.

    Args:
        path: The path of the file. It is the location of these weights, from the root.
    """
    path = os.path.abspath(path)
    try:
        if os.path.getsize(path) < _LEAST_BYTES:
            return None
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            return _without_weights(mapped, path)
    except (OSError, ValueError):  # no protobuf message, which is for the reader of whole files to say
        return None


def _without_weights(content: mmap.mmap, path: str) -> bytes | None:
    """The content of a file with places in that file for the data of its weights."""
    parts: list[bytes] = []
    start, graphs = 0, 0
    for number, begin, end in fields(content, 0, len(content)):
        if end > len(content):
            return None
        if number == GRAPH:
            graphs += 1
            graph = _graph(content, begin, end, path)
            parts += [field_header(GRAPH, len(graph)), graph]
        else:
            parts.append(content[start:end])
        start = end
    return b"".join(parts) if graphs == 1 else None


def _graph(content: mmap.mmap, begin: int, end: int, path: str) -> bytes:
    parts: list[bytes] = []
    start = begin
    for number, first, last in fields(content, begin, end):
        if last > end:
            raise ValueError("the graph is truncated")
        if number == INITIALIZER and last - first >= _LEAST_WEIGHT:
            tensor = _tensor(content, first, last, path)
            parts += [field_header(INITIALIZER, len(tensor)), tensor]
        else:
            parts.append(content[start:last])
        start = last
    return b"".join(parts)


def _tensor(content: mmap.mmap, begin: int, end: int, path: str) -> bytes:
    parts: list[bytes] = []
    start = begin
    raw: list[tuple[int, int]] = []
    for number, first, last in fields(content, begin, end):
        if last > end:
            raise ValueError("a weight is truncated")
        if number in (_EXTERNAL, _LOCATION):  # its data are somewhere else
            return content[begin:end]
        if number == RAW_DATA:
            raw.append((first, last - first))
        else:
            parts.append(content[start:last])
        start = last
    if len(raw) != 1:
        return content[begin:end]
    offset, length = raw[0]
    for key, value in (("location", path), ("offset", str(offset)), ("length", str(length))):
        texts = [key.encode(), os.fsencode(value)]
        entry = b"".join(field_header(at, len(text)) + text for at, text in zip((_KEY, _VALUE), texts, strict=True))
        parts.append(field_header(_EXTERNAL, len(entry)) + entry)
    parts.append(varint(_LOCATION << 3) + varint(onnx.TensorProto.EXTERNAL))
    return b"".join(parts)
