"""Compares what was exported with eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree

import opbridge
from helpers.running import opened

__all__ = ["assert_matches", "assert_same_results", "eager_results"]

Run = Callable[[Sequence[Any], Mapping[str, Any] | None], Sequence[np.ndarray]]


def assert_matches(
    model: Callable[..., Any],
    *args: Any,
    others: Sequence[Sequence[Any]] = (),
    kwargs: dict[str, Any] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    load: Callable[[opbridge.Program], Run] = opened,
    **export: Any,
) -> opbridge.Program:
    """Exports a module or function and compares it with eager PyTorch: dtype, shape and every element.

    The model is exported once, with its example inputs. The program is then run on these and on each of the others, and
    its outputs are compared with what the model gives in PyTorch for copies of the same inputs. The comparison is
    `assert_same_results`; opbridge's own verification is off, unless `verify` asks for it.

    Args:
        model: What to export.
        *args: The example inputs.
        others: Further inputs to compare on, of the example's dtypes, and sizes where they are dynamic.
        kwargs: Keyword inputs, the same with all of these.
        rtol: Relative tolerance; torch.testing's for the dtype by default.
        atol: Absolute tolerance; given together with rtol.
        load: What loads the program, once, to run it on inputs and keyword inputs; by default ONNX Runtime.
        **export: Further arguments of `opbridge.export`.

    Returns:
        The program.
    """
    program = opbridge.export(model, args, kwargs=kwargs, **{"verify": False, **export})
    run = load(program)
    for inputs in (args, *others):
        assert_same_results(run(inputs, kwargs), model, inputs, kwargs, rtol=rtol, atol=atol)
    return program


def assert_same_results(
    actual: Sequence[Any],
    model: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
) -> None:
    """Compares outputs with what a model gives in eager PyTorch: how many they are, and the dtype, shape and elements.

    Args:
        actual: The outputs. A complex tensor is a tensor; as an array, it is pairs of real numbers.
        model: What is called for the expected results, which may hold None beside the outputs.
        args: Its inputs. It gets copies of them, as it may write to its inputs.
        kwargs: Its keyword inputs, also copied.
        rtol: Relative tolerance; torch.testing's for the dtype by default.
        atol: Absolute tolerance; given together with rtol.
        equal_nan: Whether a NaN equals a NaN.
    """
    expected = [_tensor(leaf) for leaf in eager_results(model, args, kwargs) if leaf is not None]
    assert len(actual) == len(expected)
    for got, want in zip(actual, expected, strict=True):
        if want.is_complex() and not isinstance(got, torch.Tensor):
            want = torch.view_as_real(want.resolve_conj())
        torch.testing.assert_close(_tensor(got), want, rtol=rtol, atol=atol, equal_nan=equal_nan)


def eager_results(model: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> list[Any]:
    """What a model returns in PyTorch for copies of these inputs, without gradients: the leaves of its result."""
    given, named = _pytree.tree_map_only(torch.Tensor, torch.clone, (tuple(args), dict(kwargs or {})))
    with torch.no_grad():
        return _pytree.tree_leaves(model(*given, **named))


def _tensor(value: Any) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value.detach()
    if isinstance(value, np.ndarray | np.generic):
        return torch.from_numpy(np.array(value))
    return torch.tensor(value)
