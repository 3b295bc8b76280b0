"""What the instructions of a function do with its lists."""

from __future__ import annotations

import pytest

from opbridge.capture.tracer.list_instructions import elements_read


def last(found, others):
    return found[-1], others[-4]


def before_the_last(found, others):
    return found[-1] + found[-3], others


def by_a_number(found, others):
    return found[len(others)]


def by_a_slice(found, others):
    return found[1:], others


def none(found, others):
    return len(found), others[0]


@pytest.mark.parametrize(
    ("function", "count"), [(last, 1), (before_the_last, 3), (by_a_number, 1), (by_a_slice, 1), (none, 0)]
)
def test_elements_that_are_read_from_the_end(function, count):
    assert elements_read(function.__code__, "found") == count


def test_elements_that_are_read_from_the_begin():
    def read(found):
        return found[0] + found[2] * found[-1]

    assert elements_read(read.__code__, "found", from_begin=True) == 3
