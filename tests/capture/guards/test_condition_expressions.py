"""What a condition on sizes says."""

from __future__ import annotations

import pytest

from opbridge.capture.guards.expressions import (
    Constant,
    Operation,
    Symbol,
    holds_at,
    parsed,
    remainders,
    replaced,
    symbols_in,
    value_at,
    written,
)


def test_a_tree():
    assert parsed("(s0 % 4) == 0") == Operation("==", (Operation("%", (Symbol("s0"), Constant(4))), Constant(0)))
    assert parsed("Mod(s0, 2)") == parsed("s0 % 2")
    assert symbols_in("x.shape[0] + s1*past <= 4") == ("x.shape[0]", "s1", "past")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("s0 + s1*2", 11),
        ("-s0 // 2", -2),
        ("s0 % 2 == 1 and not s1 > 4", True),
        ("max(s0, s1) - min(s0, s1)", 1),
        ("math.floor(torch.sym_float(s0) / 2)", 1),
        ("math.trunc(2.5*s0)", 7),
        ("s0 if s1 > 4 else s1", 4),
        ("s0**2 + 2**4", 25),
        ("2**s0 + (1 << s0)", 16),
        ("s0 < s1 < 5", True),
        ("9223372036854775807 + s0", 9223372036854775810),
    ],
)
def test_values(text, value):
    sizes = {"s0": 3, "s1": 4}
    assert value_at(text, sizes) == value
    assert value_at(written(parsed(text)), sizes) == value
    numbers = {Symbol(name): Constant(size) for name, size in sizes.items()}
    assert value_at(written(replaced(parsed(text), numbers)), {}) == value


@pytest.mark.parametrize(
    "text", ["s0 +", "s0 // 0", "u0 + 1", "9**9**9", "__import__('os')", "s0.__class__", "open(s0)"]
)
def test_no_value(text):
    assert value_at(text, {"s0": 3}) is None
    assert holds_at(text, {"s0": 3})


def test_remainders():
    assert [value_at(each, {"s0": 7}) for each in remainders("(s0 % 4) == 0 or ((s0 + 1) % 3) > s0 % 4")] == [3, 2]
    assert remainders("s0 == 4") == () == remainders("s0 ==")
