"""Forms that a kernel of a target computes wrongly, in another form."""

from __future__ import annotations

from collections.abc import Sequence
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
    weights = step.shape(step.input(1))
    pads = _same_upper(step, [] if weights is None else weights[2:])
    site.node.attributes.pop("auto_pad")
    site.node.attributes["pads"] = ir.AttrInt64s("pads", pads)
    return f"replaced auto_pad of Conv by pads={pads}"


@repair("uneven-average-pool")
def padded_average(site: Site) -> str:
    """The padding is zeros before the pool; where they do not count, the result is divided by their share."""
    step = site.step()
    kernel, padding = step.integers("kernel_shape") or [], step.get("auto_pad", "NOTSET")
    if step.get("ceil_mode", 0) or any(each > 1 for each in step.integers("dilations") or []) or step.to < 11:
        raise Refused("with ceil_mode or dilations, or below opset 11")
    pads = step.integers("pads") or [0] * 2 * len(kernel)
    if padding != "NOTSET":
        pads = _same_upper(step, kernel)
        if padding == "SAME_LOWER":
            pads = [*pads[len(kernel) :], *pads[: len(kernel)]]
    wide = [0, 0, *pads[: len(kernel)], 0, 0, *pads[len(kernel) :]]
    attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": step.integers("strides")}
    made = step.emit("AveragePool", step.emit("Pad", step.data, wide), **attributes)
    if not step.get("count_include_pad", 0):
        shape = step.shape(step.data) or []
        sizes = [each for each in shape[2:] if isinstance(each, int)]
        if len(sizes) != len(kernel):
            raise Refused("of dynamic sizes")
        ones = step.number(np.pad(np.ones([1, 1, *sizes]), [*zip(wide[: len(shape)], wide[len(shape) :], strict=True)]))
        ones = step.cast(ones, step.dtype(step.data))
        made = step.emit("Div", made, step.emit("AveragePool", ones, **attributes))
    site.put(step, made)
    return "padded before AveragePool"


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


@repair("broadcast-skip")
def expanded_skip(site: Site) -> str:
    """The skip connection is expanded to the shape of the input."""
    step = site.step()
    skip = step.input(1)
    if skip is None:
        raise Refused("without a skip connection")
    expanded = step.emit("Expand", skip, step.emit("Shape", step.data))
    site.put_before(step)
    site.node.replace_input_with(1, expanded)
    return f"expanded the skip connection of {site.node.op_type}"


def _same_upper(step: Step, kernels: Sequence[int | str | None]) -> list[int]:
    """The padding that SAME_UPPER stands for.

    Raises:
        Refused: Sizes are dynamic.
    """
    shape = step.shape(step.data)
    sizes = [] if shape is None else shape[2:]
    strides, dilations = (step.integers(each) or [1] * len(sizes) for each in ("strides", "dilations"))
    if not sizes or len(sizes) != len(kernels):
        raise Refused("of dynamic sizes")
    begin, end = [], []
    for size, kernel, stride, dilation in zip(sizes, kernels, strides, dilations, strict=True):
        if not isinstance(size, int) or not isinstance(kernel, int):
            raise Refused("of dynamic sizes")
        total = max((-(-size // stride) - 1) * stride + dilation * (kernel - 1) + 1 - size, 0)
        begin.append(total // 2)
        end.append(total - total // 2)
    return [*begin, *end]


def _inputs(step: Step) -> list[ir.Value | None]:
    return [step.input(at) for at in range(len(step.node.inputs))]


def _attributes(site: Site) -> dict[str, Any]:
    return {name: each.value for name, each in site.node.attributes.items()}
