"""The first operator that differs in the runs of a verification."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from opbridge.request.verification_config import VerificationConfig
from opbridge.verification import small_differences
from opbridge.verification.causes import Mismatch
from opbridge.verification.compared_runs import ComparedRuns
from opbridge.verification.correspondence import Correspondence
from opbridge.verification.difference import FirstDifference, Search
from opbridge.verification.eager import Eager
from opbridge.verification.judge import is_suspicious
from opbridge.verification.other_lines import computes_otherwise

if TYPE_CHECKING:
    from opbridge.capture import Capture

__all__ = ["DifferenceSearch"]

Find: TypeAlias = Callable[[Mismatch, "Mapping[int, torch.Tensor] | None", bool], Search]
"""Searches for the first operator that differs in a run. The others are PyTorch's values of the outputs that differ, by
position, where None are all outputs; and whether the weights of the file are compared with those of the model first."""


class DifferenceSearch:
    """The search in the runs of one verification."""

    def __init__(
        self,
        compared: ComparedRuns,
        matching: Correspondence,
        eager: Eager,
        capture: Capture | None,
        find: Find,
        options: VerificationConfig,
    ) -> None:
        """Args:
        compared: The runs. What is found is noted there.
        matching: How the model's inputs and outputs are the file's.
        eager: Runs the model.
        capture: The capture that the file was made from; None: it is not known.
        find: Searches for the first operator that differs in a run.
        options: The options of the verification.
        """
        self._compared, self._matching, self._eager = compared, matching, eager
        self._capture, self._find, self._options = capture, find, options

    def closer(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> FirstDifference | None:
        """Looks for an operator that differs where the example's outputs agree, and rounding does not explain how.

        Args:
            args: The positional example inputs.
            kwargs: The keyword example inputs.
        """
        options, compared = self._options, self._compared
        run = compared.runs[0]
        is_asked = options.rtol is None and options.atol is None and options.in_onnxruntime
        if not is_asked or compared.mismatch is not None or not any(map(is_suspicious, run.comparisons)):
            return None
        expected = self._matching.expected(self._eager.run(args, kwargs, options.seed))
        actual = compared.outputs(args, kwargs)
        given = (run.comparisons, args, kwargs, expected, actual)
        unexplained = compared.judge.unexplained(*given, self._matching.fixed)
        if not unexplained:
            return None
        mismatch = Mismatch(0, args, kwargs, expected)
        search = self._find(mismatch, None, True)
        if search.difference is None or not search.difference.is_beyond:
            compared.notes.append(small_differences.note(run.comparisons, unexplained, search))
            return None
        wrong = small_differences.as_wrong(run.comparisons, unexplained, expected, actual)
        compared.runs[0], compared.mismatch = dataclasses.replace(run, comparisons=wrong), mismatch
        return search.difference

    def of_mismatch(self) -> FirstDifference | None:
        """The first operator that differs in the first run that does; None, with a note, where it is not found."""
        compared, mismatch = self._compared, self._compared.mismatch
        if mismatch is None or compared.runs[mismatch.run].ok or compared.runs[mismatch.run].condition:
            return None
        if not self._options.in_onnxruntime:
            compared.notes.append(
                "the first operator that differs can be located only in ONNX Runtime; verify the file there too"
            )
            return None
        wrong = {
            position: mismatch.expected[position]
            for position, comparison in enumerate(compared.runs[mismatch.run].comparisons)
            if not comparison.ok
        }
        search = self._find(mismatch, wrong, True)
        if search.difference is None or not search.difference.is_beyond:
            otherwise = self._otherwise(mismatch, wrong)
            if otherwise:
                compared.notes.append(otherwise)
                return None
        if search.difference is None:
            compared.notes.append(f"the first operator that differs could not be located: {search.reason}")
        return search.difference

    def place(self, mismatch: Mismatch, wrong: Mapping[int, torch.Tensor]) -> str:
        """The first operator that differs on inputs, with its line; "" where it is not found."""
        if not self._options.in_onnxruntime:
            return ""
        found = self._find(mismatch, wrong, False).difference
        return found.place if found is not None and found.is_beyond else ""

    def _otherwise(self, mismatch: Mismatch, wrong: Mapping[int, torch.Tensor]) -> str:
        """How the capture itself differs from the model; "" where it does not, or there is no graph of it."""
        options = self._options
        if self._capture is None or self._capture.mode in ("trace", "given") or options.isolated:
            return ""
        given = (self._capture, self._eager, mismatch.args, mismatch.kwargs, wrong)
        return computes_otherwise(*given, seed=options.seed, rtol=options.rtol, atol=options.atol)
