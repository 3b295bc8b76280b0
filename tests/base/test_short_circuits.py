"""Truth values within `and` and `or` that do not matter."""

from __future__ import annotations

import sys

import pytest

from opbridge.base.python_private.short_circuits import answer_without_effect


class Asked:
    """Notes what is found where its truth is asked for, and answers."""

    def __init__(self, answer):
        self._answer = answer
        self.found = []

    def __bool__(self):
        self.found.append(answer_without_effect(sys._getframe(1)))
        return self._answer


def first_of_three(n, mask, causal):
    found = n and mask is None and causal
    return found


def first_of_two_or(n, causal):
    found = n or causal
    return found


def condition(n, mask, causal):
    if n and mask is None and causal:
        return "then"
    return "else"


def negated(n, causal):
    if n or not causal:
        return "then"
    return "else"


def nested(n, mask, causal):
    found = n and (mask is None or causal)
    return found


def in_call(n, causal):
    return str(n and causal)


def with_call(n, causal):
    return n and bool(causal)


def in_comprehension(n, causal):
    return [n and causal for _ in range(2)]


def in_a_closure(n, causal):
    def inner():
        return n and causal

    return inner()


def alone(n):
    return "then" if n else "else"


@pytest.mark.parametrize(
    ("function", "others", "expected"),
    [
        (first_of_three, (None, False), True),
        (first_of_three, (None, True), None),
        (first_of_three, (None, None), None),  # None is not what n gives
        (first_of_three, (None, 0), None),
        (first_of_three, (1, True), True),
        (first_of_two_or, (True,), False),
        (first_of_two_or, (1,), None),
        (first_of_two_or, (False,), None),
        (condition, (None, False), True),
        (condition, (None, 0), True),
        (condition, (1, True), True),
        (condition, (None, True), None),
        (condition, (None, [1]), None),  # whose truth is asked for by a function
        (negated, (False,), False),
        (negated, (True,), None),
        (nested, (1, False), True),
        (nested, (None, False), None),
        (in_call, (False,), True),
        (with_call, (False,), None),
        (in_a_closure, (False,), True),
        (in_a_closure, (True,), None),
        (alone, (), None),
    ],
)
def test_an_answer_is_given_where_it_does_not_matter(function, others, expected):
    for answer in (False, True):
        asked = Asked(answer)
        found = function(asked, *others)
        assert asked.found[0] is expected
        if expected is not None:  # the other answer comes to the same
            assert _truth(found, asked) == _truth(function(not answer, *others), asked)


def _truth(found, asked):
    if found is asked:
        return asked._answer
    return found.replace(str(asked), "False") if isinstance(found, str) else found


@pytest.mark.parametrize(("causal", "expected"), [(False, True), (True, None)])
def test_an_answer_within_a_comprehension(causal, expected):
    asked = Asked(True)
    in_comprehension(asked, causal)
    assert asked.found[:2] == [expected, expected]
