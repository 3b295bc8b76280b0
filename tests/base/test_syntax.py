"""Functions that are compiled again from their syntax tree."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache

import pytest
import torch

from opbridge.base.python_private.syntax import recompiled


class _Twice(ast.NodeTransformer):
    """2 in the place of 1."""

    def visit_Constant(self, node):
        return ast.copy_location(ast.Constant(2), node) if node.value == 1 else node


def _twice(function):
    before = ast.dump(function)
    _Twice().visit(function)
    return ast.dump(function) != before


def _changed(function):
    code = recompiled(function.__code__, _twice)
    assert code is not None
    function.__code__ = code
    return function


def test_lines_closures_defaults_and_names_are_those_of_the_function():
    outside, other = 10, []

    def add(x, y=1, *, z=3):
        other.append(x)
        return x + y + z + outside + 1

    lines = list(add.__code__.co_lines())
    _changed(add)
    assert add(100) == 100 + 1 + 3 + 10 + 2 and other == [100]
    assert add.__code__.co_qualname.endswith("<locals>.add")
    assert [line for *_, line in add.__code__.co_lines()] == [line for *_, line in lines]
    assert inspect.getsource(add).startswith("    def add(")


def test_methods_that_call_super_have_private_names_and_generators():
    class Above:
        def found(self):
            return 5

    class Below(Above):
        def __init__(self):
            self.__one = 1

        def found(self):
            return super().found() + self.__one + 1

        def counted(self):
            yield from (each + 1 for each in range(self.__one + 1))

    expected = Below().found() + 1
    _changed(Below.found)
    assert Below().found() == expected
    _changed(Below.counted)
    assert list(Below().counted()) == [2, 3, 4]


class Named:
    def own(self):
        return type(self) is Named, 1


def test_a_method_that_names_its_class():
    _changed(Named.own)
    assert Named().own() == (True, 2)

    class Local:
        def own(self):
            return type(self) is Local, 1

    _changed(Local.own)
    assert Local().own() == (True, 2)


def test_a_function_with_a_class():
    def made():
        class Held:
            value = 1

        return Held

    expected = made().__qualname__
    _changed(made)
    assert made().value == 2 and made().__qualname__ == expected


def test_a_decorated_function_and_one_of_a_module_that_is_imported():
    @functools.wraps(int)
    def one():
        return torch.ones(1).sum() + 1

    _changed(one)
    assert one() == 4


def test_a_function_without_its_source_stays():
    names = {}
    exec(compile("def one():\n    return 1\n", "<made at run time>", "exec"), names)
    assert recompiled(names["one"].__code__, _twice) is None


def test_a_function_whose_source_has_changed_stays(tmp_path):
    path, names = str(tmp_path / "changed.py"), {}
    exec(compile("def one():\n    return 1\n", path, "exec"), names)
    linecache.cache[path] = 20, None, ["def one():\n", "    return 1 + 1\n"], path
    assert recompiled(names["one"].__code__, _twice) is None
    linecache.cache[path] = 20, None, ["def one():\n", "    return 1\n"], path
    code = recompiled(names["one"].__code__, _twice)
    assert code is not None and eval(code) == 2


def test_a_lambda_expression():
    outside = 3
    one = _changed(lambda x: x + 1 + outside)
    assert one(10) == 15 and one.__name__ == "<lambda>"


def _of_two_in_a_line():
    return (lambda: 1), (lambda: 1 + 1)


@pytest.mark.parametrize("function", [*_of_two_in_a_line(), _twice])
def test_what_is_not_found_or_is_not_changed_stays(function):
    assert recompiled(function.__code__, _twice if function is not _twice else lambda node: False) is None
