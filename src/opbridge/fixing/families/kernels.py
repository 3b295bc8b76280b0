"""Forms that a kernel of a target computes wrongly, in another form."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from opbridge.conversion.step import Step
from opbridge.fixing.site import Refused, Site, repair

_FLOATING = (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16)


@repair("dilated-max-pool")
def padded_before(site: Site) -> str:
    """The padding in front is elements that are never the greatest."""
    step = site.step()
    if step.is_used(1):
        raise Refused("with its output Indices")
    if step.dtype(step.data) not in _FLOATING or step.to < 11:
        raise Refused("of integers, or below opset 11")
    attributes = _attributes(site)
    pads = [*attributes.pop("pads")]
    half = len(pads) // 2
    least = step.number(-np.inf, step.dtype(step.data))
    padded = step.emit("Pad", step.data, [0, 0, *pads[:half], 0, 0, *([0] * half)], least)
    made = step.emit("MaxPool", padded, pads=[*([0] * half), *pads[half:]], **attributes)
    site.put(step, made)
    return "padded before MaxPool"


@repair("same-upper-strides")
def explicit_pads(site: Site) -> str:
    """The padding that auto_pad stands for is written out."""
    step = site.step()
    if site.node.op_type != "Conv":
        raise Refused("in this form")
    shape, weights = step.shape(step.data), step.shape(step.input(1))
    sizes = [] if shape is None else shape[2:]
    kernels = [] if weights is None else weights[2:]
    if not sizes or not all(isinstance(each, int) for each in (*sizes, *kernels)):
        raise Refused("of dynamic sizes")
    strides, dilations = (step.integers(each) or [1] * len(sizes) for each in ("strides", "dilations"))
    begin, end = [], []
    for size, kernel, stride, dilation in zip(sizes, kernels, strides, dilations, strict=True):
        assert isinstance(size, int) and isinstance(kernel, int)
        total = max((-(-size // stride) - 1) * stride + dilation * (kernel - 1) + 1 - size, 0)
        begin.append(total // 2)
        end.append(total - total // 2)
    site.node.attributes.pop("auto_pad")
    site.node.attributes["pads"] = ir.AttrInt64s("pads", [*begin, *end])
    return f"replaced auto_pad of Conv by pads={[*begin, *end]}"


@repair("wide-conv-transpose")
def in_float32(site: Site) -> str:
    """The inputs are cast to float32, and the result back, which rounds sums of float16 once."""
    step = site.step()
    wide = [None if each is None else step.cast(each, ir.DataType.FLOAT) for each in _inputs(step)]
    made = step.emit("ConvTranspose", *wide, **_attributes(site))
    site.put(step, step.cast(made, ir.DataType.FLOAT16))
    return "computed ConvTranspose in float32"


@repair("low-rank-broadcast")
def same_rank(site: Site) -> str:
    """The tensor of lower rank gets dimensions of 1 in front."""
    step = site.step()
    given = [each for each in _inputs(step) if each is not None]
    ranks = [step.rank(each) for each in given]
    raised = [
        step.unsqueezed(each, range(max(ranks) - rank)) if rank < max(ranks) else each
        for each, rank in zip(given, ranks, strict=True)
    ]
    site.put(step, step.emit(site.node.op_type, *raised, **_attributes(site)))
    return f"gave both inputs of {site.node.op_type} the same rank"


def _inputs(step: Step) -> list[ir.Value | None]:
    return [step.input(at) for at in range(len(step.node.inputs))]


def _attributes(site: Site) -> dict[str, Any]:
    return {name: each.value for name, each in site.node.attributes.items()}
