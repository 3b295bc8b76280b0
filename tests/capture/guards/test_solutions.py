"""For which values of one size a condition holds."""

from __future__ import annotations

import itertools

import pytest

from opbridge.capture.guards import solutions as module
from opbridge.capture.guards.expressions import COMPARISONS, Operation, holds_at, parsed, subexpressions
from opbridge.capture.guards.linear import NotLinear, check_operators, without_choices
from opbridge.capture.guards.samples import LARGEST
from opbridge.capture.guards.solutions import solutions

EXACT = [
    "s0 >= 2",
    "s0 != 8",
    "(s0 % 2) == 0",
    "(s0 % 4) != 3 and s0 > 5",
    "3*s0 + 1 < 40",
    "((s0 + 1) // 2) == 3",
    "((s0 // 2) // 3) % 4 == 1 or s0 <= 3",
    "max(s0, 7) <= 9",
    "min(2*s0, s0 + 10, 25) > 12",
    "abs(s0 - 20) >= 4",
    "abs(((-1)*s0) + 6) // 4 == 2",
    "(7 - s0) % 5 == 2",
    "((-1)*s0) // 3 >= -4",
    "not (s0 == 1) and not (s0 == 3)",
    "s0 % 6",
    "0 == 1",
    "2 < s0 <= 9",
    "max(s0 // 3, s0 % 5) == 4",
]


@pytest.mark.parametrize("text", EXACT)
@pytest.mark.parametrize("low", [-9, 0, 1])
def test_solutions_are_those_that_are_found_by_trying(text, low):
    found = solutions(text, "s0", low, 70)
    assert found.is_proven
    expected = [size for size in range(low, 71) if holds_at(text, {"s0": size})]
    assert [size for size in range(low, 71) if size in found] == expected
    assert [size for size in range(low, 71) if size in found.others()] == sorted({*range(low, 71)} - {*expected})
    for size in range(low, 71):
        assert found.above(size) == min((each for each in expected if each >= size), default=None)
        assert found.below(size) == max((each for each in expected if each <= size), default=None)
    changes = [
        b for a, b in itertools.pairwise(range(low, 71)) if holds_at(text, {"s0": a}) != holds_at(text, {"s0": b})
    ]
    assert list(found.changes()) == changes
    is_gapless = bool(expected) and len(expected) == expected[-1] - expected[0] + 1
    assert found.span() == ((expected[0], expected[-1]) if is_gapless else None)


def test_a_limit_far_away():
    found = solutions("32*s0 <= 1000000000000", "s0", 1, None)
    assert found.is_proven and found.span() == (1, 31250000000)
    assert next(found.changes()) == 31250000001


def test_what_holds_for_all_sizes_that_a_tensor_may_have():
    assert not solutions("8*s0 <= 9223372036854775807", "s0", 1, None).others()
    assert solutions("8*s0 <= 9223372036854775807", "s0", 1, 1 << 61).others().above(1) == 1 << 60
    assert solutions("s0 < 1", "s0", 1, None).above(1) is None
    assert not solutions("s0 < 1", "s0", 1, None)


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("math.floor(1.5*torch.sym_float(s0)) <= 3000000", (1, 2000000)),
        ("s0**2 <= 1000000", (1, 1000)),
        ("s0*s0 < 64 and s0 >= 2", (2, 7)),
        ("math.trunc(torch.sym_float(s0) / 2) == 4", (8, 9)),
    ],
)
def test_other_conditions_are_tried(text, span):
    found = solutions(text, "s0", 1, None)
    assert not found.is_proven and found.span() == span


def test_what_is_no_condition_holds_as_far_as_is_known():
    for text in ("s0 ==", "u0[", "unknown(s0) == 1", "1 // (s0 - s0) == 1", "s1 <= 4", "lambda: s0", ""):
        found = solutions(text, "s0", 1, None)
        assert not found.others() and not found.is_proven, text


def test_the_other_sizes_are_known():
    found = solutions("s0*s1 + s2 <= 100", "s0", 1, None, {"s1": 4, "s2": 21, "s0": 3})
    assert found.is_proven and found.span() == (1, 19)
    assert solutions("(s0 + s1) % 8 == 0", "s0", 1, None, {"s1": 3}).above(6) == 13


def test_a_long_period_is_tried():
    found = solutions("(s0 % 5003) % 5009 != 5002", "s0", 1, None)
    assert not found.is_proven
    assert LARGEST in found


@pytest.mark.parametrize(
    "text", ["max(s0, 3) + min(s0, 9) ** 2 > 40", "abs(s0 - 5) / 2 > 3", "max(s0, pow(s0, 2)) != 4"]
)
def test_an_operator_that_no_sum_has_is_found_before_cases_are_written(text, monkeypatch):
    def fail(*args):
        raise AssertionError("cases are written")

    monkeypatch.setattr(module, "without_choices", fail)
    found = solutions(text, "s0", 1, 70)
    assert not found.is_proven
    assert [size for size in range(1, 71) if size in found] == [n for n in range(1, 71) if holds_at(text, {"s0": n})]


def test_operators_of_sums_and_of_choices_may_be_those_of_sums():
    for text in EXACT:
        check_operators(parsed(text))
    with pytest.raises(NotLinear):
        check_operators(parsed("s0 > 3 or max(s0, 2) ** 2 > 40"))


def test_what_decides_between_nested_cases_is_one_object_in_all_of_them():
    """The condition has hundreds of comparisons, of which few are different ones: each is solved once."""
    nested = "s0"
    for number in range(1, 4):
        nested = f"max(min({nested}, {30 - 5 * number}) - {number}, s0 % {number + 2})"
    text = f"{nested} <= 4"
    condition = parsed(text)
    assert condition is not None
    comparisons = [
        each
        for each in subexpressions(without_choices(condition))
        if isinstance(each, Operation) and each.name in COMPARISONS
    ]
    assert len({id(each) for each in comparisons}) < len(comparisons) / 5
    found = solutions(text, "s0", 0, 200)
    assert found.is_proven
    assert [size in found for size in range(201)] == [holds_at(text, {"s0": size}) for size in range(201)]
