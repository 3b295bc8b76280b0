"""Differences beyond the tolerance that say nothing against a file: which they are, tried one after the other."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any

import torch

from opbridge.base.wording import listed
from opbridge.graph.values import as_tensor
from opbridge.verification.compare import Comparison, compare
from opbridge.verification.eager import explain
from opbridge.verification.float64 import MANY_RUNS, NEARBY_RUNS, Unavailable, errors, judged, perturbed
from opbridge.verification.model_outputs import ModelOutputs
from opbridge.verification.random_outputs import RandomOutputs
from opbridge.verification.replay import Replay
from opbridge.verification.report import Run

__all__ = ["Judge", "is_suspicious", "judged_by_steps"]


_MOST_DECISIONS = 2
_SUSPICIOUS = 0.02
"""The share of the tolerance from which on a difference is looked at more closely: some 60 roundings in float32."""

_BY_ROUNDING = 30
"""How many times PyTorch's error rounding may make the file's."""

_DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)
_SLACK = 1e-3
"""What the difference of two multiples of a step may be off by, as a share of the step."""


class Judge:
    """Judges the outputs that differ, each until it was found wrong once.

    Attributes:
        notes: What could not be judged, and why.
    """

    def __init__(
        self,
        run: ModelOutputs,
        replay: Callable[[tuple[Any, ...], Mapping[str, Any]], Replay | None],
        seed: int,
    ) -> None:
        """Args:
        run: Runs the model on inputs, as it is, in float64, or with sums and sigmoids that are rounded otherwise, and
            gives its outputs.
        replay: Computes the captured graph with the runtime's decisions, as `opbridge.verification.replay` does.
        seed: What perturbed inputs are drawn from.
        """
        self.notes: list[str] = []
        self._run, self._replay, self._seed = run, replay, seed
        self._wrong: set[int] = set()

    def judged(
        self,
        comparisons: Sequence[Comparison],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        expected: Sequence[torch.Tensor],
        actual: Sequence[torch.Tensor],
        kept: Container[int],
    ) -> tuple[Comparison, ...]:
        """The comparisons of a run: those that differ as they are with the runtime's decisions, or by float64.

        Args:
            comparisons: One for each output.
            args: The positional inputs of the run.
            kwargs: Its keyword inputs.
            expected: PyTorch's outputs.
            actual: The file's outputs.
            kept: The positions of leaves of `(args, kwargs)` that are not perturbed.
        """
        found = list(comparisons)

        def differing() -> list[int]:
            return [at for at, each in enumerate(found) if not each.ok and at not in self._wrong]

        def pending() -> list[int]:
            return [position for position in differing() if found[position].reason is None]

        # A decision may change shapes too: how many boxes are left.
        if differing() and (decided := self._replay(args, kwargs)) is not None and len(decided.outputs) == len(found):
            if decided.steps is None:
                for position in differing():
                    found[position] = _with_decisions(found[position], decided, position, actual[position])
            else:
                for position in pending():
                    found[position] = judged_by_steps(
                        found[position], decided, position, expected[position], actual[position]
                    )
        if pending() and (reference := self._reference(args, kwargs)) is not None:
            nearby: list[list[torch.Tensor]] = []
            rounded: list[list[torch.Tensor]] = []
            for attempt in range(4):
                if attempt == 1:
                    nearby = self._nearby(args, kwargs, kept)
                elif attempt == 2:
                    rounded = self._rounded(args, kwargs, range(2 * NEARBY_RUNS - len(nearby)))
                elif attempt == 3:
                    if not rounded or not any(found[position].by_chance for position in pending()):
                        break
                    rounded += self._rounded(args, kwargs, range(len(rounded), MANY_RUNS - len(nearby)))
                for position in pending():
                    found[position] = judged(
                        comparisons[position],
                        expected[position],
                        actual[position],
                        reference[position],
                        [outputs[position] for outputs in nearby],
                        [outputs[position] for outputs in rounded],
                    )
                if not pending():
                    break
        self._wrong.update(pending())
        return tuple(found)

    def judged_run(
        self,
        run: Run,
        random: RandomOutputs,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        expected: Sequence[torch.Tensor],
        actual: Sequence[torch.Tensor],
        *,
        precisions: Sequence[torch.dtype | None],
        kept: Container[int] = (),
    ) -> Run:
        """A run that differs, without the differences that say nothing against the file.

        Args:
            run: The run. The last run of the model in PyTorch was on its inputs.
            random: The outputs that are random, whose values are not compared.
            args: The positional inputs of the run.
            kwargs: Its keyword inputs.
            expected: PyTorch's outputs.
            actual: The file's outputs.
            precisions: As for `opbridge.verification.compare.compare`, for each output.
            kept: As for `judged`.
        """
        run = random.left_out(run, args, kwargs, precisions)
        if run.ok:
            return run
        comparisons = self.judged(run.comparisons, args, kwargs, expected, actual, kept)
        return dataclasses.replace(run, comparisons=comparisons)

    def unexplained(
        self,
        comparisons: Sequence[Comparison],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        expected: Sequence[torch.Tensor],
        actual: Sequence[torch.Tensor],
        kept: Container[int],
    ) -> dict[int, tuple[float, float]]:
        """The outputs that agree within the tolerance and differ by more than rounding explains.

        So it is with attention that reads other positions, where random weights make it nearly a plain average.

        Returns:
            For the position of each, how far the file's output is from float64, and how far PyTorch's is.
        """
        positions = [at for at, each in enumerate(comparisons) if is_suspicious(each) and expected[at].dtype in _DTYPES]
        if not positions:
            return {}
        try:
            reference = self._run(args, kwargs, in_float64=True)
        except Exception:  # the model raises anything in float64
            return {}
        nearby: list[list[torch.Tensor]] = []
        found: dict[int, tuple[float, float]] = {}
        runs: tuple[Callable[[], list[list[torch.Tensor]]], ...] = (
            list,
            lambda: self._nearby(args, kwargs, kept),
            *(functools.partial(self._rounded, args, kwargs, [number]) for number in range(NEARBY_RUNS)),
        )
        for further_runs in runs:
            # Further runs make PyTorch's error larger, and so explain more: the first that explain all are enough.
            nearby += further_runs()
            both = {
                at: errors(expected[at], actual[at], reference[at], [each[at] for each in nearby]) for at in positions
            }
            found = {at: each for at, each in both.items() if each is not None and each[0] > _BY_ROUNDING * each[1]}
            if not found:
                break
        return found

    def forget(self) -> None:
        """Judges all outputs again, also those that were found wrong."""
        self._wrong.clear()

    def _reference(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[torch.Tensor] | None:
        """The outputs of the model in float64; None, with a note, where it cannot be computed."""
        try:
            return self._run(args, kwargs, in_float64=True)
        except Unavailable as error:
            reason = str(error)
        except Exception as error:  # another number of outputs
            reason = explain(error)
        self.notes.append(f"the model could not be computed in float64 for comparison ({reason})")
        return None

    def _nearby(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], kept: Container[int]
    ) -> list[list[torch.Tensor]]:
        """PyTorch's outputs on inputs that differ by one rounding; those that the model refuses are left out."""
        outputs = []
        for number in range(NEARBY_RUNS):
            inputs = perturbed(args, kwargs, self._seed + number, kept)
            if inputs is None:
                break
            try:
                outputs.append(self._run(*inputs))
            except Exception:  # the model raises anything
                continue
        return outputs

    def _rounded(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], numbers: Iterable[int]
    ) -> list[list[torch.Tensor]]:
        """PyTorch's outputs where sums and sigmoids are rounded otherwise; nothing where the model cannot be run so."""
        with contextlib.suppress(Exception):  # the model raises anything
            return [self._run(args, kwargs, rounding=self._seed + number) for number in numbers]
        return []


