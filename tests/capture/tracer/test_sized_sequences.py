"""Sequences of a symbolic length, with numbers for what is symbolic: they are what Python's are."""

from __future__ import annotations

import itertools

from opbridge.capture.tracer.sized_sequences import Range


def test_a_range_has_what_the_range_of_python_has() -> None:
    for start, stop, step in itertools.product(range(-3, 4), range(-3, 4), (-3, -2, -1, 1, 2, 3)):
        found, expected = Range(start, stop, step), range(start, stop, step)
        assert found.length == len(expected)
        assert [found.has(index) for index in range(8)] == [index < len(expected) for index in range(8)]
        assert [found.at(index) for index in range(len(expected))] == list(expected)
