"""Whether a condition holds for all sizes, or wherever others do."""

from __future__ import annotations

import itertools
import random

import pytest

from opbridge.capture.guards.decisions import decided, implied
from opbridge.capture.guards.expressions import holds_at

PROVEN = [
    ("s0 >= 1", {}),
    ("s0 + s1 >= 2", {}),
    ("s0 + s1 - s0 >= 1", {}),
    ("2*s0 + 4*s1 != 7", {}),
    ("(8*s0) % 8 == 0", {}),
    ("(8*s0 + s1) % 8 == s1 % 8", {}),
    ("s0 // 2 + s1 // 2 <= s0 + s1", {}),
    ("max(s0, s1) >= s0", {}),
    ("min(s0, s1) <= s1", {}),
    ("abs(s0 - s1) >= s0 - s1", {}),
    ("s0*s1 >= s0", {}),
    ("s0*s1 == s1*s0", {}),
    ("64*s2*(s0 // 64)*(s1 // 64) != 0", {"s0": (64, None), "s1": (64, None)}),
    ("not (s0 < s1) or s0 < s1", {}),
    ("s0 <= 8*s1", {"s0": (1, 8)}),
    ("s0 + s1 <= 9223372036854775807", {}),
    ("s0 - s1 <= 5", {"s0": (-3, 4), "s1": (-1, 10)}),
    ("(s0 - s1) % 4 < 4", {"s0": (-9, 4)}),
]
FALSE = [
    ("s0 == s1", {}),
    ("s0 != s1", {}),
    ("s0 + s1 >= 3", {}),
    ("(s0 + s1) % 2 == 0", {}),
    ("s0 != 10", {}),
    ("s0 >= 1", {"s0": (0, None)}),
    ("s0 + s1 >= 0", {"s0": (-3, None), "s1": (0, None)}),
    ("s0*s1 <= 1000", {}),
    ("max(s0, s1) < 4096 or s0 > 1", {}),
    ("1 == 2", {}),
]


@pytest.mark.parametrize(("text", "ranges"), PROVEN)
def test_what_holds_for_all_sizes_is_proven(text, ranges):
    found = decided(text, ranges)
    assert found and found.is_proven and found.witness is None


@pytest.mark.parametrize(("text", "ranges"), FALSE)
def test_what_does_not_has_a_witness(text, ranges):
    found = decided(text, ranges)
    assert not found and found.is_proven and found.witness is not None
    assert not holds_at(text, found.witness)
    for symbol, (low, high) in ranges.items():
        assert low <= found.witness[symbol] and (high is None or found.witness[symbol] <= high)


@pytest.mark.parametrize(
    "text", ["math.floor(torch.sym_float(s0) / s1) >= 0", "s0*s1 <= 9223372036854775807", "s0 + ", "unknown(s0) > 1"]
)
def test_what_is_only_tried_is_not_proven(text):
    found = decided(text, {})
    assert found and not found.is_proven


IMPLIED = [
    ("s0 >= 2", ["s0 >= 4"]),
    ("s0 % 2 == 0", ["s0 % 4 == 0"]),
    ("s0 % 6 == 0", ["s0 % 2 == 0", "s0 % 3 == 0"]),
    ("s0 <= s2", ["s0 <= s1", "s1 <= s2"]),
    ("s0 == s2", ["s0 == s1", "s1 == s2"]),
    ("s0 != 3", ["s0 == s1", "s1 > 3"]),
    ("2*s0 <= 9", ["s0 + s1 <= 9", "s0 <= s1"]),
    ("s0 == 1", ["s0 == 1 or s1 < 1"]),
]


@pytest.mark.parametrize(("text", "by"), IMPLIED)
def test_implication(text, by):
    found = implied(text, by, {})
    assert found and found.is_proven


@pytest.mark.parametrize(
    ("text", "by"),
    [("s0 % 4 == 0", ["s0 % 2 == 0"]), ("s0 >= 4", ["s0 >= 2"]), ("s0 == 3", []), ("s0 < s1", ["s0 <= s1"])],
)
def test_what_is_not_implied(text, by):
    found = implied(text, by, {})
    assert not found and found.witness is not None
    assert all(holds_at(each, found.witness) for each in by) and not holds_at(text, found.witness)


def test_nothing_is_proven_that_is_false():
    chance = random.Random(0)
    terms = [
        "s0",
        "s1",
        "2*s0",
        "s1 // 2",
        "s0 % 3",
        "max(s0, s1)",
        "s0*s1",
        "abs(s0 - s1)",
        "(s0 + s1) // 3",
        "4",
        "1",
    ]
    ranges = {"s0": (0, 6), "s1": (1, 5)}
    every = [dict(zip(ranges, each, strict=True)) for each in itertools.product(range(7), range(1, 6))]
    proven = 0
    for _ in range(80):
        one, two, other, more = (chance.choice(terms) for _ in range(4))
        text = f"{one} + {two} {chance.choice(['<=', '<', '!=', '=='])} {other} + {more} or {other} > {one}"
        found = decided(text, ranges)
        proven += found.holds and found.is_proven
        if found.is_proven:
            assert found.holds == all(holds_at(text, each) for each in every), text
    assert proven > 5


def test_a_power_with_a_size_as_exponent_is_read():
    assert decided("2**s0 <= 1024", {}).witness == {"s0": 11}
    assert decided("(1 << s0) >= s0", {"s0": (1, 60)})
