"""Faults: translations of opbridge's own, or of torchlib, that fail as no translation may."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from opbridge.base.sources import Source

__all__ = ["Fault"]


@dataclass(frozen=True)
class Fault:
    """A translation that raised something else than TranslationError or NotImplementedError, which mean "cannot".

    Attributes:
        operator: The operator that was translated.
        what: What failed: "opbridge translation, opset 18", "torchlib translation", "control flow".
        place: The innermost line of the translation.
        error: What it raised.
    """

    operator: str
    what: str
    place: Source
    error: BaseException = field(repr=False, compare=False)

    @property
    def reason(self) -> str:
        """In a sentence."""
        message = " ".join(f"{type(self.error).__name__}: {self.error}".split()).rstrip(":.")
        return f"Its {self.what} failed unexpectedly at {self.place}, in {self.place.function}: {message}."

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        message = " ".join(f"{type(self.error).__name__}: {self.error}".split())
        return {"operator": self.operator, "what": self.what, "place": str(self.place), "error": message}
