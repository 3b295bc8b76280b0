"""Numbers that are equal wherever conditions on sizes hold."""

from __future__ import annotations

import itertools
import random

import pytest

from opbridge.capture.guards.equal_numbers import EqualNumbers
from opbridge.capture.guards.expressions import holds_at, value_at


def equal_numbers(conditions, names="hw", **options):
    every = [dict(zip(names, sizes, strict=True)) for sizes in itertools.product(range(1, 17), repeat=len(names))]
    points = [each for each in every if all(holds_at(condition, each) for condition in conditions)]
    return EqualNumbers(conditions, dict.fromkeys(names, (1, None)), points, **options)


@pytest.mark.parametrize(
    ("conditions", "one", "other", "expected"),
    [
        (["(h % 4) == 0"], "4*((h + 3)//4)", "h", True),
        (["(h % 4) != 0"], "4*((h + 3)//4)", "h", False),
        (["(h % 8) == 0"], "((h + 1)//2 + 1)//2", "h//4", True),
        (["(h % 4) == 0", "(w % 4) == 0"], "((h + 3)//4)*((w + 3)//4)", "(h//4)*(w//4)", True),
        (["(h % 4) == 0"], "w*((h + 3)//4)*w", "(h//4)*w*w", True),
        (["(h % 4) == 0"], "((h + 3)//4)*((w + 3)//4)", "(h//4)*(w//4)", False),
        (["h <= 16"], "h*(h < 17)", "h", False),
        (["h == w"], "h + w", "2*w", True),
    ],
)
def test_what_is_proven(conditions, one, other, expected):
    equal = equal_numbers(conditions)
    assert (equal.representative(one) == equal.representative(other)) is expected


def test_what_is_a_number():
    equal = equal_numbers(["(h % 4) == 0"])
    assert equal.representative("4*((h + 3)//4) - h") == "0"
    assert equal.representative("w*(h % 4) - 3") == "-3"


def test_what_is_equal_for_small_sizes_alone_is_not_equal():
    one, other = "min(h, 16)*w", "h*w"
    equal, sampled = equal_numbers([]), equal_numbers([], is_proven=False)
    assert equal.representative(other) != equal.representative(one)
    assert sampled.representative(other) == other and sampled.representative(one) == other
    assert equal_numbers([], "h", is_proven=False).representative("min(h, 16)") == "min(h, 16)"


def _number(depth, names):
    if depth == 0:
        return random.choice([*names, str(random.choice((1, 2, 3, 4, 8)))])
    operator = random.choice(("+", "-", "*", "//", "//", "%", "max"))
    left = _number(depth - 1, names)
    if operator in ("//", "%"):
        return f"(({left}) {operator} {random.choice((2, 3, 4))})"
    right = _number(random.randrange(depth), names)
    return f"max({left}, {right})" if operator == "max" else f"(({left}) {operator} ({right}))"


@pytest.mark.parametrize("turn", range(5))
def test_what_is_equal_has_the_same_values(turn):
    chosen = random.Random(turn)
    for _ in range(4):
        divisor, rest = chosen.choice((2, 3, 4)), chosen.randrange(2)
        conditions = [f"(h % {divisor}) == {rest}", f"w {chosen.choice(('<=', '>'))} {chosen.choice((3, 5))}"]
        equal = equal_numbers(conditions)
        # Of so many small ones, several are equal.
        numbers = [_number(chosen.choice((1, 2)), "hw") for _ in range(60)]
        beyond = [
            sizes
            for h, w in itertools.product((*range(1, 30), 95, 96, 97, 1000), (1, 2, 4, 6, 20, 33, 999))
            if all(holds_at(each, sizes := {"h": h, "w": w}) for each in conditions)
        ]
        for number in numbers:
            same = equal.representative(number)
            assert all(value_at(number, sizes) == value_at(same, sizes) for sizes in beyond), (number, same, conditions)


def test_what_a_condition_states_is_equal_although_no_proof_is_exact():
    quotient = "(640*((7 + s) // 8)) // s"
    points = [{"s": 8}, {"s": 16}, {"s": 24}]
    assert EqualNumbers([f"({quotient}) == 80"], {}, points).representative(quotient) == "80"
    assert EqualNumbers([], {}, points).representative(quotient) == quotient


def test_a_quotient_of_sizes_that_conditions_make_equal_is_1():
    points = [{"s": 8}, {"s": 16}, {"s": 24}]
    # The second condition is not decided exactly, and the first one is enough.
    numbers = EqualNumbers(["(8 + (-1)*(s % 8)) % 8 <= 0", "s // s == 1"], {}, points)
    assert numbers.representative("s") == "s"
    assert numbers.representative("8*((7 + s) // 8)") == "s"
    assert numbers.representative("(8*((7 + s) // 8)) // s") == "1"
    assert numbers.representative("(8*((7 + s) // 8) + 8) // s") != "1"
