"""The strategies that were tried for the capture of a model: what a plan says of them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

__all__ = ["CAPTURED", "Tried"]

CAPTURED = "captured"
"""The result of a strategy that gave a better capture than those before it."""


@dataclass(frozen=True)
class Tried:
    """A strategy that was tried.

    Attributes:
        strategy: Its name.
        result: How it ended: `CAPTURED`, "no improvement" with the reason where there is one, or the error.
        executions: How many executions of the model it took.
    """

    strategy: str
    result: str
    executions: int

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return dataclasses.asdict(self)
