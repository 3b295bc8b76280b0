"""Rules on forms that a kernel of a target computes wrongly, for the targets whose facts name them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import onnx_ir as ir

from opbridge.rules.looking import Looked
from opbridge.rules.rule import Hit, NodeRule

__all__ = ["RULES"]

_WIDEST = 2048
"""Whole numbers up to here are float16 numbers too."""

_BROADCASTING = frozenset(
    {"Add", "Div", "Mul", "Sub", "Pow", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"}
)


class DilatedMaxPool(NodeRule):
    """A MaxPool with dilations and padding in front."""

    identifier = "dilated-max-pool"
    title = "A MaxPool with dilations and padding at the beginning"
    why = "The target's kernel moves the windows that begin in the padding, and computes other maxima than ONNX."
    remedy = "Pad with the least number before the pool, or leave out the dilations."
    operators = frozenset({"MaxPool"})

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        dilations, (begin, _) = _numbers(node, looked, "dilations"), _pads(node, looked)
        if any(wide > 1 and pad for wide, pad in zip(dilations, begin, strict=False)):
            yield Hit(f"MaxPool has dilations={dilations} and pads={begin} at the beginning.", node)


class UnevenAveragePool(NodeRule):
    """An AveragePool whose windows are no plain ones."""

    identifier = "uneven-average-pool"
    title = "An AveragePool with asymmetric padding or dilations"
    why = "The target's kernel uses the padding of the beginning for the end too, and ignores dilations."
    remedy = "Pad before the pool, or use the same padding at both ends."
    operators = frozenset({"AveragePool"})

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        begin, end = _pads(node, looked)
        padding, dilations = looked.attribute(node, "auto_pad"), _numbers(node, looked, "dilations")
        if begin != end:
            yield Hit(f"AveragePool has pads={begin} at the beginning and {end} at the end.", node)
        elif isinstance(padding, str) and padding.startswith("SAME"):
            yield Hit(f"AveragePool has auto_pad={padding}.", node)
        elif any(each > 1 for each in dilations):
            yield Hit(f"AveragePool has dilations={dilations}.", node)
        elif looked.attribute(node, "ceil_mode"):
            yield Hit("AveragePool has ceil_mode=1.", node)


class SingleCausalQuery(NodeRule):
    """A causal Attention of one query, without earlier keys."""

    identifier = "single-causal-query"
    title = "A causal Attention of one query and several keys, without past keys"
    why = "By ONNX the query is the first one and sees the first key alone; the target lets it see all of them."
    remedy = "Give past_key and past_value, or give attn_mask in place of is_causal."
    operators = frozenset({"Attention"})

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        if looked.attribute(node, "is_causal") != 1:
            return
        if any(looked.input(node, name) is not None for name in ("past_key", "nonpad_kv_seqlen")):
            return
        queries, keys = (_last_but_one(looked.shape(looked.input(node, name))) for name in ("Q", "K"))
        if queries == 1 and isinstance(keys, int) and keys > 1:
            yield Hit(f"Attention is causal, with one query and {keys} keys.", node)


class SeveralSums(NodeRule):
    """Several CumSum that go along other axes, or in other directions."""

    identifier = "several-sums"
    title = "CumSum nodes of different axes or directions in one model"
    why = "The target computes all of them along the axis and in the direction of one of them."
    remedy = "Use one axis and direction, or compute the sums by products with triangular matrices."
    operators = frozenset({"CumSum"})

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        form, first = (_form_of_sum(each, looked) for each in (node, looked.first_of["CumSum"]))
        if form and first and form != first:
            yield Hit(f"CumSum has {form}, and the first CumSum of the model has {first}.", node)


class SameUpperStrides(NodeRule):
    """A convolution with strides that is padded as its output needs."""

    identifier = "same-upper-strides"
    title = "A convolution with auto_pad=SAME_UPPER and strides above 1"
    why = "The target computes other padding at the beginning than ONNX."
    remedy = "Give the padding as pads."
    operators = frozenset({"Conv", "ConvTranspose"})

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        strides = _numbers(node, looked, "strides")
        if looked.attribute(node, "auto_pad") == "SAME_UPPER" and any(each > 1 for each in strides):
            yield Hit(f"{node.op_type} has auto_pad=SAME_UPPER and strides={strides}.", node)


class WideFloat16Transpose(NodeRule):
    """A ConvTranspose in float16 to large sizes."""

    identifier = "wide-conv-transpose"
    title = "A ConvTranspose in float16 whose output is larger than 2048"
    why = "The target computes places in float16, in which not all whole numbers above 2048 exist."
    remedy = "Compute the ConvTranspose in float32."
    operators = frozenset({"ConvTranspose"})

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        value = node.inputs[0]
        sizes = (looked.shape(node.outputs[0]) or [])[2:]
        if value is not None and value.dtype == ir.DataType.FLOAT16:
            if large := [each for each in sizes if isinstance(each, int) and each > _WIDEST]:
                yield Hit(f"ConvTranspose in float16 has an output of {max(large)} elements along a dimension.", node)


class LowRankBroadcast(NodeRule):
    """Two tensors that differ in leading dimensions of 1 alone."""

    identifier = "low-rank-broadcast"
    title = "Tensors of different rank that differ only in leading dimensions of 1"
    why = "The target counts more common dimensions than the tensor of lower rank has, and stops when it runs."
    remedy = "Use Unsqueeze, so that both have the same number of dimensions."
    operators = _BROADCASTING

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        shapes = [list(shape) for each in node.inputs if (shape := looked.shape(each)) is not None]
        if len(shapes) != 2:
            return
        low, high = sorted(shapes, key=len)
        ones = [*([1] * (len(high) - len(low))), *low]
        common = 1
        counted = 0
        for one, other in zip(reversed(ones[1:]), reversed(high[1:]), strict=True):
            if one != other or not isinstance(one, int):
                break
            common, counted = common * one, counted + 1
        if counted > len(low) and common % 4 == 0:
            yield Hit(f"{node.op_type} has inputs of {low} and {high}.", node)


class BroadcastSkip(NodeRule):
    """A fused sum and normalisation whose summands differ in shape."""

    identifier = "broadcast-skip"
    title = "A SkipLayerNormalization whose skip connection broadcasts"
    why = "The target reads it as if it had the shape of the input."
    remedy = "Expand the skip connection to the shape of the input."
    operators = frozenset({"com.microsoft::SkipLayerNormalization", "com.microsoft::SkipSimplifiedLayerNormalization"})

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        data, skip = (looked.shape(each) for each in node.inputs[:2])
        if data is None or skip is None:
            return
        if len(data) != len(skip) or any(one == 1 and other != 1 for one, other in zip(skip, data, strict=True)):
            yield Hit(f"{node.op_type} adds a tensor of {list(skip)} to one of {list(data)}.", node)


def _form_of_sum(node: ir.Node, looked: Looked) -> str:
    """The axis of a CumSum, counted from the first dimension, and its direction; "": they are not known."""
    known = looked.constant(node.inputs[1]) if len(node.inputs) > 1 else None
    shape = looked.shape(node.inputs[0])
    if known is None or known.size != 1 or not shape:
        return ""
    return f"axis={int(known.reshape(())) % len(shape)} and reverse={looked.attribute(node, 'reverse')}"


def _numbers(node: ir.Node, looked: Looked, name: str) -> list[int]:
    found: Any = looked.attribute(node, name)
    return [*found] if isinstance(found, Sequence) and not isinstance(found, str) else []


def _pads(node: ir.Node, looked: Looked) -> tuple[list[int], list[int]]:
    """The padding at the beginning, and at the end."""
    pads = _numbers(node, looked, "pads")
    return pads[: len(pads) // 2], pads[len(pads) // 2 :]


def _last_but_one(shape: Any) -> Any:
    return shape[-2] if shape is not None and len(shape) > 1 else None


RULES: tuple[type[NodeRule], ...] = (
    DilatedMaxPool,
    UnevenAveragePool,
    SingleCausalQuery,
    SeveralSums,
    SameUpperStrides,
    WideFloat16Transpose,
    LowRankBroadcast,
    BroadcastSkip,
)
