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
