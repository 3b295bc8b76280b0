"""The forward variables of a transducer, as an ONNX function: a loop over the diagonals of its lattice."""

from __future__ import annotations

# onnxscript reads the source of this function: what it contains is ONNX.
from onnxscript import opset18 as op
from onnxscript import script
from onnxscript.values import Opset

__all__ = ["transducer_forward"]


@script(Opset("opbridge", 1), default_opset=op)
def transducer_forward(blanks, emissions, lengths, start):
    """Graves 2012, section 2.4, in logarithms: what ends at each number of labels, on a sequence's own last diagonal.

    A diagonal has all pairs of a moment and a number of labels with the same sum D. blanks (D, N, L): the logarithm of
    the probability of the next moment. emissions (D, N, L): that of the next label. lengths (N, 1). start (N, L): what
    there is on the first diagonal.
    """
    nothing = op.Log(op.CastLike(0.0, start))
    edge = op.Expand(nothing, op.Concat(op.Shape(start, start=0, end=1), op.Constant(value_ints=[1]), axis=0))
    forward = op.Identity(start)
    for diagonal in range(op.Squeeze(op.Shape(blanks, start=0, end=1))):
        waited = forward + op.Gather(blanks, diagonal, axis=0)
        emitted = forward + op.Gather(emissions, diagonal, axis=0)
        emitted = op.Concat(edge, op.Slice(emitted, [0], [-1], [1]), axis=1)
        largest = op.Max(waited, emitted)
        shift = op.Where(op.IsInf(largest), op.CastLike(0.0, start), largest)
        following = op.Log(op.Exp(waited - shift) + op.Exp(emitted - shift)) + shift
        forward = op.Where(diagonal < lengths, following, forward)
    return forward
