"""What a model file says of its inputs and outputs, whichever runtime loads it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import onnx

from opbridge.errors import ModelFileError
from opbridge.runtimes.arguments import ModelMetadata, NodeArgument

__all__ = ["Described", "described", "type_named"]

_TYPES = {"float": "float32", "double": "float64", "string": "str"}


@dataclass(frozen=True)
class Described:
    """A model without its weights.

    Attributes:
        inputs: Its inputs, without those that have a value in the file.
        outputs: Its outputs.
        metadata: What it says of itself.
        operators: The operators of its nodes outside of ONNX's own domain, as "mylib::foo", each with the name of its
            first node. Functions of the model are none of them.
    """

    inputs: list[NodeArgument]
    outputs: list[NodeArgument]
    metadata: ModelMetadata
    operators: dict[str, str]


def described(model: str | os.PathLike[str] | bytes) -> Described:
    """What a model says.

    Args:
        model: The path of the file, or its content.

    Raises:
        ModelFileError: It cannot be read.
    """
    try:
        proto = (
            onnx.ModelProto.FromString(model)
            if isinstance(model, bytes)
            else onnx.load(os.fspath(model), load_external_data=False)
        )
    except Exception as error:  # a damaged file raises anything
        label = "The model in memory" if isinstance(model, bytes) else os.fspath(model)
        said = " ".join(f"{type(error).__name__}: {error}".split())[:500]
        raise ModelFileError(f"{label} cannot be read as an ONNX model ({said}). Export or copy it again.") from None
    graph = proto.graph
    stored = {each.name for each in graph.initializer} | {each.values.name for each in graph.sparse_initializer}
    own = {(each.domain, each.name) for each in proto.functions}
    operators: dict[str, str] = {}
    for node in _nodes(graph):
        if node.domain not in ("", "ai.onnx") and (node.domain, node.op_type) not in own:
            operators.setdefault(f"{node.domain}::{node.op_type}", node.name)
    metadata = ModelMetadata(
        proto.producer_name,
        graph.name,
        proto.domain,
        proto.doc_string,
        graph.doc_string,
        proto.model_version,
        {each.key: each.value for each in proto.metadata_props},
    )
    inputs = [_argument(each) for each in graph.input if each.name not in stored]
    return Described(inputs, [_argument(each) for each in graph.output], metadata, operators)


def type_named(type_: str) -> str:
    """The dtype of a tensor by the name of its type: "float32" for "tensor(float)"; "" for what is no tensor."""
    if not type_.startswith("tensor("):
        return ""
    name = type_.removeprefix("tensor(").removesuffix(")")
    return _TYPES.get(name, name)


def _nodes(graph: Any) -> Any:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                yield from _nodes(body)


def _argument(value: Any) -> NodeArgument:
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        return NodeArgument(value.name, kind or "unknown", [])
    tensor = value.type.tensor_type
    name = onnx.TensorProto.DataType.Name(tensor.elem_type).lower()
    shape = [each.dim_value if each.HasField("dim_value") else each.dim_param or None for each in tensor.shape.dim]
    return NodeArgument(value.name, f"tensor({name})", shape)
