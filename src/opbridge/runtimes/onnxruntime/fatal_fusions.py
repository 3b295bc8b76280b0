"""The optimisations of ONNX Runtime that end the process on a model, found from its bytes before it is loaded.

MatmulTransposeFusion merges a Transpose that moves the first dimension into the MatMul that reads it. Where a Cast
stands between the two and the other operand has not the same number of dimensions, it reads a value that is not there
(seen with 1.24 to 1.32). ONNX Runtime itself puts such a Cast before a MatMul of float16 on the CPU, and merges
Transposes of which none moves the last one; `missing_types` puts Casts around nodes of bfloat16. So not only the nodes
in the file count: the fusion is left out where a model has a Transpose that moves the first dimension, a MatMul, and a
Cast, float16 or bfloat16.
"""

from __future__ import annotations

import itertools
import mmap
from collections.abc import Iterator

from opbridge.onnx.wire import GRAPH, INITIALIZER, fields
from opbridge.runtimes.onnxruntime.model_file import read_by_hand

__all__ = ["fatal_optimisations"]

_FUSION = "MatmulTransposeFusion"

# Nobody waits for a model of more parts to be read by hand, or of a node with more fields: the fusion is left out then.
_MOST_PARTS, _MOST_FIELDS = 1 << 19, 256

# Field numbers of onnx.proto: ModelProto.functions, GraphProto.node and input, FunctionProto.node, NodeProto.attribute,
# AttributeProto.name and ints.
_FUNCTIONS, _NODE, _INPUT, _FUNCTION_NODE, _ATTRIBUTE, _NAME, _INTS = 25, 1, 11, 7, 5, 1, 8
_OTHER = 0

# TensorProto.data_type; ValueInfoProto.type, TypeProto.tensor_type, TypeProto.Tensor.elem_type.
_OF_WEIGHT, _OF_INPUT = (2,), (2, 1, 1)

_HALVES = (10, 16)
"""float16 and bfloat16."""


def _operator(name: str) -> bytes:
    """NodeProto.op_type, as it stands in a node or in a body of it."""
    return bytes((0x22, len(name))) + name.encode()


_TRANSPOSE, _MATMUL, _CAST = map(_operator, ("Transpose", "MatMul", "Cast"))
_WITH_BODIES = tuple(map(_operator, ("If", "Loop", "Scan", "SequenceMap")))


def fatal_optimisations(model: str | bytes) -> list[str]:
    """The names of the optimisations with which ONNX Runtime may end the process when it loads a model.

    Args:
        model: The path of the file, or its content. A damaged one has none: ONNX Runtime reports the damage.
    """
    return read_by_hand(model, _of)


def _of(content: bytes | mmap.mmap) -> list[str]:
    moves = multiplies = casts = False
    for count, (kind, start, stop) in enumerate(_parts(content)):
        if count == _MOST_PARTS:
            return [_FUSION]
        if kind == _NODE:
            node = content[start:stop]
            moves = moves or (_TRANSPOSE in node and _moves_first(node))
            multiplies = multiplies or _MATMUL in node
            casts = casts or _CAST in node
        elif not casts and kind in (INITIALIZER, _INPUT):
            casts = _is_half(content, start, stop, _OF_WEIGHT if kind == INITIALIZER else _OF_INPUT)
        if moves and multiplies and casts:
            return [_FUSION]
    return []


def _parts(content: bytes | mmap.mmap) -> Iterator[tuple[int, int, int]]:
    """The parts of a model's graph, by the numbers of their fields, and the nodes of its functions; with their offsets.

    Any other part has the number `_OTHER`.
    """
    for number, begin, end in fields(content, 0, len(content)):
        if number == GRAPH:
            yield from fields(content, begin, end)
        elif number == _FUNCTIONS:
            for kind, start, stop in fields(content, begin, end):
                yield _NODE if kind == _FUNCTION_NODE else _OTHER, start, stop
        else:
            yield _OTHER, begin, end


def _moves_first(node: bytes) -> bool:
    """Whether a Transpose moves the first dimension; of a node with bodies, whether one of them may."""
    if any(each in node for each in _WITH_BODIES):
        return True
    for number, begin, end in itertools.islice(fields(node, 0, len(node)), _MOST_FIELDS):
        if number == _ATTRIBUTE:
            parts = list(itertools.islice(fields(node, begin, end), _MOST_FIELDS))
            if any(kind == _NAME and node[start:stop] == b"perm" for kind, start, stop in parts):
                first = next((start for kind, start, _ in parts if kind == _INTS), None)
                return first is not None and node[first] != 0
    return True  # without the attribute the dimensions are reversed


def _is_half(content: bytes | mmap.mmap, start: int, stop: int, path: tuple[int, ...]) -> bool:
    """Whether the type that a message has at the end of a path of fields is float16 or bfloat16."""
    for number, begin, end in itertools.islice(fields(content, start, stop), _MOST_FIELDS):
        if number == path[0]:
            return content[begin] in _HALVES if len(path) == 1 else _is_half(content, begin, end, path[1:])
    return False
