"""The variables of frames, and the loops of functions, as each release of Python has them."""

from __future__ import annotations

import sys

import pytest

from opbridge.base.python_private.comprehensions import hidden_names, is_in_comprehension
from opbridge.base.python_private.frames import variables
from opbridge.base.python_private.instructions import instructions
from opbridge.base.python_private.loops import for_loops, iterations
from opbridge.capture.control_flow.liveness import live_names

HAS_FRAMES_OF_COMPREHENSIONS = sys.version_info < (3, 12)


class Watched:
    """Counts down, and looks at the frame that goes over it before each iteration."""

    def __init__(self, count, look):
        self._count, self._look = count, look
        self.seen = []

    def __iter__(self):
        return self

    def __next__(self):
        self.seen.append(self._look(sys._getframe(1)))
        if not self._count:
            raise StopIteration
        self._count -= 1
        return self._count


def _nested(over):
    return [[y for y in over] for x in range(1)]  # noqa: C416  # a comprehension is tested


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda over: [x for x in over], True),  # noqa: C416  # a comprehension is tested
        (lambda over: {x for x in over}, True),  # noqa: C416  # a comprehension is tested
        (lambda over: {x: x for x in over}, True),
        (_nested, True),
        (lambda over: tuple(x for x in over), False),
        (list, False),
    ],
    ids=["list", "set", "dict", "nested", "generator", "none"],
)
def test_a_frame_in_a_comprehension(function, expected):
    over = Watched(1, lambda frame: is_in_comprehension(frame.f_code, frame.f_lasti))
    if function is list:
        for each in over:
            assert [each + other for other in range(2)] == [0, 1]
    else:
        function(over)
    assert over.seen == [expected, expected]


def test_variables_where_a_comprehension_hides_some():
    def look(frame):
        hidden = hidden_names(frame.f_code, frame.f_lasti)
        while frame.f_code.co_name == "<listcomp>":
            frame = frame.f_back
        return hidden, variables(frame)

    over = Watched(1, look)

    def hiding(x, z):
        shared = lambda: x  # noqa: E731  # a cell is tested
        return [[y for y in over] for x in range(4, 5)], x, shared()  # noqa: C416  # a comprehension is tested

    assert hiding("own", 1) == ([[0]], "own", "own")
    for hidden, held in over.seen:
        assert held["z"] == 1
        assert hidden == (frozenset() if HAS_FRAMES_OF_COMPREHENSIONS else {"x", "y"})
        if HAS_FRAMES_OF_COMPREHENSIONS:
            assert held["x"] == "own"


def test_what_a_comprehension_hides_is_live_before_it():
    seen = []

    def look():
        frame = sys._getframe(1)
        seen.append({"x", "y"} & live_names(frame.f_code, frame.f_lasti))
        return []

    def read(x, y):
        return [x + y for x in look()], x

    read(1, 2)
    assert "x" in seen[0]


def test_a_iteration_of_a_while_loop_begins_at_its_condition():
    def asked(x):
        while x < 5:
            y = x
            x = y + 1
        return x

    first = asked.__code__.co_firstlineno
    assert {each.line for each in iterations(asked.__code__)} == {first + 1}
    assert not any(each.is_of_for for each in iterations(asked.__code__))


def test_heights_are_within_those_of_the_compiler():
    functions = test_variables_where_a_comprehension_hides_some, _nested, instructions
    for code in (each.__code__ for each in functions):
        run = [each for each in instructions(code) if each.stack is not None]
        assert run and all(each.before <= code.co_stacksize for each in run if each.name != "RETURN_VALUE")
        assert all(each.before == 1 for each in run if each.name == "RETURN_VALUE")
        assert [each.first for each in for_loops(code)] == [each.offset for each in run if each.name == "FOR_ITER"]
