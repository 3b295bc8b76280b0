"""What is said of a loop whose turns do not hand on the same."""

from __future__ import annotations

import pytest

from opbridge.base.sources import Source
from opbridge.capture.decisions.answers import Mark, WaysRefused
from opbridge.capture.decisions.other_turns import refuse_other_turns

_LINE = Source("model.py", 4, "forward", "for t in range(m):")


def _marks(frame, gone_over):
    """Before three turns, the variables of a frame and what the loops go over."""
    for turn in range(1, 4):
        held = ((tuple((name, turn) for name in frame),), (("", tuple((name, turn) for name in gone_over)),))
        yield Mark(("at", held), True, (_LINE,), 1, 0, turn, None, True, False, False)


@pytest.mark.parametrize(
    ("frame", "gone_over", "what"),
    [
        (["count"], [], "'count' holds a different value"),
        (["count", "last"], ["0"], "'count', 'last' hold a different value"),
        ([], ["0"], "the sequence that a loop iterates over has a different value"),
    ],
)
def test_what_differs_is_named(frame, gone_over, what):
    with pytest.raises(WaysRefused, match=rf"{what} in each iteration of the loop at model\.py:4"):
        refuse_other_turns(list(_marks(frame, gone_over)))
