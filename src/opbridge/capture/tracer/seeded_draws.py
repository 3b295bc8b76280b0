"""Random numbers that are the same in each run, as the model sets the seed: constants of the graph.

After `torch.manual_seed(0)` in `forward`, `torch.randn(4)` gives what it gave in the run before. A file cannot draw
those numbers, but it can hold them. An operator that is recorded does not advance torch's generator. So the state of
the generator tells whether the model has set the seed since the run began, and the generator draws these numbers as
eager PyTorch does, in the same order.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from opbridge.base.torch_private import torch_overrides

__all__ = ["SeededDraws"]

_aten = torch.ops.aten
_MAKING = frozenset({"aten::rand", "aten::randn", "aten::randint", "aten::randperm"})
_LIKE = frozenset({"aten::rand_like", "aten::randn_like", "aten::randint_like"})
_FILLING = frozenset(
    {"aten::uniform_", "aten::normal_", "aten::random_", "aten::exponential_", "aten::bernoulli_", "aten::log_normal_"}
)
"""Operators that ask nothing of a tensor but its sizes and dtype."""

_UNKNOWN = (torch.SymInt, torch.SymFloat, torch.SymBool, torch.Tensor)

_OF_NO_MODEL = 0x5EED_0FBB_1D6E
"""The seed that a run begins with: one that no model sets."""


class SeededDraws:
    """The random numbers of one run of a model."""

    def __init__(self) -> None:
        self._unset: torch.Tensor | None = None

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Within this context, a model runs; torch's generator is as it was afterwards."""
        kept = _state()
        torch.default_generator.manual_seed(_OF_NO_MODEL)
        self._unset = _state()
        try:
            yield
        finally:
            self._unset = None
            with torch_overrides.without_modes():
                torch.set_rng_state(kept)

    def of(self, function: Any, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> torch.Tensor | None:
        """What an operator draws, where the model has set the seed; None where it has not, or that is not known.

        Args:
            function: The operator.
            args: Its arguments.
            keywords: Its keyword arguments, among them no generator.
        """
        if self._unset is None or _is_same(state := _state(), self._unset):
            return None
        given = _with_values(function._schema.name, args)
        if given is None or any(isinstance(each, _UNKNOWN) for each in pytree.tree_leaves((args[1:], dict(keywords)))):
            self._unset = state  # how far it advances the generator is not known
            return None
        with torch_overrides.without_modes(), torch.no_grad():
            found: torch.Tensor = function(*given, **keywords)
        return found


def _state() -> torch.Tensor:
    with torch_overrides.without_modes():
        return torch.get_rng_state()


def _is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    with torch_overrides.without_modes():
        return torch.equal(one, other)


def _with_values(name: str, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The arguments of an operator, with a tensor that has values in the place of one that has none.

    Returns:
        None where the operator may ask for these values, or the sizes are not known.
    """
    if name in _MAKING:
        return None if any(isinstance(each, _UNKNOWN) for each in pytree.tree_leaves(args)) else args
    if name not in _LIKE | _FILLING:
        return None
    like = args[0]
    if any(isinstance(size, torch.SymInt) for size in like.shape) or not like.is_contiguous():
        return None
    with torch_overrides.without_modes():
        return (torch.empty(tuple(like.shape), dtype=like.dtype), *args[1:])
