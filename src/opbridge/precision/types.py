"""Which values of a model are tensors of float32, also where ONNX's inference does not say it."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping

import onnx
import onnx_ir as ir

from opbridge.conversion import schemas
from opbridge.conversion.types import Types

__all__ = ["FUSED_FORMS", "Floats", "bodies", "graphs"]

FUSED_FORMS = {
    ("com.microsoft", "GroupQueryAttention"): ("float16",),
    ("com.microsoft", "RotaryEmbedding"): ("float16",),
    ("com.microsoft", "SkipSimplifiedLayerNormalization"): ("float16", "bfloat16"),
}
"""ONNX Runtime's fused forms that opbridge writes, with the types that the CPU has kernels for. All of their values
have the type of the first input, but for lengths and positions, which are integers; sums are computed in float32."""


def bodies(node: ir.Node) -> Iterator[ir.Graph]:
    """The graphs that a node holds."""
    for attribute in node.attributes.values():
        if attribute.is_ref():
            continue
        if attribute.type == ir.AttributeType.GRAPH:
            yield attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS:
            yield from attribute.as_graphs()


def graphs(graph: ir.Graph) -> Iterator[ir.Graph]:
    """A graph and all that its nodes hold, the outer ones first."""
    yield graph
    for node in graph:
        for body in bodies(node):
            yield from graphs(body)


class Floats:
    """The values of a model that are tensors of float32.

    Args:
        model: The model, without functions.
        types: What inference says.
        opset: Its opset.
    """

    def __init__(self, model: ir.Model, types: Types, opset: int) -> None:
        self._types, self._opset = types, opset
        self._dtypes: dict[ir.Value, ir.DataType | None] = {}
        self.fill(model.graph)

    def __contains__(self, value: ir.Value | None) -> bool:
        return value is not None and self.dtype(value) == ir.DataType.FLOAT

    def dtype(self, value: ir.Value) -> ir.DataType | None:
        """The type of a tensor's elements; None where it is none, or where its type is not known."""
        if value not in self._dtypes:
            self._dtypes[value] = self._types.dtype(value)
        return self._dtypes[value]

    def is_other(self, value: ir.Value) -> bool:
        """Whether a value is known to be no tensor: a sequence, an optional."""
        found = self._types.of(value)
        return found is not None and not found.HasField("tensor_type")

    def note(self, value: ir.Value, dtype: ir.DataType) -> None:
        """Notes the type of a value that is added."""
        self._dtypes[value] = dtype

    def unknown(self, graph: ir.Graph) -> list[ir.Value]:
        """The outputs of nodes of a graph whose types are not known."""
        made = [each for node in graph for each in node.outputs if each.name]
        return [each for each in made if self.dtype(each) is None and not self.is_other(each)]

    def of_copy(self, values: Mapping[ir.Value, ir.Value]) -> Floats:
        """The same of a copy of the model.

        Args:
            values: What each value is in the copy.
        """
        made = copy.copy(self)
        made._dtypes = {twin: self.dtype(value) for value, twin in values.items()}
        return made

    def fill(self, graph: ir.Graph) -> None:
        """Gives outputs that inference left open the types that their operators' schemas give them."""
        for node in graph:
            for body in bodies(node):
                self.fill(body)
            if (node.domain, node.op_type) in FUSED_FORMS and node.inputs[0] is not None:
                for value in node.outputs:
                    self._dtypes[value] = self.dtype(value) or self.dtype(node.inputs[0])
            if node.domain not in ("", "ai.onnx"):
                continue
            schema = schemas.form(node.op_type, self._opset)
            if schema is None or all(self.dtype(each) or self.is_other(each) for each in node.outputs):
                continue
            known = dict(self._known(node, schema))
            for at, value in enumerate(node.outputs):
                parameter = schemas.type_of_value(schema, schema.outputs, at) if schema.outputs else None
                if parameter is None or self.dtype(value) is not None or self.is_other(value):
                    continue
                self._dtypes[value] = known.get(parameter.type_str) or _only(parameter.type_str)

    def _known(self, node: ir.Node, schema: onnx.defs.OpSchema) -> Iterator[tuple[str, ir.DataType]]:
        for at, value in enumerate(node.inputs):
            if value is not None and (dtype := self.dtype(value)) is not None:
                yield schemas.type_of_value(schema, schema.inputs, at).type_str, dtype
        to = node.attributes.get("to" if node.op_type == "Cast" else "dtype")
        if to is not None and not to.is_ref() and to.type == ir.AttributeType.INT and to.value:
            yield schema.outputs[0].type_str, ir.DataType(to.value)


def _only(text: str) -> ir.DataType | None:
    """The type that a parameter has where its schema permits one only: "tensor(float)"."""
    name = text.removeprefix("tensor(").removesuffix(")").upper()
    return ir.DataType[name] if name in ir.DataType.__members__ and text.startswith("tensor(") else None
