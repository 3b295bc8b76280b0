"""What the stack of a frame holds, and the loops of a function, as each release of Python has them."""

from __future__ import annotations

import sys

import pytest

from opbridge.base.python_private.comprehensions import fills_container, leaves_out
from opbridge.base.python_private.instructions import instructions
from opbridge.base.python_private.loops import for_loops, iterations
from opbridge.base.python_private.stacks import list_being_filled, variable, variables
from opbridge.capture.control_flow.liveness import live_names


class Watched:
    """Counts down, and looks at the frame that goes over it before each iteration."""

    def __init__(self, count, look):
        self._count, self._look = count, look
        self.seen = []

    def __iter__(self):
        return self

    def __next__(self):
        self.seen.append(self._look(sys._getframe(1), self))
        if not self._count:
            raise StopIteration
        self._count -= 1
        return self._count


def _filled(frame, over):
    found = list_being_filled(frame, over)
    return None if found is None else list(found)


def _nested(over):
    return [[y for y in over] for x in range(1)]  # noqa: C416  # a comprehension is tested


def _as_argument(over):
    return max(3, *[x for x in over])  # noqa: C416  # a comprehension is tested


@pytest.mark.parametrize(
    "model",
    [lambda over: [x for x in over], _nested, _as_argument, lambda over: [x for x in over if x < 9]],  # noqa: C416  # a comprehension is tested
    ids=["one", "nested", "argument", "condition"],
)
def test_the_list_of_a_comprehension_is_seen_as_it_grows(model):
    over = Watched(2, _filled)
    model(over)
    assert over.seen == [[], [1], [1, 0]]


@pytest.mark.parametrize(
    "model",
    [
        lambda over: {x for x in over},  # noqa: C416  # a comprehension is tested
        lambda over: {x: x for x in over},
        lambda over: [(x, y) for x in over for y in range(2)],
        lambda over: list(x for x in over),  # noqa: C400  # a generator is tested
    ],
    ids=["set", "dict", "two loops", "generator"],
)
def test_no_list_is_seen_where_iterations_do_not_append_one_element(model):
    over = Watched(1, _filled)
    model(over)
    assert over.seen == [None, None]


def test_a_loop_around_a_comprehension_is_none():
    over = Watched(1, lambda frame, _: fills_container(frame.f_code, frame.f_lasti))
    for each in over:
        assert [each + other for other in range(2)] == [0, 1]
    assert over.seen == [False, False]


def test_a_condition_may_leave_elements_out():
    def look(frame, _):
        return leaves_out(frame.f_code, frame.f_lasti)

    over = Watched(1, look)
    assert [x for x in over if x == 0 if x < 1] == [0]
    assert over.seen == [True, True]
    over = Watched(1, look)
    assert [[y for y in range(3) if y] for _ in over] == [[1, 2]]
    assert over.seen == [False, False]


def test_variables_that_comprehensions_hide_are_seen():
    """They are in a frame of their own before Python 3.12, and are those of the function since."""

    def look(frame, _):
        names = "x", "y"
        held = {}
        while frame.f_code.co_name != "hiding":
            held = {name: value for name in names if (value := variable(frame, name)) is not None} | held
            frame = frame.f_back
        own = variables(frame)
        return (
            {name: value for name in names if (value := variable(frame, name)) is not None} | held,
            own["x"],
            own["z"],
        )

    over = Watched(1, look)

    def hiding(x, z):
        shared = lambda: x  # noqa: E731  # a cell is tested
        return [[y for y in over] for x in range(4, 5)], x, shared()  # noqa: C416  # a comprehension is tested

    assert hiding("own", 1) == ([[0]], "own", "own")
    assert over.seen == [({"x": 4}, "own", 1), ({"x": 4, "y": 0}, "own", 1)]


def test_what_a_comprehension_hides_is_live_where_it_is_read_afterwards():
    def look(frame, _):
        while frame.f_code.co_name == "<listcomp>":
            frame = frame.f_back
        return {"x", "y"} & live_names(frame.f_code, frame.f_lasti)

    over = Watched(1, look)

    def read(x, y):
        return [x + y for x in over], x

    def not_read(x, y):
        return [x + y for x in over]

    read(1, 2)
    assert all("x" in each for each in over.seen)
    over = Watched(1, look)
    not_read(1, 2)
    assert all("x" not in each for each in over.seen)


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
    for code in (test_variables_that_comprehensions_hide_are_seen.__code__, _nested.__code__, instructions.__code__):
        run = [each for each in instructions(code) if each.stack is not None]
        assert run and all(each.before <= code.co_stacksize for each in run if each.name != "RETURN_VALUE")
        assert all(each.before == 1 for each in run if each.name == "RETURN_VALUE")
        assert [each.first for each in for_loops(code)] == [each.offset for each in run if each.name == "FOR_ITER"]
