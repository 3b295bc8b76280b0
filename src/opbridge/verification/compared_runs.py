"""Runs of a file in a runtime, each compared with what PyTorch gives on the same inputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import onnx_ir as ir
import torch
from torch.utils import _pytree as pytree

from opbridge.base.wording import counted
from opbridge.capture.parts_of_sizes import with_lengths_adding_up
from opbridge.request.verification_config import VerificationConfig
from opbridge.runtimes import known
from opbridge.runtimes.child import ProcessEnded
from opbridge.verification import exchange
from opbridge.verification.causes import Mismatch
from opbridge.verification.compare import compare, incomparable
from opbridge.verification.correspondence import Correspondence, OtherOutputs
from opbridge.verification.eager import Eager, explain
from opbridge.verification.ended_runs import EndedRuns
from opbridge.verification.exercised_branches import ExercisedBranches
from opbridge.verification.invented import Example, Invention, Results
from opbridge.verification.inventions import Inventions
from opbridge.verification.judge import Judge
from opbridge.verification.model_outputs import ModelOutputs
from opbridge.verification.random_outputs import RandomOutputs
from opbridge.verification.replay import Replay
from opbridge.verification.report import Run
from opbridge.verification.runtime_failure import locate_failure
from opbridge.verification.unproven import gives_numbers, without_numbers

if TYPE_CHECKING:
    from opbridge.capture import Capture

__all__ = ["ComparedRuns", "outside"]

_ASKED_FOR = ("example", "given")
"""The runs on inputs of the user's."""

_DRAWN = ("fresh", "sizes")
"""The kinds of runs whose values are drawn a tensor at a time."""

_OWN = ("fresh", "sizes", "branches", "values")
"""The kinds of runs whose inputs opbridge makes up."""


