"""Counting the iterations of `for` loops, and what is looked at when functions begin to run."""

from __future__ import annotations

import sys

from opbridge.capture.control_flow.program_points import IterationCounter


def _called_twice():
    pass


def _looping(counter):
    found = []
    for _ in range(2):
        for _ in range(2):
            found.append(counter.of(sys._getframe()))
    return found


def test_iterations_are_counted_for_each_loop_of_a_frame():
    counter = IterationCounter({})
    with counter.counting():
        assert _looping(counter) == [(1, 1), (1, 2), (2, 4), (2, 5)]
    assert _looping(counter) == [(0, 0)] * 4


def test_a_function_that_is_not_known_yet_is_looked_at_again():
    begun = []

    def note(frame):
        if frame.f_code is _called_twice.__code__:
            begun.append(frame)
        return len(begun) == 2

    counter = IterationCounter({}, note)
    with counter.counting():
        for _ in range(4):
            _called_twice()
    assert len(begun) == 2
