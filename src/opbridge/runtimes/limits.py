"""What a model that runs in a process of its own may use."""

from __future__ import annotations

from dataclasses import dataclass

from opbridge.errors import UsageError

__all__ = ["Limits"]


@dataclass(frozen=True)
class Limits:
    """What a session in a process of its own may use.

    Attributes:
        seconds: The longest that a run may take; and loading the model, beside two minutes in which the process
            starts.
        gigabytes: The memory that runs may take, beside what the loaded model has; and loading it, beside three times
            the size of the model and of what is in its folder, other models left out.
    """

    seconds: float = 600.0
    gigabytes: float = 8.0

    def __post_init__(self) -> None:
        if not (self.seconds > 0 and self.gigabytes > 0):
            raise UsageError(f"{self} is invalid; expected numbers above 0.")
