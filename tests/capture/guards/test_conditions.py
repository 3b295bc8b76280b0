"""Conditions on sizes."""

from opbridge.capture.guards.conditions import hold, is_trivial, negated, of_one_region, only_where, unnegated
from opbridge.capture.guards.expressions import holds_at
from opbridge.graph.captured_graph import SizeCondition

IS_ONE, IS_EVEN = (SizeCondition(text, ("s0",), "") for text in ("s0 == 1", "(s0 % 2) == 0"))


def test_a_condition_holds_where_it_was_answered_so():
    assert only_where([IS_ONE], IS_ONE, {}) is None
    assert only_where([IS_EVEN, IS_ONE], IS_ONE, {}) is None


def test_a_condition_has_to_hold_only_where_others_do():
    limited = only_where([IS_EVEN], IS_ONE, {})
    assert [holds_at(limited.expression, {"s0": size}) for size in (1, 2, 3)] == [True, False, True]
    assert only_where([], IS_ONE, {}) is IS_ONE


def test_a_condition_that_others_imply_is_not_needed():
    assert only_where([SizeCondition("s0 % 4 == 0", ("s0",))], IS_EVEN, {}) is None
    assert only_where([IS_ONE], IS_EVEN, {"s0": (2, None)}) is None


def test_whether_conditions_hold():
    assert hold([IS_ONE, SizeCondition("s1 > 4", ("s1",))], {"s0": 1})
    assert not hold([IS_ONE, IS_EVEN], {"s0": 1})
    assert unnegated(negated(IS_ONE)) == unnegated(IS_ONE) == "s0 == 1"
    assert is_trivial(IS_EVEN, {"s0": (4, 4)}) and not is_trivial(IS_EVEN, {})


def test_sizes_of_one_of_several_regions():
    larger = SizeCondition("s0 > 4", ("s0",))
    text, symbols = of_one_region([(IS_EVEN, larger), (IS_ONE,), (IS_ONE, IS_EVEN)])
    assert symbols == ("s0",)
    assert [size for size in range(1, 9) if holds_at(text, {"s0": size})] == [1, 6, 8]
