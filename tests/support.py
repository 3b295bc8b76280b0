"""What tests of translations share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnxruntime
import torch
from torch.utils import _pytree

import opbridge

__all__ = ["assert_matches", "run"]


def run(program: opbridge.Program, args: Sequence[Any], kwargs: dict[str, Any] | None = None) -> list[np.ndarray]:
    """The outputs of an exported program in ONNX Runtime."""
    session = program.session()
    leaves = [leaf for leaf in _pytree.tree_leaves((tuple(args), kwargs or {})) if isinstance(leaf, torch.Tensor)]
    feeds = {node.name: _numpy(leaf) for node, leaf in zip(session.get_inputs(), leaves, strict=True)}
    return _run(session, feeds)


def _run(session: onnxruntime.InferenceSession, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    return session.run(None, feeds)


def _numpy(tensor: torch.Tensor) -> np.ndarray:
    tensor = tensor.detach()
    return (torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor).contiguous().numpy()


def assert_matches(
    model: Callable[..., Any],
    *args: Any,
    others: Sequence[Sequence[Any]] = (),
    kwargs: dict[str, Any] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    **export: Any,
) -> opbridge.Program:
    """Exports a module or function and compares it with eager PyTorch: dtype, shape and every element.

    Args:
        model: What to export.
        *args: The example inputs.
        others: Further inputs to compare on, of the example's dtypes, and sizes where they are dynamic.
        kwargs: Keyword inputs.
        rtol: Relative tolerance; torch.testing's for the dtype by default.
        atol: Absolute tolerance; given together with rtol.
        **export: Further arguments of `opbridge.export`.

    Returns:
        The program.
    """
    program = opbridge.export(model, args, kwargs=kwargs, verify=False, **export)
    for inputs in (args, *others):
        copies = _pytree.tree_map(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, tuple(inputs))
        with torch.no_grad():
            expected = _pytree.tree_leaves(model(*copies, **(kwargs or {})))
        wanted = [
            leaf if isinstance(leaf, torch.Tensor) else torch.tensor(leaf) for leaf in expected if leaf is not None
        ]
        got = run(program, inputs, kwargs)
        assert len(got) == len(wanted)
        for actual, want in zip(got, wanted, strict=True):
            torch.testing.assert_close(
                torch.from_numpy(np.ascontiguousarray(actual).reshape(actual.shape)),
                torch.from_numpy(_numpy(want)),
                rtol=rtol,
                atol=atol,
                equal_nan=True,
            )
    return program
