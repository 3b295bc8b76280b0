"""Conditions that are drawn at random, decided and beside their values for sizes."""

from __future__ import annotations

import itertools
import random

import pytest

from opbridge.capture.guards.decisions import decided, implied
from opbridge.capture.guards.expressions import holds_at
from opbridge.capture.guards.solutions import solutions

_SIZES = range(1, 41)


def _number(depth, names):
    """An expression of sizes as the captures of models have them."""
    if depth == 0:
        return random.choice([*names, str(random.choice((1, 2, 3, 5, 8)))])
    operator = random.choice(("+", "-", "*", "*", "//", "%", "max", "min", "|", "&", "^"))
    left = _number(depth - 1, names)
    if operator in ("//", "%"):
        return f"(({left}) {operator} {random.choice((2, 3, 4, 8))})"
    right = _number(random.randrange(depth), names)
    return f"{operator}({left}, {right})" if operator in ("max", "min") else f"(({left}) {operator} ({right}))"


def _condition(names):
    comparison = f"{_number(2, names)} {random.choice(('==', '!=', '<', '<=', '>=', '>'))} {_number(2, names)}"
    if random.random() < 0.3:
        comparison = f"({comparison}) {random.choice(('and', 'or'))} not ({_number(1, names)} == {_number(1, names)})"
    return comparison


@pytest.mark.parametrize("turn", range(5))
def test_solutions_are_the_sizes_for_which_a_condition_holds(turn):
    for _ in range(20):
        condition = _condition(["s"])
        found = solutions(condition, "s", 1, 2000)
        expected = [size for size in range(1, 300) if holds_at(condition, {"s": size})]
        assert [size for size in range(1, 300) if size in found] == expected, condition


@pytest.mark.parametrize("turn", range(5))
def test_solutions_beside_another_size(turn):
    for _ in range(20):
        condition, other = _condition(["s", "t"]), random.choice((1, 2, 3, 7, 8))
        found = solutions(condition, "s", 1, 2000, {"t": other})
        expected = [size for size in range(1, 300) if holds_at(condition, {"s": size, "t": other})]
        assert [size for size in range(1, 300) if size in found] == expected, condition


@pytest.mark.parametrize("turn", range(5))
def test_what_is_decided_is_so(turn):
    for _ in range(10):
        conditions = [_condition(["s", "t"]) for _ in range(2)]
        verdict, both = decided(conditions[0], {}), implied(conditions[0], [conditions[1]], {})
        pairs = [{"s": one, "t": other} for one, other in itertools.product(_SIZES, _SIZES)]
        if verdict.holds and verdict.is_proven:
            assert all(holds_at(conditions[0], each) for each in pairs), conditions
        if not verdict.holds:
            assert verdict.witness is not None
            assert not holds_at(conditions[0], {"s": 1, "t": 1, **verdict.witness}), conditions
        if both.holds and both.is_proven:
            assert all(holds_at(conditions[0], each) for each in pairs if holds_at(conditions[1], each)), conditions
        if not both.holds:
            sizes = {"s": 1, "t": 1, **both.witness}
            assert holds_at(conditions[1], sizes) and not holds_at(conditions[0], sizes), conditions


def _exact_condition():
    """A condition on one size that is decided exactly."""
    first, second, divisor = (random.choice((1, 2, 3, 4, 7, 8)) for _ in range(3))
    quotient = f"(({first}*s + {random.randrange(9)}) // {divisor})"
    number = random.choice((quotient, f"({quotient} % {second})", f"min({quotient}, s - {second})"))
    return f"{number} {random.choice(('==', '!=', '<', '<=', '>=', '>'))} {random.randrange(6)}"


@pytest.mark.parametrize("turn", range(5))
def test_what_conditions_on_one_size_imply_is_what_their_alternative_says(turn):
    proven = 0
    for _ in range(60):
        condition, *others = (_exact_condition() for _ in range(3))
        low, high = random.choice(((0, None), (1, 50), (2, None), (-3, 9)))
        found = implied(condition, others, {"s": (low, high)})
        whole = decided(f"not ({others[0]}) or not ({others[1]}) or ({condition})", {"s": (low, high)})
        assert found.holds == whole.holds, (condition, others)
        if found.holds and found.is_proven:
            proven += 1
            near = ({"s": size} for size in range(low, min(high or 300, 300) + 1))
            assert all(holds_at(condition, each) for each in near if all(holds_at(by, each) for by in others))
        if not found.holds:
            assert all(holds_at(by, found.witness) for by in others) and not holds_at(condition, found.witness)
    assert proven


def test_the_common_solutions_of_two_periods():
    one, other = (solutions(f"(s // {period}) % 2 == 1", "s", 3, 100) for period in (2, 3))
    assert [size for size in range(3, 101) if size in one.common(other)] == [
        size for size in range(3, 101) if size // 2 % 2 == 1 and size // 3 % 2 == 1
    ]
    long = [solutions(f"s % {period} == 1", "s", 0, 5000) for period in (997, 991)]
    assert long[0].common(long[1]) is None
    assert implied("s % 997 != 2", ["s % 997 == 1", "s % 991 == 1"], {"s": (0, 5000)}).holds
