"""Comprehensions as generators, and what they give, in Python alone."""

from __future__ import annotations

import ast
import inspect
import itertools
import sys
import textwrap
import traceback

import pytest
import torch

from opbridge.capture import capture
from opbridge.capture.tracer import filling, list_syntax
from opbridge.capture.tracer.comprehensions import dict_of, list_of, set_of
from opbridge.capture.tracer.list_syntax import with_symbolic_lists
from opbridge.errors import CaptureError

OUTSIDE = 100


def rewritten(function):
    """A function whose comprehensions are generators, and how many times each container was made of one."""
    code = with_symbolic_lists(function.__code__)
    made = []

    def counting(make):
        def counted(elements):
            made.append(elements.gi_code.co_name)
            return make(elements)

        return counted

    names = {
        **function.__globals__,
        list_syntax.LIST: counting(list_of),
        list_syntax.SET: counting(set_of),
        list_syntax.DICT: counting(dict_of),
        list_syntax.NEW: list,
    }
    new = type(function)(code, names, function.__name__, function.__defaults__, function.__closure__)
    new.__kwdefaults__, new.__qualname__ = function.__kwdefaults__, function.__qualname__
    return new, made


def squares(n):
    return [i * i for i in range(n)]


def conditions(n):
    return [i for i in range(n) if i % 2 if i != 3]


def hides(i):
    return [i + 1 for i in range(i)], i


def nested(n):
    return [[(i, j, OUTSIDE) for j in range(i)] for i in range(n)]


def two_loops(n):
    return [(i, j) for i in range(n) for j in range(i) if i + j > 2]


def a_set(n):
    return {i % 3 for i in range(n)}


def a_dict(n):
    return {i % 3: [i] for i in range(n)}


def a_dict_of_lists(n):
    return {i: [j for j in range(i)] for i in range(n)}  # noqa: C416  # a comprehension is tested


def starred(n):
    return [first + sum(rest) for first, *rest in itertools.pairwise(range(n))]


def conditional(n):
    return [i if i > 2 else [j for j in range(i)] for i in range(n)]  # noqa: C416  # a comprehension is tested


def keywords(n):
    return dict(values=[i for i in range(n)], names=tuple(str(i) for i in range(n)))  # noqa: C416, C408  # a comprehension in an argument is tested


def walrus(n):
    found = [last := i for i in range(n)]
    return found, last


