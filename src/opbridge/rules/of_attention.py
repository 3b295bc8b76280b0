"""Rules on Attention, for the targets whose facts name them."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from opbridge.onnx.shapes import Sizes
from opbridge.rules.looking import Looked, type_name
from opbridge.rules.rule import Hit, NodeRule

__all__ = ["RULES"]

_WITH_KERNEL = ("float16", "bfloat16")
_WITHOUT_KERNEL = ("float32", "float64")
_SMALLEST, _LARGEST = 9, 256


class AttentionKernel(NodeRule):
    """An Attention that has no kernel, and that is not computed in other operators.

    What TensorRT-RTX 1.7.1 was seen to do:

    1. float16 and bfloat16 have kernels for heads of more than 8 elements, and 256 at most.
    2. One query is computed without a kernel.
    3. So is attention of rank 3 and known sizes, with computed keys and values, without a mask, causality or grouped
       heads.
    """

    identifier = "attention-kernel"
    title = "An Attention for which the target has no kernel"
    why = "The target has kernels for some types and sizes of heads only, and does not compute the rest in others."
    remedy = "Compute it with MatMul and Softmax, or in float16 or bfloat16 with heads of 9 to 256 elements."
    operators = frozenset({"Attention"})

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        queries, keys = (looked.input(node, name) for name in ("Q", "K"))
        shape = looked.shape(queries)
        if queries is None or keys is None or queries.dtype is None or shape is None or len(shape) not in (3, 4):
            return
        if shape[-2] == 1 or _is_composed(node, looked, shape):
            return
        found, size = type_name(queries.dtype), _head_size(node, looked, shape)
        if found in _WITHOUT_KERNEL:
            yield Hit(f"Attention is in {found}.", node)
        elif found in _WITH_KERNEL and isinstance(size, int) and not _SMALLEST <= size <= _LARGEST:
            yield Hit(f"Attention is in {found}, with heads of {size} elements.", node)


def _is_composed(node: ir.Node, looked: Looked, queries: Sizes) -> bool:
    """Whether the target computes an attention in other operators."""
    values = [looked.input(node, name) for name in ("K", "V")]
    shapes = [queries, *(looked.shape(each) for each in values)]
    return (
        len(queries) == 3
        and all(each is not None and all(isinstance(size, int) for size in each) for each in shapes)
        and not any(each is not None and looked.is_known(each) for each in values)
        and looked.input(node, "attn_mask") is None
        and looked.input(node, "nonpad_kv_seqlen") is None
        and not looked.attribute(node, "is_causal")
        and looked.attribute(node, "q_num_heads") == looked.attribute(node, "kv_num_heads")
    )


def _head_size(node: ir.Node, looked: Looked, queries: Sizes) -> int | str | None:
    heads = looked.attribute(node, "q_num_heads")
    if len(queries) == 4:
        return queries[-1]
    whole = queries[-1]
    return whole // heads if isinstance(whole, int) and isinstance(heads, int) and heads else None


class AttentionShapes(NodeRule):
    """An Attention whose values have another shape than its keys, or whose mask is shorter than they are."""

    identifier = "attention-shapes"
    title = "An Attention whose values or mask have another size than its keys"
    why = "The target requires one shape for keys and values, and a mask that broadcasts to all of them."
    remedy = "Compute it with MatMul and Softmax, or pad the values or the mask."
    operators = frozenset({"Attention"})

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        keys, values, mask = (looked.shape(looked.input(node, name)) for name in ("K", "V", "attn_mask"))
        if keys is None:
            return
        if values is not None and len(keys) == len(values) and any(map(_differ, keys, values)):
            yield Hit(f"Attention has keys of shape {_text(keys)} and values of shape {_text(values)}.", node)
        elif mask and len(keys) > 1 and mask[-1] != 1 and _differ(mask[-1], keys[-2]):
            yield Hit(f"Attention has {keys[-2]} keys, and a mask for {mask[-1]} of them.", node)


def _differ(one: int | str | None, other: int | str | None) -> bool:
    return isinstance(one, int) and isinstance(other, int) and one != other


def _text(shape: Sizes) -> str:
    return f"[{', '.join('?' if each is None else str(each) for each in shape)}]"


RULES: tuple[type[NodeRule], ...] = (AttentionKernel, AttentionShapes)
