"""The sizes for which the paths of a model run as one: each branch for sizes of a path that takes it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from opbridge.base.torch_private import torch_decisions
from opbridge.capture.control_flow.blocks import Block
from opbridge.capture.control_flow.execution_path import ExecutionPath

__all__ = ["RunningSizes"]


class RunningSizes:
    """The sizes of the path that runs.

    What an operator asks of the sizes of its arguments is answered for these; the paths say where the answer is
    another.

    Args:
        sizes: The sizes of each path, by symbol; those of the example come first.
        told: Gives what a block asks, in sizes of the inputs.
    """

    def __init__(self, sizes: Mapping[ExecutionPath, Mapping[str, int]], told: Callable[[Block], str]) -> None:
        self._sizes, self.told = sizes, told
        self._path = next(iter(sizes))
        self._unions: dict[str, tuple[Any, Any, Any]] = {}

    def value(self, symbol: Any) -> int | None:
        """The value of a symbol; None where it is not known."""
        name = str(symbol)
        if name not in self._unions:
            return self._sizes[self._path].get(name)
        condition, one, other = self._unions[name]
        answer = torch_decisions.value_of(condition, self.value)
        found = None if answer is None else torch_decisions.value_of(one if answer else other, self.value)
        return None if found is None else int(found)

    @contextlib.contextmanager
    def on_branch(self, block: Block) -> Iterator[None]:
        """Within this context, a branch of a decision runs, which begins with a block."""
        kept = self._path
        paths = [path for path, _ in block.passes]
        if kept not in paths:
            self._path = paths[0]
        try:
            yield
        finally:
            self._path = kept

    def note_union(self, condition: Any, result: torch.Tensor, one: torch.Tensor, other: torch.Tensor) -> None:
        """Notes the sizes of what a decision gives: those of the one branch, or of the other.

        Args:
            condition: What decides.
            result: The tensor that stands for both.
            one: What the branch gives for which the condition holds.
            other: What the other branch gives.
        """
        for size, first, second in zip(result.shape, one.shape, other.shape, strict=True):
            if isinstance(size, torch.SymInt) and torch_decisions.expression_of(size).is_Symbol:
                name = str(torch_decisions.expression_of(size))
                if all(str(getattr(each, "node", None) and each.node.expr) != name for each in (first, second)):
                    self._unions[name] = condition, first, second
