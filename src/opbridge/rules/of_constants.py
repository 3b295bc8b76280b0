"""Rules on the constants of a model, for the targets whose facts name them."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from opbridge.rules.looking import Looked, name_of
from opbridge.rules.rule import Hit, NodeRule

__all__ = ["RULES"]

_READS_THEM = {"DequantizeLinear", "QuantizeLinear", "Clip"}


class QuantizedConstant(NodeRule):
    """A constant of int8 that something other than its dequantisation reads."""

    identifier = "quantized-constant"
    title = "A constant of int8 that is not dequantized at once"
    why = "The target takes constants of int8 for quantized numbers, and requires DequantizeLinear directly after them."
    remedy = "Store the constant in int32, or dequantize it before anything else is computed from it."

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        if name_of(node) in _READS_THEM or node.op_type == "Constant":
            return
        for value in node.inputs:
            if value is not None and value.dtype == ir.DataType.INT8 and looked.is_stored(value):
                yield Hit(f"{node.op_type} reads '{value.name}', a constant of int8.", node)


class DequantizedUint8(NodeRule):
    """A DequantizeLinear of uint8 that does not stand directly after its QuantizeLinear."""

    identifier = "dequantized-uint8"
    title = "A DequantizeLinear of uint8 that is not computed by QuantizeLinear"
    why = "The target has uint8 between QuantizeLinear and DequantizeLinear only, where it computes in int8."
    remedy = "Quantize to int8, with zero points of 0."
    operators = frozenset({"DequantizeLinear"})

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        value = node.inputs[0] if node.inputs else None
        if value is None or value.dtype != ir.DataType.UINT8:
            return
        producer = value.producer()
        if producer is None or producer.op_type != "QuantizeLinear":
            yield Hit(f"DequantizeLinear reads '{value.name}', which is of uint8.", node)


class QuantizedUint8(NodeRule):
    """A QuantizeLinear to uint8."""

    identifier = "quantized-uint8"
    title = "A QuantizeLinear to uint8, whose upper half the target does not have"
    why = "The target quantizes to int8 in the place of uint8, so that numbers above 127 become 127."
    remedy = "Quantize to int8, with zero points of 0."
    operators = frozenset({"QuantizeLinear"})

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        if node.outputs and node.outputs[0].dtype == ir.DataType.UINT8:
            yield Hit(f"QuantizeLinear gives '{node.outputs[0].name}', which is of uint8.", node)


RULES: tuple[type[NodeRule], ...] = (QuantizedConstant, DequantizedUint8, QuantizedUint8)
