"""MatMul of vectors, where a target takes matrices."""

from __future__ import annotations

import onnx_ir as ir

from opbridge.conversion.step import Step
from opbridge.fixing.site import Refused, Site, repair


@repair("unsupported-form", "unsupported-rank", operators=["MatMul"])
def as_matrices(site: Site) -> str:
    """A vector on the left is a matrix of one row, one on the right of one column; the result loses that again."""
    step = site.step()
    left, right = step.data, step.input(1)
    if right is None:
        raise Refused("without its second input")
    ranks = step.rank(left), step.rank(right)
    if 1 not in ranks:
        raise Refused("of matrices")
    rank = max(*ranks, 2)
    made = step.emit(
        "MatMul",
        _raised(step, left, 0) if ranks[0] == 1 else left,
        _raised(step, right, 1) if ranks[1] == 1 else right,
    )
    lost = [*([rank - 2] if ranks[0] == 1 else []), *([rank - 1] if ranks[1] == 1 else [])]
    site.put(step, step.squeezed(made, lost))
    return "replaced MatMul of a vector by one of matrices"


def _raised(step: Step, vector: ir.Value, axis: int) -> ir.Value:
    stored = step.types.constant(vector)
    if stored is None:
        return step.unsqueezed(vector, [axis])
    return step.number(stored[None, :] if axis == 0 else stored[:, None], step.dtype(vector))