def is_suspicious(comparison: Comparison) -> bool:
    """Whether an output agrees within the tolerance, and uses more of that than rounding mostly does."""
    is_plain = comparison.ok and not comparison.random and not comparison.forgiven
    return is_plain and comparison.excess > _SUSPICIOUS


def judged_by_steps(
    comparison: Comparison, plain: Replay, position: int, expected: torch.Tensor, actual: torch.Tensor
) -> Comparison:
    """The comparison that differs, forgiven where rounding beside ties alone makes a quantised output differ.

    The runtime's graph optimisations may change each element by one step. Without them, all values that the file rounds
    are those of the captured graph (see `replay`). What is left is between that and the model: beside a tie, quantised
    kernels of PyTorch's round otherwise than its plain operators. The elements that differ are some that the captured
    graph has otherwise as well where it rounds otherwise beside ties.
    """
    step = plain.steps[position] if plain.steps is not None else None
    without = as_tensor(plain.outputs[position])
    if step is None or without.shape != expected.shape or not _is_a_step(actual, without, step):
        return comparison
    given, off = comparison.tolerance, _steps_between(expected, without, step)
    if compare("", expected, without, rtol=given.relative, atol=given.absolute).ok:
        count, why = _steps_between(actual, without, step), " because of ONNX Runtime's graph optimizations"
    elif _is_a_step(expected, without, step) and _lies_between(
        expected, [without, *(as_tensor(outputs[position]) for outputs in plain.beside_ties)], step
    ):
        count, why = off, ", because PyTorch's quantized kernels round ties differently"
    else:
        return comparison
    remark = f"{count} of {expected.numel()} elements differ by one quantization step{why}"
    return dataclasses.replace(comparison, forgiven=True, remark=remark)


def _is_a_step(one: torch.Tensor, other: torch.Tensor, step: float) -> bool:
    """Whether no element of two tensors is further apart than a step."""
    return bool(((one - other).abs() <= step * (1 + _SLACK)).all())


def _lies_between(one: torch.Tensor, others: Sequence[torch.Tensor], step: float) -> bool:
    """Whether each element of a tensor is between the least and the largest of the others'."""
    stacked = torch.stack([each.to(one.dtype) for each in others])
    slack = step * _SLACK
    return bool(((one >= stacked.amin(0) - slack) & (one <= stacked.amax(0) + slack)).all())


def _steps_between(one: torch.Tensor, other: torch.Tensor, step: float) -> int:
    """How many elements of two tensors are a step apart."""
    return int(((one - other).abs() > step / 2).sum())


def _with_decisions(comparison: Comparison, decided: Replay, position: int, actual: torch.Tensor) -> Comparison:
    """The comparison that differs, forgiven where the output agrees once the runtime's decisions are taken."""
    given = comparison.tolerance
    again = compare(
        comparison.name, as_tensor(decided.outputs[position]), actual, rtol=given.relative, atol=given.absolute
    )
    if not again.ok:
        return comparison
    compared = comparison if comparison.reason is None else dataclasses.replace(again, tolerance=given)
    return dataclasses.replace(compared, forgiven=True, remark=listed(decided.taken, _MOST_DECISIONS))
