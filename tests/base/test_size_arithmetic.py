"""Quotients of sizes that torch simplifies."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest
import sympy
import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy import functions

import opbridge
from opbridge.base.torch_private.torch_size_arithmetic import dividing_sizes_directly, rounding_quotients_to_integers
from opbridge.capture import capture

BATCH, HEIGHT, WIDTH = sympy.symbols("batch height width", integer=True, positive=True)


def padded(size):
    return size + functions.Mod(7 - functions.Mod(size, 7), 7)


def test_a_quotient_without_a_fraction_is_not_simplified(monkeypatch):
    calls = []
    simplify = sympy.simplify
    monkeypatch.setattr(sympy, "simplify", lambda expression: calls.append(expression) or simplify(expression))
    with dividing_sizes_directly():
        product = BATCH * padded(HEIGHT) * padded(WIDTH) * 96
        found = functions.FloorDiv(product, 49 * 96)
        assert found == functions.FloorDiv(BATCH * padded(HEIGHT) * padded(WIDTH), 49)
        assert functions.FloorDiv(product, 96 * BATCH) == padded(HEIGHT) * padded(WIDTH)
        assert not calls
        assert functions.sympy.simplify((HEIGHT * WIDTH + HEIGHT) / HEIGHT) == WIDTH + 1
        assert len(calls) == 1
    assert functions.sympy is sympy


def test_what_is_left_unsimplified_has_no_fraction():
    with dividing_sizes_directly():
        simplify = functions.sympy.simplify
        for whole in (BATCH * HEIGHT**2, padded(HEIGHT) + 1, sympy.Integer(3)):
            assert simplify(whole) is whole
        assert simplify(2 * (HEIGHT + 1) / (2 * HEIGHT + 2)) == 1


def test_a_fraction_with_a_common_factor_is_not_simplified(monkeypatch):
    calls = []
    simplify = sympy.simplify
    monkeypatch.setattr(sympy, "simplify", lambda expression: calls.append(expression) or simplify(expression))
    with dividing_sizes_directly():
        windows = padded(HEIGHT) + padded(WIDTH)
        found = functions.sympy.simplify(168 * BATCH * windows / (168 * padded(HEIGHT) + 168 * padded(WIDTH)))
        assert found == BATCH
        assert functions.sympy.simplify(21 * windows / (3 * padded(HEIGHT) + 3 * padded(WIDTH))) == 7
        assert not calls


def _quotients(size):
    """Quotients of quotients, and of sums, which are equal in threes."""
    quotient = functions.FloorDiv
    return [
        [quotient(quotient(size + 3, 4) + 1, 2), quotient(size - 1, 8) + 1, quotient(size + 7, 8)],
        [quotient(size + 13, 5), quotient(size + 3, 5) + 2, quotient(size - 2, 5) + 3],
        [quotient(quotient(size, 3) - 7, 2), quotient(size - 21, 6), quotient(quotient(size - 9, 3), 2) - 2],
        [quotient(quotient(quotient(size, 2), 2) + 5, 2) - 1, quotient(size + 12, 8), quotient(size + 4, 8) + 1],
    ]


def test_equal_quotients_have_one_form():
    size = sympy.Symbol("size", integer=True)
    with dividing_sizes_directly():
        found = _quotients(size)
        assert all(len({str(each) for each in equal}) == 1 for equal in found)
        assert functions.FloorDiv(size + 3, -4).args == (size + 3, -4)
        assert functions.FloorDiv(size + WIDTH, 4).args == (size + WIDTH, 4)
        assert functions.FloorDiv(size + 5, WIDTH).args == (size + 5, WIDTH)


def test_the_form_of_a_quotient_has_its_value():
    generator = random.Random(0)
    size = sympy.Symbol("size", integer=True)
    with dividing_sizes_directly():
        for _ in range(300):
            by, divisor = generator.randint(1, 9), generator.randint(1, 9)
            first, second = generator.randint(-30, 30), generator.randint(-30, 30)
            form = functions.FloorDiv(functions.FloorDiv(size + first, by) + second, divisor)
            for value in range(-25, 26):
                assert form.subs(size, value) == ((value + first) // by + second) // divisor


EXACT: dict[str, Callable[[Any], Any]] = {
    "a half": lambda n: int(n / 2),
    "a half, of a float": lambda n: int(float(n) / 2.0),
    "a half, by a product": lambda n: int(n * 0.5),
    "three quarters": lambda n: int(3 * n * 0.25),
    "windows": lambda n: int((n - 3) / 2 + 1),
    "windows of windows": lambda n: int((int((n - 3) / 5 + 1) - 4) / 4 + 1),
    "rounded down": lambda n: math.floor(n / 7),
    "rounded up": lambda n: math.ceil(n / 7),
    "rounded up, and two": lambda n: math.ceil((n + 1) / 7 + 2),
    "cut off below 0": lambda n: int((n - 4) / 5),
    "by another size": lambda n: int((n * 16) / (n + 3)),
}
ROUNDED: dict[str, Callable[[Any], Any]] = {
    "a part": lambda n: int(n * 0.3),
    "a part, and a float": lambda n: int(n / 2 + 0.1),
    "far below 0": lambda n: int((n - 40) / 5) + 8,
    "a quotient of quotients": lambda n: int(n / 3 / 7),
    "two quotients": lambda n: int(n / 3 + n / 7),
}


def _size(low: int = 0) -> tuple[Any, Any]:
    """A dynamic size, and its symbol."""
    env = ShapeEnv()
    fake = torch._subclasses.FakeTensorMode(shape_env=env).from_tensor(
        torch.empty(50),
        symbolic_context=torch.fx.experimental.symbolic_shapes.StatelessSymbolicContext(
            dynamic_sizes=[torch.fx.experimental.symbolic_shapes.DimDynamic.DYNAMIC]
        ),
    )
    size: Any = fake.shape[0]
    return size, size.node.expr


def _symbolic(function: Callable[[Any], Any], size: Any) -> Any:
    """What a function gives for a size, where `int` is what a capture makes of it."""
    return function.__class__(function.__code__, {"int": torch.sym_int, "float": torch.sym_float, "math": math})(size)


@pytest.mark.parametrize("name", EXACT)
def test_a_rounded_quotient_is_one_of_integers(name: str) -> None:
    with rounding_quotients_to_integers():
        size, symbol = _size()
        form = _symbolic(EXACT[name], size).node.expr
    assert not form.atoms(functions.TruncToInt, functions.FloorToInt, functions.CeilToInt, functions.IntTrueDiv)
    draw = random.Random(0)
    numbers = [*range(2, 100), *(draw.randrange(2, 2**40) for _ in range(200)), 2**40, 2**40 - 1]
    assert [int(form.subs(symbol, number)) for number in numbers] == [EXACT[name](number) for number in numbers]


@pytest.mark.parametrize("name", ROUNDED)
def test_what_float64_may_round_elsewhere_stays(name: str) -> None:
    with rounding_quotients_to_integers():
        form = _symbolic(ROUNDED[name], _size()[0]).node.expr
    assert form.atoms(functions.TruncToInt)


def test_numbers_of_data_without_a_limit_stay() -> None:
    with rounding_quotients_to_integers():
        number = ShapeEnv().create_unbacked_symint()
        assert torch.sym_int(number / 2).node.expr.atoms(functions.TruncToInt)
        torch._check(number >= 0)
        torch._check(number <= 1000)
        assert torch.sym_int(number / 2).node.expr == functions.FloorDiv(number.node.expr, 2)


@pytest.mark.parametrize("name", [*EXACT, *ROUNDED])
def test_a_model_with_such_sizes(name: str) -> None:
    function = (EXACT | ROUNDED)[name]

    def model(x: torch.Tensor) -> torch.Tensor:
        return x.sum() + torch.arange(function(x.shape[0]) + 2)

    program = opbridge.export(model, (torch.rand(50),), dynamic_shapes={"x": {0: "n"}}, verify=False)
    assert not program.capture.graph.conditions
    session = program.session()
    for count in (0, 1, 2, 3, 4, 5, 6, 7, 8, 13, 49, 100):
        x = torch.rand(count)
        (got,) = session.run(None, {"x": x.numpy()})
        torch.testing.assert_close(torch.from_numpy(got), model(x))


def test_windows_of_a_convolution_are_as_many_as_the_model_says() -> None:
    """The size of a convolution, which the model computes by way of floats, has the one that torch computes."""
    convolutions = torch.nn.Sequential(torch.nn.Conv1d(1, 2, 7, 3), torch.nn.Conv1d(2, 3, 4, 2)).eval()

    def model(x: torch.Tensor) -> torch.Tensor:
        found = convolutions(x)
        length = x.shape[2]
        for layer in convolutions:
            length = int((length - layer.kernel_size[0]) / layer.stride[0] + 1)
        if length != found.shape[2]:
            return found * 2
        return found

    least = torch.export.Dim("n", min=16)
    found = capture(model, (torch.rand(1, 1, 50),), dynamic_shapes={"x": {0: "batch", 2: least}})
    assert not found.graph.conditions and not found.decisions
