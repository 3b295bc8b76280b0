"""Operators of another package that write to their arguments: what they return, and what they write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from helpers.matching import assert_matches
from onnxscript import opset18 as op

import opbridge

_SCHEMAS = {
    "both": "(Tensor(a!) x, Tensor(b!) y) -> ()",
    "update": "(Tensor(a!) state, Tensor x) -> Tensor",
    "update_both": "(Tensor(a!) s, Tensor(b!) t, Tensor x) -> (Tensor, Tensor)",
    "returned": "(Tensor(a!) s, Tensor(b!) t) -> (Tensor(b!), Tensor)",
    "each": "(Tensor(a!)[] xs, *, int n=1) -> ()",
    "optional": "(Tensor x, Tensor(a!)? s=None) -> ()",
}


def _copy(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.numpy().copy())  # which no capture follows


def _both(x: torch.Tensor, y: torch.Tensor) -> None:
    x.copy_(_copy(x) * 3)
    y.copy_(_copy(y) + 1)


def _update(state: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    state.add_(_copy(x))
    return _copy(x) * 2


def _update_both(s: torch.Tensor, t: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    s.add_(_copy(x))
    t.mul_(_copy(x))
    return _copy(x) * 2, _copy(x) * 3


def _returned(s: torch.Tensor, t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    s.add_(_copy(t))
    t.mul_(2)
    return t, _copy(t) - 1


def _each(xs: list[torch.Tensor], *, n: int = 1) -> None:
    for x in xs:
        x.copy_(_copy(x) + n)


def _optional(x: torch.Tensor, s: torch.Tensor | None = None) -> None:
    if s is not None:
        s.add_(_copy(x))


_TRANSLATIONS: dict[str, Any] = {
    "both": lambda x, y: (op.Add(op.Add(x, x), x), op.Add(y, op.Constant(value_float=1.0))),
    "update": lambda state, x: (op.Add(x, x), op.Add(state, x)),
    "update_both": lambda s, t, x: (op.Add(x, x), op.Add(op.Add(x, x), x), op.Add(s, x), op.Mul(t, x)),
    "returned": lambda s, t: (op.Add(t, t), op.Sub(op.Add(t, t), op.Constant(value_float=1.0)), op.Add(s, t)),
    "each": lambda xs, n=1: [op.Add(x, op.Constant(value_float=float(n))) for x in xs],
    "optional": lambda x, s=None: None if s is None else op.Add(s, x),
}
_TABLE = {f"written_results::{name}": function for name, function in _TRANSLATIONS.items()}
_FAKES: dict[str, Any] = {
    "update": lambda state, x: torch.empty_like(x),
    "update_both": lambda s, t, x: (torch.empty_like(x), torch.empty_like(x)),
    "returned": lambda s, t: (t, torch.empty_like(t)),
}


@pytest.fixture(scope="module")
def written() -> Iterator[Any]:
    library = torch.library.Library("written_results", "DEF")
    for name, schema in _SCHEMAS.items():
        library.define(name + schema)
        library.impl(name, globals()[f"_{name}"], "CPU")
    for name, fake in _FAKES.items():
        torch.library.register_fake(f"written_results::{name}", fake, lib=library)
    yield torch.ops.written_results
    library._destroy()


class _Model(torch.nn.Module):
    """A model of a function of the operators and an input."""

    def __init__(self, written: Any, name: str) -> None:
        super().__init__()
        self.written, self.name = written, name
        self.register_buffer("kept", torch.full((4, 3), 2.0))

    def forward(self, x: torch.Tensor) -> Any:
        return getattr(self, f"_{self.name}")(x)

    def _both(self, x: torch.Tensor) -> Any:
        a, b = x.clone(), x * 2
        self.written.both(a, b)
        return a - b

    def _both_twice(self, x: torch.Tensor) -> Any:
        a, b = x.clone(), x * 2
        self.written.both(a, b)
        self.written.both(b, a)
        return a, b

    def _update(self, x: torch.Tensor) -> Any:
        state = x + 1
        found = self.written.update(state, x)
        return state, found, state * found

    def _update_that_nobody_reads(self, x: torch.Tensor) -> Any:
        return self.written.update(x + 1, x)

    def _update_both(self, x: torch.Tensor) -> Any:
        a, b = x + 1, x * 4
        first, second = self.written.update_both(a, b, x)
        return a, first, b, second, a - b

    def _returned(self, x: torch.Tensor) -> Any:
        a, b = x + 1, x * 4
        same, other = self.written.returned(a, b)
        return a, b, same, other

    def _a_buffer(self, x: torch.Tensor) -> Any:
        state = self.kept.clone()
        return self.written.update(state, x), state

    def _each(self, x: torch.Tensor) -> Any:
        a, b = x.clone(), x * 2
        self.written.each([a, b], n=3)
        self.written.each([b])
        return a - b, a

    def _optional(self, x: torch.Tensor) -> Any:
        state = x.clone()
        self.written.optional(x, state)
        self.written.optional(x)
        return state


NAMES = [each.removeprefix("_") for each in vars(_Model) if each.startswith("_") and not each.startswith("__")]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_results_and_what_is_written(written: Any, name: str) -> None:
    x = torch.randn(4, 3)
    assert_matches(_Model(written, name), x, others=[(torch.randn(4, 3),)], custom_translation_table=_TABLE)


@pytest.mark.slow
@pytest.mark.parametrize("name", [each for each in NAMES if each != "returned"])  # which torch does not decompose
def test_of_a_program_after_run_decompositions(written: Any, name: str) -> None:
    x = torch.randn(4, 3)
    model = _Model(written, name)
    program = torch.export.export(model, (x,)).run_decompositions()
    exported = opbridge.export(program, custom_translation_table=_TABLE)
    assert exported.verification.ok
    given = torch.randn(4, 3)
    expected = torch.utils._pytree.tree_leaves(model(given.clone()))
    for found, each in zip(exported.session().run(None, {"x": given.numpy()}), expected, strict=True):
        torch.testing.assert_close(torch.from_numpy(found), each)


@pytest.mark.parametrize("built", [lambda state, x: op.Add(x, x), lambda state, x: (op.Add(x, x),)])
def test_a_translation_that_lacks_what_is_written_is_refused(written: Any, built: Any) -> None:
    table = {"written_results::update": built}
    x = torch.randn(4, 3)
    with pytest.raises(opbridge.MissingOperators, match="gives 1 of 2 results. The operator writes to state"):
        opbridge.export(_Model(written, "update"), (x,), custom_translation_table=table)
    assert_matches(_Model(written, "update_that_nobody_reads"), x, custom_translation_table=table)


@pytest.mark.parametrize("name", ["update_both", "each", "both"])
def test_an_operator_without_a_translation_is_named(written: Any, name: str) -> None:
    with pytest.raises(opbridge.MissingOperators, match=f"1 of . operators have no route.*\n.*written_results::{name}"):
        opbridge.export(_Model(written, name), (torch.randn(4, 3),))


def test_one_tensor_for_two_arguments_is_refused(written: Any) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        a = x.clone()
        written.both(a, a)
        return a

    with pytest.raises(opbridge.CaptureError, match="is given one tensor for several arguments that it writes to"):
        opbridge.export(model, (torch.randn(4, 3),), custom_translation_table=_TABLE)


def test_a_write_to_a_view_in_a_program_after_run_decompositions_is_refused(written: Any) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            a = x.clone()
            written.optional(x[0], a[1])
            return a

    program = torch.export.export(Model(), (torch.randn(4, 3),)).run_decompositions()
    with pytest.raises(
        opbridge.CaptureError, match=r"written_results::optional writes, at .*\.py:\d+, in place to a view"
    ):
        opbridge.export(program, custom_translation_table=_TABLE)
