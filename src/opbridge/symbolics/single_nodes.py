"""The routes `aten` and `fallthrough` in a trace: symbolic functions that build one node for an operator.

The nodes are those of `opbridge.nodes.aten_node` and `opbridge.nodes.fallthrough_node`, which
`opbridge.nodes.operator_nodes` builds from a capture.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from opbridge.base.dtypes import onnx_dtype
from opbridge.base.torch_private import torch_operators
from opbridge.errors import TranslationError
from opbridge.nodes import aten_node, fallthrough_node
from opbridge.nodes.aten_node import Input
from opbridge.onnx.builder import Builder
from opbridge.onnx.tensor import Tensor
from opbridge.onnx.torch_tensor import TorchTensor
from opbridge.symbolics.arguments import Constant, Misfit, RuntimeValue, choose, read
from opbridge.symbolics.emitting import emit

__all__ = ["as_node"]


def as_node(name: str, route: str) -> Callable[..., Any] | None:
    """A symbolic function for an operator that builds the node of a route.

    Args:
        name: The operator's base name.
        route: "aten" or "fallthrough".

    Returns:
        None where torch's dispatcher has no operator of that name.
    """
    overloads = torch_operators.overloads(name)
    if not overloads:
        return None

    def symbolic(g: Any, *arguments: Any, **attributes: Any) -> Any:
        originals = list(g.original_node.inputs())
        if len(originals) != len(arguments):
            originals = [None] * len(arguments)
        given = [read(g.graph, value, original) for value, original in zip(arguments, originals, strict=True)]
        try:
            operator, _, chosen = choose(
                [(key, target._schema) for key, target in overloads.items()], given, g.original_node.schema()
            )
        except Misfit as misfit:
            raise TranslationError(f"No overload of {name} matches: {misfit}.") from misfit
        return _Node(g, overloads[operator], route).run(chosen)

    return symbolic


class _Node:
    def __init__(self, g: Any, target: Any, route: str) -> None:
        self.g, self.target, self.route = g, target, route
        self.builder = Builder(g.opset)
        self.known: dict[int, Any] = {}

    def run(self, arguments: Sequence[Any]) -> Any:
        parameters = [each for each in self.target._schema.arguments if not each.is_out]
        named = {each.name: self.given(value) for each, value in zip(parameters, arguments, strict=True)}
        dtypes = [value.type().dtype() for value in self.g.original_node.outputs()]
        if None in dtypes:
            raise TranslationError("The trace does not know the dtypes of its results.")
        if self.route == "aten":
            results = [torch.empty((), dtype=dtype, device="meta") for dtype in dtypes]
            encoded: Any = aten_node.encode(self.target, (), named, results[0] if len(results) == 1 else results)
            domain, op_type = aten_node.DOMAIN, aten_node.OP_TYPE
        else:
            encoded = fallthrough_node.encode(self.target, (), named)
            domain, op_type = encoded.domain, encoded.op_type
        inputs = [self.as_input(value) for value in encoded.inputs]
        types = [onnx_dtype(dtype) for dtype in dtypes]
        made = self.builder.node(op_type, inputs, encoded.attributes, types, domain=domain)
        values = emit(self.g, self.builder, made, self.known)
        return values[0] if len(values) == 1 else values

    def given(self, argument: Any) -> Any:
        """An argument in the form of the encoders of nodes."""
        if isinstance(argument, list):
            return [self.given(item) for item in argument]
        if isinstance(argument, Constant):
            data = TorchTensor(argument.tensor)
            return Input("tensor", self.builder.constant(data.numpy(), data.dtype))
        if isinstance(argument, RuntimeValue):
            if argument.dtype is None:
                raise TranslationError("The trace does not know the dtype of an input.")
            value = self.builder.value(self.builder.unique("input"), onnx_dtype(argument.dtype), None)
            self.known[id(value)] = argument.value
            return Input("tensor", value)
        return argument

    def as_input(self, value: Any) -> Tensor | None:
        if isinstance(value, list):
            raise TranslationError("A list of numbers that are computed at run time is not supported in a trace.")
        return value
