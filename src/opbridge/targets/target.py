"""A target: a runtime in one of its versions, and the facts that hold for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from opbridge.targets.facts import Fact
from opbridge.targets.provided import is_provided

__all__ = ["Opsets", "Target"]

_Kind = TypeVar("_Kind", bound=Fact)


@dataclass(frozen=True)
class Opsets:
    """The opsets that a version takes.

    Attributes:
        oldest: The oldest one.
        newest: The newest one.
        ir_version: The newest version of the format; None: not known.
        source: Where that is known from.
        severity: "error" where it refuses others, "warning" where that is stated and was seen to be otherwise.
        note: What is known of others.
    """

    oldest: int
    newest: int
    ir_version: int | None
    source: str
    severity: str = "error"
    note: str = ""


@dataclass(frozen=True)
class Target:
    """A runtime in one of its versions.

    Attributes:
        name: Its name, as in "tensorrt".
        title: What it is.
        version: The version that the facts are for.
        asked_for: The version that was asked for, where that is another one.
        versions: All versions that facts are known for, oldest first.
        opsets: The opsets that it takes; None: not known.
        facts: What it does not take.
        provided: Patterns of operators that the user's runtime has in addition, such as "trt::*".
    """

    name: str
    title: str
    version: str
    asked_for: str
    versions: Sequence[str]
    opsets: Opsets | None
    facts: Sequence[Fact]
    provided: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}:{self.version}"

    def provides(self, domain: str, op_type: str) -> bool:
        """Whether the user states that the runtime has an operator."""
        return is_provided(domain, op_type, self.provided)

    def of_kind(self, kind: type[_Kind]) -> list[_Kind]:
        """The facts of one kind."""
        return [each for each in self.facts if type(each) is kind]

    @property
    def remark(self) -> str:
        """One sentence where the version that was asked for is none of those with facts; else ""."""
        if not self.asked_for:
            return ""
        known = ", ".join(self.versions)
        return (
            f"{self.name} {self.asked_for} is treated as {self.version}, the nearest older version with known "
            f"facts ({known})."
        )

    def document(self) -> dict[str, Any]:
        """The target as plain data."""
        return {
            "name": self.name,
            "title": self.title,
            "version": self.version,
            "versions": list(self.versions),
            "remark": self.remark,
            **({"provided": list(self.provided)} if self.provided else {}),
            "opsets": None if self.opsets is None else dataclasses.asdict(self.opsets),
            "facts": [
                {
                    "kind": type(each).__name__.lower(),
                    **{key: value for key, value in vars(each).items() if not callable(value)},
                }
                for each in self.facts
            ],
        }
