"""Operators of tensors of fewer dimensions than a target takes: reductions of one number, Softmax of a vector."""

from __future__ import annotations

import onnx_ir as ir

from opbridge.fixing.site import Refused, Site, repair

_SAME = ("ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum")
"""Reductions that give the only number that they are given."""

_REDUCTIONS = (*_SAME, "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceSumSquare")


@repair("unsupported-form", operators=_REDUCTIONS)
def of_one_number(site: Site) -> str:
    """A reduction of a tensor without dimensions is a function of its only element."""
    step, name = site.step(), site.node.op_type
    if step.rank() != 0:
        raise Refused("of this form")
    x, made = step.data, ""
    if name in _SAME:
        made, found = "Identity", step.emit("Identity", x)
    elif name == "ReduceLogSum":
        made, found = "Log", step.emit("Log", x)
    elif name == "ReduceSumSquare":
        made, found = "Mul", step.emit("Mul", x, x)
    else:
        made, found = "Abs", step.emit("Abs", x)
    site.put(step, found)
    return f"replaced {name} of one number by {made}"


@repair("unsupported-form", operators=["Hardmax", "LogSoftmax", "Softmax"])
def along_the_last(site: Site) -> str:
    """The only dimension becomes the last one of two."""
    step, name = site.step(), site.node.op_type
    rank = step.rank()
    if rank > 1:
        raise Refused("of this form")
    axes = list(range(2 - rank))
    given: ir.Value = step.unsqueezed(step.data, axes)
    site.put(step, step.squeezed(step.emit(name, given, axis=1), axes))
    return f"put the dimension of {name} beside another of size 1"
