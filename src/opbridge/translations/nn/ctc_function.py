"""The forward variables of connectionist temporal classification, as an ONNX function: a loop over time."""

from __future__ import annotations

# onnxscript reads the source of this function: what it contains is ONNX.
from onnxscript import opset18 as op
from onnxscript import script
from onnxscript.values import Opset

__all__ = ["ctc_forward"]


@script(Opset("opbridge", 1), default_opset=op)
def ctc_forward(emissions, may_skip, lengths, start):
    """Graves et al. 2006, section 4.1, in logarithms: what ends at each label after each sequence's own length.

    emissions (T, N, L): the logarithm of each label's probability. may_skip (N, L): whether the label may follow the
    last but one. lengths (N, 1). start (N, L): what there is before the first moment.
    """
    nothing = op.Log(op.CastLike(0.0, start))
    edge = op.Expand(nothing, op.Concat(op.Shape(start, start=0, end=1), op.Constant(value_ints=[2]), axis=0))
    forward = op.Identity(start)
    for moment in range(op.Squeeze(op.Shape(emissions, start=0, end=1))):
        before = op.Concat(edge, forward, axis=1)
        one_back = op.Slice(before, [1], [-1], [1])
        two_back = op.Where(may_skip, op.Slice(before, [0], [-2], [1]), nothing)
        largest = op.Max(forward, one_back, two_back)
        shift = op.Where(op.IsInf(largest), op.CastLike(0.0, start), largest)
        together = op.Exp(forward - shift) + op.Exp(one_back - shift) + op.Exp(two_back - shift)
        following = op.Log(together) + shift + op.Gather(emissions, moment, axis=0)
        forward = op.Where(moment < lengths, following, forward)
    return forward
