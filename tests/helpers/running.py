"""Runs what was exported, on the inputs of the model that it was exported from."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime
import torch
from torch.utils import _pytree

import opbridge

__all__ = ["opened", "run", "run_session", "tensors"]


def opened(program: opbridge.Program) -> Callable[[Sequence[Any], Mapping[str, Any] | None], list[np.ndarray]]:
    """What runs an exported program in ONNX Runtime, in one session for all its calls."""
    return functools.partial(run_session, program.session())


def run(program: opbridge.Program, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> list[np.ndarray]:
    """The outputs of an exported program in ONNX Runtime."""
    return run_session(program.session(), args, kwargs)


def run_session(
    session: onnxruntime.InferenceSession, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None
) -> list[np.ndarray]:
    """The outputs of a session, whose inputs are the tensors among these arguments, in their order."""
    names = [node.name for node in session.get_inputs()]
    return session.run(None, dict(zip(names, tensors(args, kwargs), strict=True)))


def tensors(args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> list[np.ndarray]:
    """The tensors among the arguments of a call as an ONNX model takes them: complex numbers are pairs of numbers."""
    leaves = _pytree.tree_leaves((tuple(args), dict(kwargs or {})))
    return [_array(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _array(tensor: torch.Tensor) -> np.ndarray:
    tensor = tensor.detach()
    return (torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor).contiguous().numpy()
