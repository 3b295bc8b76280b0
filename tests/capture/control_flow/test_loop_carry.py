"""What is said of a loop whose iterations do not hand on the same."""

from __future__ import annotations

import pytest

from opbridge.base.sources import Source
from opbridge.capture.control_flow.branch_oracle import BranchEvent, PathsRefused
from opbridge.capture.control_flow.loop_carry import check_loop_carry

_LINE = Source("model.py", 4, "forward", "for t in range(m):")


def _marks(frame, gone_over):
    """Before three iterations, the variables of a frame and what the loops go over."""
    for iteration in range(1, 4):
        held = ((tuple((name, iteration) for name in frame),), (("", tuple((name, iteration) for name in gone_over)),))
        yield BranchEvent(("at", held), True, (_LINE,), 1, 0, iteration, None, True, False, False)


@pytest.mark.parametrize(
    ("frame", "gone_over", "what"),
    [
        (["count"], [], "'count' holds a different value"),
        (["count", "last"], ["0"], "'count', 'last' hold a different value"),
        ([], ["0"], "the sequence that a loop iterates over has a different value"),
    ],
)
def test_what_differs_is_named(frame, gone_over, what):
    with pytest.raises(PathsRefused, match=rf"{what} in each iteration of the loop at model\.py:4"):
        check_loop_carry(list(_marks(frame, gone_over)))
