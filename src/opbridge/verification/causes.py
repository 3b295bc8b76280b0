"""Why an output differs: it is random, or an operator of the model differs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import onnx_ir as ir
import torch

from opbridge.capture import capture as capture_model
from opbridge.errors import CaptureError
from opbridge.verification.compare import Comparison, compare
from opbridge.verification.difference import Search
from opbridge.verification.first_difference import first_difference
from opbridge.verification.options import Options
from opbridge.verification.report import Run

if TYPE_CHECKING:
    from opbridge.capture import Capture

__all__ = ["Mismatch", "as_random", "find_random", "search_difference"]

_MAX_FROZEN = 3
"""How many of the values that a trace froze are named."""

_SEEDS = 8
"""How many seeds are tried on an output that differs: where few values can be drawn, two seeds may give the same."""


@dataclass
class Mismatch:
    """The first run that differs.

    Attributes:
        run: Its position among the runs.
        args: Its positional inputs.
        kwargs: Its keyword inputs.
        expected: PyTorch's outputs.
    """

    run: int
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    expected: list[torch.Tensor]


def find_random(
    run_eager: Callable[[int], tuple[list[torch.Tensor], bool]],
    wrong: set[int],
    precisions: Sequence[torch.dtype | None],
    seed: int,
) -> dict[int, bool]:
    """The outputs that differ between runs of the model in PyTorch with different seeds.

    Args:
        run_eager: Runs the model with a seed; returns its outputs, and whether torch's generator was used.
        wrong: The positions of the outputs that differ from the file's. The search ends when all are random.
        precisions: As for `opbridge.verification.compare.compare`, for each output.
        seed: The first seed.

    Returns:
        By position, whether the shape of a random output varies too.
    """
    first, _ = run_eager(seed)
    random: dict[int, bool] = {}
    for other in range(seed + 1, seed + _SEEDS):
        second, is_drawing = run_eager(other)
        for position, (left, right) in enumerate(zip(first, second, strict=True)):
            if not compare("", left, right, precision=precisions[position]).ok:
                random[position] = random.get(position, False) or left.shape != right.shape
        if not is_drawing or wrong <= random.keys():
            break
    return random


def as_random(run: Run, random: Mapping[int, bool]) -> Run:
    """A run in which the values of random outputs are not compared.

    Args:
        run: The run.
        random: By position of an output that is random, whether its shape varies too.
    """
    comparisons = [
        _as_random(comparison, varies_in_shape=random[position]) if position in random else comparison
        for position, comparison in enumerate(run.comparisons)
    ]
    return dataclasses.replace(run, comparisons=tuple(comparisons))


def _as_random(comparison: Comparison, *, varies_in_shape: bool) -> Comparison:
    same_rank = len(comparison.shape) == len(comparison.actual_shape)
    same_dtype = comparison.actual_dtype == comparison.dtype
    return comparison.as_random(None if varies_in_shape and same_rank and same_dtype else comparison.reason)


def search_difference(
    load: Callable[[], ir.Model],
    model: Any,
    capture: Capture | None,
    mismatch: Mismatch,
    wrong: Mapping[int, torch.Tensor],
    options: Options,
    *,
    check_weights: bool,
) -> Search:
    """Searches for the first operator that differs.

    Args:
        load: Loads the ONNX model.
        model: The PyTorch model.
        capture: The capture that the file was made from, where it is known; else the model is captured again.
        mismatch: The run that differs.
        wrong: PyTorch's values of the outputs that differ, by position.
        options: The tolerances.
        check_weights: Whether the weights of the file are compared with those of the model first.
    """
    if capture is not None and capture.strategy == "trace":
        frozen = [note for note in capture.notes if note.startswith("frozen by the trace")]
        said = f"it depends on what the trace froze, perhaps: {'; '.join(frozen[:_MAX_FROZEN])}" if frozen else ""
        more = f"; and {len(frozen) - _MAX_FROZEN} more notes of the plan" if len(frozen) > _MAX_FROZEN else ""
        return Search(None, 0, f"a trace keeps no graph of the model to search; {said}{more}".rstrip("; "))
    try:
        # A new capture has the static sizes of these inputs.
        capture = capture or capture_model(model, mismatch.args, mismatch.kwargs)
        return first_difference(
            load(),
            capture,
            mismatch.args,
            mismatch.kwargs,
            outputs=wrong,
            check_weights=check_weights,
            rtol=options.rtol,
            atol=options.atol,
        )
    except CaptureError as error:
        return Search(None, 0, f"the model cannot be captured again ({error})")
