"""What is known of the values of a graph before it runs: their types, and their sizes for some inputs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import onnx
import torch

from opbridge.base.dtypes import onnx_dtype
from opbridge.conversion.types import inferred, lean
from opbridge.onnx.subgraphs import GraphIndex, bodies

__all__ = ["coarsest", "known_types", "random_values", "size_of", "tensors", "typed"]

_UNKNOWN_BYTES = 1 << 16
_UNKNOWN_SIZE = 64

_RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)

_NO_TENSORS = frozenset(
    {"SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SplitToSequence", "SequenceMap"}
    | {"Optional", "OptionalGetElement", "ZipMap", "StringSplit", "StringConcat", "StringNormalizer", "CategoryMapper"}
)
"""Operators whose results are, or may be, no tensors of numbers."""


def known_types(
    index: GraphIndex, shapes: Mapping[str, Sequence[int]], *, isolated: bool = True
) -> dict[str, onnx.TypeProto]:
    """The types of values, with the shapes that they have for inputs of some shapes.

    Args:
        index: The model.
        shapes: The shapes of its inputs.
        isolated: Whether ONNX's inference runs in a process of its own.
    """
    found = {name: each.type for name, each in index.types.items() if each.type.WhichOneof("value")}
    model = lean(index.model)
    del model.graph.value_info[:]
    for value in model.graph.input:
        if value.name in shapes:
            element = value.type.tensor_type.elem_type
            value.CopyFrom(onnx.helper.make_tensor_value_info(value.name, element, list(shapes[value.name])))
    for value in model.graph.output:
        if value.type.WhichOneof("value") == "tensor_type":
            value.type.tensor_type.ClearField("shape")
    result = inferred(model, isolated=isolated)
    if result is not None:
        for value in (*result.graph.value_info, *result.graph.output):
            if value.type.WhichOneof("value"):
                found[value.name] = value.type
    return found


def tensors(index: GraphIndex, types: Mapping[str, onnx.TypeProto]) -> list[str]:
    """The names of the values that nodes give and that are, as far as is known, tensors of numbers, in order."""
    found = []
    for node in index.nodes:
        for name in filter(None, node.output):
            known = types.get(name)
            if known is None:
                if node.op_type in _NO_TENSORS:
                    continue
            elif known.WhichOneof("value") != "tensor_type" or known.tensor_type.elem_type == onnx.TensorProto.STRING:
                continue
            found.append(name)
    return found


def size_of(known: onnx.TypeProto | None) -> int:
    """The bytes of a value of a type; a guess where its shape is not known."""
    if known is None or not known.tensor_type.HasField("shape"):
        return _UNKNOWN_BYTES
    sizes = [each.dim_value if each.HasField("dim_value") else _UNKNOWN_SIZE for each in known.tensor_type.shape.dim]
    try:
        width = onnx.helper.tensor_dtype_to_np_dtype(known.tensor_type.elem_type).itemsize
    except (KeyError, TypeError, ValueError):
        width = 8
    return max(1, width * math.prod(sizes))


def random_values(index: GraphIndex) -> set[str]:
    """The names of the values that are others in each run: what draws numbers, and what depends on that."""
    functions = {(each.domain, each.name): each for each in index.model.functions}
    known: dict[tuple[str, str], bool] = {}

    def draws(node: onnx.NodeProto) -> bool:
        key = node.domain, node.op_type
        if key in functions:
            if key not in known:
                known[key] = False  # a function that calls itself is refused elsewhere
                known[key] = any(map(draws, functions[key].node))
            return known[key]
        if node.domain in ("", "ai.onnx"):
            if node.op_type in _RANDOM:
                return True
            if node.op_type == "Dropout" and len(node.input) > 2 and node.input[2]:
                training = index.constants.get(node.input[2])
                return training is None or bool(onnx.numpy_helper.to_array(training).any())
        return any(draws(inner) for body in bodies(node) for inner in body.node)

    found: set[str] = set()
    for node, read in zip(index.nodes, index.reads, strict=True):
        if draws(node) or not found.isdisjoint(read):
            found.update(filter(None, node.output))
    return found


def coarsest(index: GraphIndex, types: Mapping[str, onnx.TypeProto]) -> torch.dtype | None:
    """The floating type of the fewest digits that a graph computes in; None where all of them are float32 or wider."""
    elements = {known.tensor_type.elem_type for known in types.values()}
    elements.update(each.data_type for each in index.constants.values())
    if onnx.TensorProto.BFLOAT16 in elements:
        return torch.bfloat16
    return torch.float16 if onnx.TensorProto.FLOAT16 in elements else None


def typed(model: onnx.ModelProto, inputs: Mapping[str, torch.Tensor], outputs: Mapping[str, torch.Tensor]) -> None:
    """Gives the inputs and outputs of a part the types of tensors."""
    for values, tensors_ in ((model.graph.input, inputs), (model.graph.output, outputs)):
        for value in values:
            tensor = tensors_.get(value.name)
            if tensor is not None:
                made = onnx.helper.make_tensor_value_info(value.name, int(onnx_dtype(tensor.dtype)), list(tensor.shape))
                value.CopyFrom(made)
