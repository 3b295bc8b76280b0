"""The comparison of values of two sides, in the words of two sides."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch

from opbridge.verification import exchange
from opbridge.verification.compare import Comparison, compare, dtype_name

__all__ = ["Judge"]


@dataclasses.dataclass(frozen=True)
class Judge:
    """Compares values with the tolerances of a verification.

    Attributes:
        sides: The names of the two sides: of the expected values, and of the actual ones.
        precision: The floating type of the fewest digits that the values were computed in; None: their own.
        rtol: The relative tolerance; None: by dtype.
        atol: The absolute tolerance; None: by dtype.
    """

    sides: tuple[str, str]
    precision: torch.dtype | None = None
    rtol: float | None = None
    atol: float | None = None

    def compare(
        self, name: str, expected: torch.Tensor, actual: torch.Tensor, *, scale: float = 1.0, random: bool = False
    ) -> Comparison:
        """Compares a value of both sides; see `opbridge.verification.compare.compare`."""
        actual = exchange.quantized_as(expected, actual)
        if expected.is_complex():
            expected = torch.view_as_real(expected.resolve_conj())
        reason = None
        if expected.shape != actual.shape:
            reason = self._said("shape", list(actual.shape), list(expected.shape))
        elif expected.dtype != actual.dtype:
            reason = self._said("dtype", dtype_name(actual.dtype), dtype_name(expected.dtype))
        precision = self.precision if expected.is_floating_point() else None
        found = compare(
            name,
            expected,
            actual,
            precision=precision,
            scale=scale,
            rtol=self.rtol,
            atol=self.atol,
            random=random,
        )
        return found if reason is None else dataclasses.replace(found, reason=reason)

    def _said(self, what: str, actual: object, expected: object) -> str:
        return f"its {what} is {actual} in {self.sides[1]}, and {expected} in {self.sides[0]}"

    def all(
        self, names: Sequence[str], expected: Sequence[torch.Tensor], actual: Sequence[torch.Tensor]
    ) -> list[Comparison]:
        """Compares all outputs."""
        return [self.compare(*each) for each in zip(names, expected, actual, strict=True)]
