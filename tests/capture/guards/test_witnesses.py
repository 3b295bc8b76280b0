"""The nearest sizes for which a condition does not hold."""

from __future__ import annotations

import dataclasses

import pytest

from opbridge.capture.guards.expressions import symbols_in
from opbridge.capture.guards.witnesses import fixed_by, witnesses
from opbridge.graph.captured_graph import SizeCondition

SIZES = {"s0": 8, "s1": 5}


def condition(text):
    return SizeCondition(text, symbols_in(text))


@pytest.mark.parametrize(
    ("text", "others", "expected"),
    [
        ("s0 % 4 == 0", [], [{"s0": 9}, {"s0": 7}]),
        ("s0 % 4 == 0", ["s0 % 2 == 0"], [{"s0": 10}, {"s0": 6}]),
        ("s0 <= 5000", [], [{"s0": 5001}]),
        ("s0 >= 2", [], [{"s0": 1}]),
        ("s0 == 8", [], [{"s0": 19}, {"s0": 7}]),
        ("s0 > s1", [], [{"s0": 5}, {"s1": 8}]),
        ("s0 > s1", ["s1 <= 6"], [{"s0": 5}, {"s1": 8}]),
        ("s0 == 8", ["s0 <= 8"], [{"s0": 7}, {"s0": 19}]),
        ("min(s0, s1) <= 7", [], [{"s1": 8}]),
        ("min(s0, s1) <= 9", [], [{"s0": 13, "s1": 10}]),
        ("s0 != 8000000", [], [{"s0": 8000000}]),
        ("s0 >= 1", [], []),
        ("s0*s1 >= 40 or s0 + s1 != 12", [], [{"s0": 7}, {"s1": 4}]),
    ],
)
def test_witnesses(text, others, expected):
    found = list(witnesses(condition(text), SIZES, list(map(condition, others)), {}, {"s0", "s1"}))
    assert found == [{**SIZES, **each} for each in expected]


def test_a_condition_without_a_value_holds():
    assert not list(witnesses(condition("8 // (s0 - s0) == 1"), SIZES, [], {}, {"s0"}))


def test_only_sizes_that_are_free_and_in_their_ranges():
    assert not list(witnesses(condition("s0 > s1"), SIZES, [], {"s1": (1, 6)}, {"s1"}))


@pytest.mark.parametrize(
    ("text", "is_fixed"),
    [("s0 == 8", True), ("(s0 + 1) // 2 == 4", True), ("s0 % 4 == 0", False), ("s0 <= 8", False), ("s0 >= 8", False)],
)
def test_what_fixes_a_size(text, is_fixed):
    assert fixed_by([condition(text)], SIZES) == ({"s0"} if is_fixed else set())


def test_a_number_that_python_asks_for_fixes_the_size():
    """`range(0, s0, 100)` has one iteration for 1 to 100."""
    asked = condition("(s0 + 99) // 100 == 1")
    assert fixed_by([asked], SIZES) == set()
    assert fixed_by([dataclasses.replace(asked, is_number=True)], SIZES) == {"s0"}
