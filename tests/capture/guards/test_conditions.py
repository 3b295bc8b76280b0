"""Conditions on sizes."""

from opbridge.capture.guards.conditions import only_where
from opbridge.capture.guards.expressions import holds_at
from opbridge.graph.captured_graph import SizeCondition

IS_ONE, IS_EVEN = (SizeCondition(text, ("s0",), "") for text in ("s0 == 1", "(s0 % 2) == 0"))


def test_a_condition_holds_where_it_was_answered_so():
    assert only_where([IS_ONE], IS_ONE) is None
    assert only_where([IS_EVEN, IS_ONE], IS_ONE) is None


def test_a_condition_has_to_hold_only_where_others_do():
    limited = only_where([IS_EVEN], IS_ONE)
    assert [holds_at(limited.expression, {"s0": size}) for size in (1, 2, 3)] == [True, False, True]
    assert only_where([], IS_ONE) is IS_ONE
