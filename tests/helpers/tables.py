"""Checks a table of small functions in one model, which takes a fraction of the time of one model each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from helpers.matching import assert_matches

__all__ = ["accepted", "assert_all_match"]


def accepted(table: Mapping[str, Callable[..., Any]], *inputs: Any) -> dict[str, Callable[..., Any]]:
    """The entries of a table that torch has for inputs of these types and sizes."""
    found = {}
    for name, function in table.items():
        try:
            function(*[value.clone() for value in inputs])
        except (RuntimeError, TypeError, IndexError, NotImplementedError):
            continue
        found[name] = function
    return found


def assert_all_match(
    table: Mapping[str, Callable[..., Any]], *inputs: Any, others: Sequence[Sequence[Any]] = (), **options: Any
) -> None:
    """Exports all functions of a table as one model and compares its outputs with PyTorch.

    Args:
        table: Functions of the inputs, by name.
        *inputs: The example inputs.
        others: Further inputs, as `assert_matches` takes them.
        **options: Passed on to `assert_matches`.

    Raises:
        AssertionError: an entry differs; the message names it.
    """
    assert table

    def of_one(x: Any) -> list[Any]:
        return [function(x) for function in table.values()]

    def of_several(*args: Any) -> list[Any]:
        return [function(*args) for function in table.values()]

    model = of_one if len(inputs) == 1 else of_several

    if "dynamic_shapes" in options:
        options["dynamic_shapes"] = tuple(options["dynamic_shapes"].values())
    try:
        assert_matches(model, *inputs, others=others, **options)
    except Exception:
        for name, function in table.items():
            try:
                assert_matches(function, *inputs, others=others, **options)
            except Exception as error:
                raise AssertionError(f"{name}: {error}") from error
        raise
