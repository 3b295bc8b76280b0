"""Outputs that agree within the tolerance, and differ by more than rounding explains.

The tolerance of float32 has room for half of its digits. An operator that is wrong may change an output by less, as
where attention reads other positions and random weights make it nearly a plain average. So a difference that uses more
of the tolerance than rounding mostly does is compared with float64. One that this does not explain either is wrong if
an operator differs on the same inputs, and is a note if none is found.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import torch

from opbridge.verification.compare import Comparison, Tolerance, compare
from opbridge.verification.difference import Search

__all__ = ["as_wrong", "note"]

_ALLOWED = 4
"""How many times PyTorch's own error an output may have once an operator of the model is known to differ."""


def as_wrong(
    comparisons: Sequence[Comparison],
    unexplained: Mapping[int, tuple[float, float]],
    expected: Sequence[torch.Tensor],
    actual: Sequence[torch.Tensor],
) -> tuple[Comparison, ...]:
    """The comparisons of a run, those of outputs that rounding does not explain with a tolerance of rounding.

    Args:
        comparisons: One for each output.
        unexplained: Those outputs, by position: how far the file's is from float64, and how far PyTorch's is, as RMS.
        expected: PyTorch's outputs.
        actual: The file's outputs.
    """
    found = list(comparisons)
    for position, (error, own) in unexplained.items():
        again = compare(comparisons[position].name, expected[position], actual[position], rtol=0.0, atol=_ALLOWED * own)
        origin = f"{_ALLOWED} times PyTorch's own error:  {_ALLOWED * own:.1e}"
        found[position] = dataclasses.replace(
            again,
            tolerance=Tolerance(0.0, _ALLOWED * own, origin),
            remark=f"larger error against float64 than PyTorch: {error:.2g}, PyTorch {own:.2g}",
        )
    return tuple(found)


def note(comparisons: Sequence[Comparison], unexplained: Mapping[int, tuple[float, float]], search: Search) -> str:
    """What a person should know where no operator was found to differ."""
    position, (error, own) = max(unexplained.items(), key=lambda each: each[1][0] / max(each[1][1], 1e-300))
    size = f"{comparisons[position].relative:.1e}"
    why = f" ({search.reason})" if search.reason else ""
    return (
        f"output '{comparisons[position].name}' agrees within the tolerance, but its relative difference of {size} "
        f"is not explained by rounding: its error against float64 is {error:.2g}, PyTorch's is {own:.2g}. No "
        f"single operator was found that differs on the same inputs{why}. Verify again with trained weights, real "
        "inputs and a smaller rtol="
    )
