"""The outputs of a model that are random, whose values are not compared."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from opbridge.verification.compare import Comparison, compare
from opbridge.verification.model_outputs import ModelOutputs
from opbridge.verification.report import Run

__all__ = ["RandomOutputs"]

_SEEDS = 8
"""How many seeds are tried on an output that differs: where few values can be drawn, two seeds may give the same."""


class RandomOutputs:
    """The outputs of one model that are found to be random."""

    def __init__(self, outputs: ModelOutputs, args: tuple[Any, ...], kwargs: Mapping[str, Any], seed: int) -> None:
        """Args:
        outputs: Gives the model's outputs on inputs.
        args: The positional example inputs.
        kwargs: The keyword example inputs.
        seed: The first seed.
        """
        self._outputs, self._seed = outputs, seed
        self._args, self._kwargs = args, kwargs
        # By position of an output that is random on the example inputs, whether its shape varies too.
        self._random: dict[int, bool] = {}
        self._examined: set[int] = set()

    def left_out(
        self, run: Run, args: tuple[Any, ...], kwargs: Mapping[str, Any], precisions: Sequence[torch.dtype | None]
    ) -> Run:
        """A run that differs, in which the values of random outputs are not compared.

        Args:
            run: The run. The last run of the model in PyTorch was on its inputs.
            args: Its positional inputs.
            kwargs: Its keyword inputs.
            precisions: As for `opbridge.verification.compare.compare`, for each output.
        """
        wrong = _wrong(run)
        if not wrong <= self._examined:
            self._examined |= wrong
            self._random.update(self._found(self._args, self._kwargs, wrong, precisions))
        run = _marked(run, self._random)
        if not run.ok and self._outputs.used_generator:
            # What is drawn may be certain on the example, as from probabilities that are all 0 but one.
            run = _marked(run, self._found(args, kwargs, _wrong(run), precisions))
        return run

    def left_out_of_all(self, runs: Sequence[Run]) -> list[Run]:
        """All runs, in which the values of outputs that are random on the example inputs are not compared."""
        return [_marked(run, self._random) for run in runs] if self._random else list(runs)

    def _found(
        self,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        wrong: set[int],
        precisions: Sequence[torch.dtype | None],
    ) -> dict[int, bool]:
        """The outputs that differ between runs of the model in PyTorch with different seeds.

        Args:
            args: The positional inputs of these runs.
            kwargs: Their keyword inputs.
            wrong: The positions of the outputs that differ from the file's. The search ends when all are random.
            precisions: As for `opbridge.verification.compare.compare`, for each output.

        Returns:
            By position, whether the shape of a random output varies too.
        """
        first = self._outputs(args, kwargs, seed=self._seed)
        random: dict[int, bool] = {}
        for other in range(self._seed + 1, self._seed + _SEEDS):
            second = self._outputs(args, kwargs, seed=other)
            for position, (left, right) in enumerate(zip(first, second, strict=True)):
                if not compare("", left, right, precision=precisions[position]).ok:
                    random[position] = random.get(position, False) or left.shape != right.shape
            if not self._outputs.used_generator or wrong <= random.keys():
                break
        return random


def _wrong(run: Run) -> set[int]:
    """The positions of the outputs that differ."""
    return {position for position, comparison in enumerate(run.comparisons) if not comparison.ok}


def _marked(run: Run, random: Mapping[int, bool]) -> Run:
    """A run in which the values of random outputs are not compared.

    Args:
        run: The run.
        random: By position of an output that is random, whether its shape varies too.
    """
    comparisons = [
        _without_values(comparison, varies_in_shape=random[position]) if position in random else comparison
        for position, comparison in enumerate(run.comparisons)
    ]
    return dataclasses.replace(run, comparisons=tuple(comparisons))


def _without_values(comparison: Comparison, *, varies_in_shape: bool) -> Comparison:
    same_rank = len(comparison.shape) == len(comparison.actual_shape)
    same_dtype = comparison.actual_dtype == comparison.dtype
    return comparison.as_random(None if varies_in_shape and same_rank and same_dtype else comparison.reason)
