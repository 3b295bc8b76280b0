"""Loops with several exits, of blocks made by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from opbridge.capture.control_flow.blocks import Block, Loop, dominators_of
from opbridge.capture.control_flow.multi_exit_loops import MultiExitLoop


def follows(block: Block, *after: Block) -> None:
    """Lets blocks follow one: two after a decision, the first where it holds."""
    block.after = dict(zip((True, False), after, strict=False))
    block.decides = len(after) == 2
    for each in after:
        each.before.append(block)


@pytest.mark.parametrize(
    ("left_by_break", "leaves_both"),
    [("inner", False), ("both", True)],
)
def test_an_inner_loop_that_one_of_its_exits_leaves_with_the_outer_one(left_by_break: str, leaves_both: bool) -> None:
    """`while a: while b: if c: break`, where the `break` is of the inner loop, or a `return` leaves both."""
    begin, outer, inner, asks, after_inner, end = (Block({}) for _ in range(6))
    follows(begin, outer)
    follows(outer, inner, end)
    follows(inner, asks, after_inner)
    follows(asks, end if left_by_break == "both" else after_inner, inner)
    follows(after_inner, outer)
    blocks = [begin, outer, inner, asks, after_inner, end]
    dominators = dominators_of(blocks)
    loops = {outer: Loop.of(outer, [after_inner], dominators), inner: Loop.of(inner, [asks], dominators)}
    assert loops[inner].exits == {inner: True, asks: False}
    found = MultiExitLoop(SimpleNamespace(flow=SimpleNamespace(blocks=blocks, loops=loops)), outer, {})
    assert list(found.inner) == ([inner] if leaves_both else [])