class ComparedRuns:
    """The runs of a file so far.

    Attributes:
        runs: All of them, in order.
        notes: What is to be said of them.
        mismatch: The inputs of the first run that differs, with PyTorch's outputs; None where all agree.
        branches: The branches that they take.
        inventions: What differs by values that no caller gave.
        judge: Judges the outputs that differ.
    """

    def __init__(
        self,
        session: Any,
        matching: Correspondence,
        eager: Eager,
        outputs: ModelOutputs,
        options: VerificationConfig,
        *,
        deciding: Capture | None,
        given: tuple[tuple[Any, ...], dict[str, Any]],
        load: Callable[[], ir.Model | None],
        replay: Callable[[tuple[Any, ...], Mapping[str, Any]], Replay | None],
    ) -> None:
        """Args:
        session: A session with the file.
        matching: How the model's inputs and outputs are the file's.
        eager: Runs the model.
        outputs: The model's outputs that the file has.
        options: The options of the verification.
        deciding: The capture that tells the branches of the model; None: none is known.
        given: The example inputs, `(args, kwargs)`.
        load: Gives the ONNX model; None where it cannot be read.
        replay: Computes the captured graph with the runtime's decisions.
        """
        self._session, self._matching, self._eager, self._options = session, matching, eager, options
        self._load = load
        self.runs: list[Run] = []
        self.notes: list[str] = []
        self.mismatch: Mismatch | None = None
        self.judge = Judge(outputs, replay, options.seed)
        self.branches = ExercisedBranches(deciding, options.seed)
        self._random = RandomOutputs(outputs, *given, options.seed)
        self._ended = EndedRuns(known.label(options.runtime), matching)
        structure = pytree.tree_structure(given)
        names = dict(zip(matching.positions, matching.names, strict=True))
        self.inventions = Inventions(
            Example(
                matching.leaves,
                names,
                matching.dynamic_sizes(),
                lambda leaves: outputs(*pytree.tree_unflatten(leaves, structure)),
            ),
            self.branches,
        )
        # For each output, the value that all of its elements had in all runs so far; None where there were several.
        self.constants: list[float | None] = []

    def begin(self, expected: Sequence[torch.Tensor]) -> None:
        """Notes what the model gives on the example inputs, before the first run."""
        self._precisions = self._matching.precisions(expected)
        self.constants = [float(each.reshape(-1)[0].real) if each.numel() else None for each in expected]

    def end(self) -> None:
        """Leaves out of all runs the outputs that are random, and notes what could not be judged."""
        self.runs = self._random.left_out_of_all(self.runs)
        if note := getattr(self._session, "note", ""):
            self.notes.append(note)
        self.notes.extend((*self._ended.notes(), *self.judge.notes))

    def outputs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
        """What the file gives on inputs."""
        return exchange.run(self._session, self._matching.feeds(pytree.tree_leaves((args, kwargs))))

    def attempt(
        self, kind: str, label: str, args: tuple[Any, ...], kwargs: dict[str, Any], *, is_exact: bool = False
    ) -> bool:
        """Makes a run on inputs that the model may refuse, or the runtime not survive.

        Args:
            kind: See `Run`.
            label: See `Run`.
            args: The positional inputs.
            kwargs: The keyword inputs.
            is_exact: Whether no difference is allowed.

        Returns:
            Whether the model and the runtime took the inputs.
        """
        try:
            leaves = self._eager.run(args, kwargs, self._options.seed)
        except Exception as error:
            accepted = self._with_lengths_adding_up(args, kwargs) if kind in _DRAWN else None
            if accepted is None:
                self.runs.append(Run(kind, label, left_out=f"the model itself fails: {explain(error)}"))
                return False
            which, args, kwargs, leaves = accepted
            label = f"{label} with {which} adding up"
        try:
            expected = self._matching.expected(leaves)
        except OtherOutputs as error:
            reason = f"PyTorch returns {counted(error.given, 'output')} here, but the file has {len(self.constants)}"
            names = self._matching.output_names
            self.runs.append(Run(kind, label, tuple(incomparable(name, reason) for name in names)))
            self._set_aside(args, kwargs, None)
            return True
        self.compare(kind, label, args, kwargs, expected, is_exact=is_exact)
        return self.runs[-1].left_out != self._ended.left_out

    def _with_lengths_adding_up(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[str, tuple[Any, ...], dict[str, Any], list[Any]] | None:
        """Inputs that the model takes although it raised, as their lengths add up to a size; None where there are none.

        Returns:
            The names of these lengths, the inputs, and what PyTorch gives on them.
        """
        example = self.inventions.example
        leaves, structure = pytree.tree_flatten((args, kwargs))
        for positions, others in with_lengths_adding_up(example.leaves, leaves, self._matching.fixed):
            args, kwargs = pytree.tree_unflatten(others, structure)
            try:
                given = self._eager.run(args, kwargs, self._options.seed)
            except Exception:  # the model raised for something else than the sum
                continue
            which = " and ".join(example.name(position) for position in positions)
            return which, args, kwargs, given
        return None

    def compare(
        self,
        kind: str,
        label: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        expected: list[torch.Tensor],
        *,
        is_exact: bool = False,
    ) -> None:
        """Makes a run in the runtime, and compares its outputs with PyTorch's."""
        self.constants = [
            value if value is not None and bool((each == value).all()) else None
            for value, each in zip(self.constants, expected, strict=True)
        ]
        matching = self._matching
        feeds = matching.feeds(pytree.tree_leaves((args, kwargs)))
        is_asked = kind in _ASKED_FOR
        if not is_asked and self._ended.foresees(feeds):
            self.runs.append(Run(kind, label, left_out=self._ended.left_out))
            return
        try:
            actual = exchange.run(self._session, feeds)
        except Exception as error:  # the runtime's errors have no other common base class
            if isinstance(error, ProcessEnded) and not is_asked:
                self._ended.add(label, feeds, error)
                self.runs.append(Run(kind, label, left_out=self._ended.left_out))
                return
            self.runs.append(Run(kind, label, failure=locate_failure(str(error), self._load())))
            self._set_aside(args, kwargs, None)
            return
        rtol, atol = self._options.rtol, self._options.atol
        if is_exact and rtol is None and atol is None:
            rtol = atol = 0.0
        comparisons = tuple(
            compare(name, left, right, precision=precision, rtol=rtol, atol=atol)
            for name, left, right, precision in zip(
                matching.output_names, expected, actual, self._precisions, strict=True
            )
        )
        self.branches.note(label, args, kwargs)
        run = Run(kind, label, comparisons)
        if not run.ok and not is_exact:
            run = self.judge.judged_run(
                run,
                self._random,
                args,
                kwargs,
                expected,
                actual,
                precisions=self._precisions,
                kept=matching.fixed,
            )
        self.runs.append(run)
        if run.ok or self._set_aside(args, kwargs, Results(run.comparisons, expected, actual)):
            return
        if self.mismatch is None:
            self.mismatch = Mismatch(len(self.runs) - 1, args, kwargs, expected)

    def attempt_fresh(self, kind: str, label: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """`attempt`, and with other masks where the masks that were drawn leave nothing to attend to."""
        is_accepted = self.attempt(kind, label, args, kwargs)
        if is_accepted and self.inventions.is_mask(self.runs[-1].invented):
            leaves, structure = pytree.tree_flatten((args, kwargs))
            for others in self.inventions.example.with_other_masks(leaves):
                args, kwargs = pytree.tree_unflatten(others, structure)
                if self.attempt(kind, f"{label} with other masks", args, kwargs) and self.runs[-1].left_out is None:
                    break
                self.runs.pop()
        return is_accepted

    def _set_aside(self, args: tuple[Any, ...], kwargs: dict[str, Any], results: Results | None) -> bool:
        """Leaves the last run, which differs, out where it does so by what no caller gave. Returns whether it does."""
        run = self.runs[-1]
        if run.kind not in _OWN:
            return False
        invention = self.inventions.example.invented(pytree.tree_leaves((args, kwargs)), results)
        if invention is not None:
            self.leave_out_by(invention, args, kwargs, [] if results is None else results.expected)
        return invention is not None

    def leave_out_by(
        self, invention: Invention, args: tuple[Any, ...], kwargs: dict[str, Any], expected: Sequence[torch.Tensor]
    ) -> None:
        """Leaves the last run, which differs by what no caller gave, out."""
        self.inventions.add(invention, self.runs[-1], Mismatch(len(self.runs) - 1, args, kwargs, list(expected)))
        self._leave_out(f"{invention.what}, which the example does not have, and the two differ there")
        self.runs[-1] = dataclasses.replace(self.runs[-1], invented=invention.what)

    def _leave_out(self, reason: str) -> bool:
        """Leaves the last run out: what it shows proves nothing. Returns false."""
        run = self.runs[-1]
        self.runs[-1] = Run(run.kind, run.label, left_out=reason)
        self.branches.forget(run.label)
        if self.mismatch is not None and self.mismatch.run == len(self.runs) - 1:
            self.mismatch = None
        self.judge.forget()
        return False

    def keep_if_ok(self, condition: str) -> bool:
        """Leaves the last run out if it differs: torch specialises on size 1, and most graphs are right for it too."""
        run = self.runs[-1]
        if run.left_out is not None:
            return False
        if run.ok:
            self.notes.append(f"{run.label} was tried although {outside(condition)}; the file agrees with PyTorch")
            return True
        how = "the two differ" if run.failure is None else f"the runtime raises: {run.failure}"
        return self._leave_out(f"{outside(condition)}; here {how}")

    def keep_if_decided(self) -> bool:
        """Leaves the last run out if it differs by PyTorch's own noise, as a norm of a single element is.

        That is for sizes that nobody asked for: there are others.
        """
        differing = [each for each in self.runs[-1].comparisons if not each.ok]
        if not differing or not all(each.noisy for each in differing):
            return True
        return self._leave_out("PyTorch's own result is not accurate here: a perturbation of one ulp changes it")

    def without_numbers(self) -> set[int]:
        """The positions of the outputs that may have numbers, and of which no run so far compared one."""
        return without_numbers(self.runs, len(self.constants)) - self._matching.always_empty

    def has_numbers(self, wanted: set[int], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether PyTorch gives numbers in one of some outputs, on inputs like the example's."""
        if self.inventions.example.invented(pytree.tree_leaves((args, kwargs)), None) is not None:
            return False
        try:
            expected = self._matching.expected(self._eager.run(args, kwargs, self._options.seed))
        except Exception:  # the model raises anything, or gives another number of outputs
            return False
        return gives_numbers(expected, wanted)


def outside(condition: str) -> str:
    """The reason why a run is left out whose sizes break a condition of the capture."""
    return f"the file is valid only for {condition}"