def walrus_in_a_condition(n):
    found = [half for i in range(n) if (half := i // 2) > 1]
    return found, half


def walrus_of_a_nested_one(n):
    found = [[last := i * j for j in range(2)] for i in range(n)]
    return found, last


def closures(n):
    made = [lambda: i + n for i in range(n)]  # noqa: B023  # the scope is tested
    return [each() for each in made]


def shared(n):
    total = 0

    def add(i):
        nonlocal total
        total += i
        return total

    return [add(i) for i in range(n)], total


def in_a_class(n):
    class Held:
        n = 2
        values = tuple([i for i in range(n)])  # noqa: C416  # the scope is tested
        lengths = tuple([n for _ in range(3)])

    return Held.values, Held.lengths


def defaults(n, *, k=[i for i in range(3)]):  # noqa: B006, C416  # a comprehension is tested
    def inner(m=[i for i in range(n)]):  # noqa: B006, C416  # a comprehension is tested
        return [i + 1 for i in m]

    return inner(), k


def once(n):
    over = iter(range(n))
    return [i for i in over], [i for i in over]  # noqa: C416  # a comprehension is tested


def in_a_lambda(n):
    return (lambda m: [i * m for i in range(n)])(3)


def in_a_generator(n):
    return list(each for i in range(n) for each in [j for j in range(i)])  # noqa: C400, C416


def in_an_argument(n):
    return max([0], [i for i in range(n)], key=len)  # noqa: C416  # a comprehension is tested


def loop_inside(n):
    found = []
    for i in range(n):
        found.append([i + j for j in range(2)])
    return found


FUNCTIONS = [
    squares,
    conditions,
    hides,
    nested,
    two_loops,
    a_set,
    a_dict,
    a_dict_of_lists,
    starred,
    conditional,
    keywords,
    walrus,
    walrus_in_a_condition,
    walrus_of_a_nested_one,
    closures,
    shared,
    in_a_class,
    defaults,
    once,
    in_a_lambda,
    in_a_generator,
    in_an_argument,
    loop_inside,
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: each.__name__)
def test_the_same_values(function):
    new, made = rewritten(function)
    expected, found = function(6), new(6)
    assert made and set(made) == {"<genexpr>"}
    assert found == expected and type(found) is type(expected)
    assert repr(found) == repr(expected)  # the order of dicts and sets


class Above:
    def at(self, i):
        return i * 10


class Below(Above):
    __kept = 3

    def private(self, n):
        return [self.__kept + i for i in range(n)]

    def of_class(self, n):
        return [__class__.__name__ for _ in range(n)]

    def with_arguments(self, n):
        return [super(Below, self).at(i) for i in range(n)]

    def without(self, n):
        return [super().at(i) for i in range(n) if super().at(i) >= 0]

    def without_nested(self, n):
        return [[super().at(i + j) for j in [super().at(0)]] for i in range(n)]

    def in_a_lambda(self, n):
        return [(lambda i: super().at(i))(i) for i in range(n)]

    def in_first_iterable(self, n):
        return [i for i in [super().at(n)]]  # noqa: C416  # a comprehension is tested


@pytest.mark.parametrize(
    "name", ["private", "of_class", "with_arguments", "without", "without_nested", "in_a_lambda", "in_first_iterable"]
)
def test_methods(name):
    function = getattr(Below, name)
    new, made = rewritten(function)

    def called(method):
        try:
            return method(Below(), 3)
        except (RuntimeError, TypeError) as error:
            return type(error)

    assert called(new) == called(function) and made


def _next_of(values):
    over = iter(values)
    return [next(over) for _ in range(5)]


def _of_a_generator(values):
    def generator():
        yield next(iter(()))

    return [i for _ in values for i in generator()]


def _hashed(values):
    return {[each] for each in values}


def _divided(values):
    return {
        i: [
            1 / each
            for each in values
        ]
        for i in range(1)
    }  # fmt: skip


@pytest.mark.parametrize("function", [_next_of, _of_a_generator, _hashed, _divided])
def test_errors_are_the_same(function):
    new, made = rewritten(function)

    def raised(called):
        with pytest.raises(Exception) as caught:  # the type is what is compared
            called([1, 0])
        error, file = caught.value, inspect.getfile(function)
        trace = traceback.extract_tb(error.__traceback__)
        lines = [each.lineno for each in trace if each.filename == file and each.name != "counted"]
        return type(error), str(error), type(error.__cause__), type(error.__context__), lines[-1]

    assert raised(new) == raised(function) and made


def test_a_function_is_where_it_was():
    code = with_symbolic_lists(_divided.__code__)
    assert (code.co_name, code.co_qualname) == (_divided.__code__.co_name, _divided.__code__.co_qualname)
    assert code.co_firstlineno == _divided.__code__.co_firstlineno
    assert inspect.getsource(code) == inspect.getsource(_divided)

    def lines(of):
        inner = (each for each in of.co_consts if inspect.iscode(each))
        own = {line for *_, line in of.co_lines() if line is not None}
        return own.union(*map(lines, inner))

    assert lines(code) == lines(_divided.__code__)


def _locals(n):
    return [sorted(locals()) for i in range(n)]


async def _awaited(values):
    return [await each for each in values]


async def _async_for(values):
    return [each async for each in values]


@pytest.mark.parametrize("function", [_locals, _awaited, _async_for])
def test_what_a_generator_has_no_meaning_for_stays(function):
    assert with_symbolic_lists(function.__code__) is function.__code__


def test_a_function_without_its_source_stays():
    names = {}
    exec(compile("def one(n):\n    return [i for i in range(n)]\n", "<made at run time>", "exec"), names)
    assert with_symbolic_lists(names["one"].__code__) is names["one"].__code__


def test_an_element_sees_what_there_is_so_far():
    seen = []

    def look(i):
        frame = sys._getframe(1).f_back
        assert frame.f_globals["__name__"] == filling.__name__
        seen.append(type(frame.f_locals["found"])(frame.f_locals["found"]))
        return i

    def model(n):
        return [look(i) for i in range(n)], {look(i) for i in range(n)}, {i: look(i) for i in range(n)}

    rewritten(model)[0](2)
    assert seen == [[], [0], set(), {0}, {}, {0: 0}]


def test_super_is_written_out_in_the_function_around():
    source = (
        "def f(self):\n    return [(super().a, lambda: super().b, (super().c for _ in super().d)) for _ in super().e]"
    )

    def change(function):
        list_syntax._change(function)
        names.append(ast.unparse(function))
        return False

    names = []
    change(ast.parse(textwrap.dedent(source)).body[0])
    own = "super()" if sys.version_info < (3, 12) else "super(__class__, self)"
    expected = f"({own}.a, lambda: super().b, (super().c for _ in {own}.d)) for _ in super().e"
    assert f"{list_syntax.LIST}(({expected}))" in names[0]


def test_a_function_of_sets_alone_is_left_out_where_one_path_is_captured():
    assert with_symbolic_lists(a_set.__code__, of_lists=True) is a_set.__code__
    assert with_symbolic_lists(a_set.__code__) is not a_set.__code__
    assert with_symbolic_lists(a_dict_of_lists.__code__, of_lists=True) is not a_dict_of_lists.__code__


OF_ROWS = """
def of_rows(x):
    return torch.stack([row.exp() for row in x])

def of_pairs(x):
    return torch.stack([x[2 * i].exp() for i in range(x.shape[0] // 2)])
"""


@pytest.mark.slow
def test_without_its_source_a_comprehension_is_unrolled_which_is_said():
    names = {"torch": torch}
    exec(compile(OF_ROWS, "made.py", "exec"), names)
    said = "comprehension at made.py:{} is unrolled for the sizes of the example, because the source of its function"
    with pytest.raises(CaptureError, match="requires n == 3 .*The " + said.format(3)):
        capture(names["of_rows"], torch.ones(3, 2), dynamic_shapes=({0: "n"},))
    found = capture(names["of_pairs"], torch.ones(4, 2), dynamic_shapes=({0: "n"},))
    assert any(each.startswith("the " + said.format(6)) for each in found.notes), found.notes
