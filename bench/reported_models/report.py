"""What each module here is made of: a model, its inputs by their sizes, and the report that it comes from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

__all__ = ["Case", "Report", "form", "module", "reported", "reports"]


@dataclass(frozen=True)
class Case:
    """A model, and what it is exported and compared with.

    Attributes:
        model: The model.
        inputs: Gives the model's arguments for some sizes.
        example: The sizes of the example inputs.
        others: Sizes of fresh inputs, on which the file is compared with the model.
        dynamic_shapes: What the reporter asked for or would ask for.
        opset: The opset asked for; None: opbridge's default.
    """

    model: torch.nn.Module
    inputs: Callable[..., tuple[Any, ...]]
    example: Sequence[int]
    others: Sequence[Sequence[int]]
    dynamic_shapes: Any = None
    opset: int | None = None


@dataclass(frozen=True)
class Report:
    """Where a case comes from.

    Attributes:
        name: The issue or pull request; of a form that nobody reported, its group.
        variation: What makes the case harder than the report; "": the reported form. Of other forms, what they are.
        make: Gives the case.
    """

    name: str
    variation: str
    make: Callable[[], Case]


reports: list[Report] = []


def reported(repository: str, number: int, variation: str = "") -> Callable[[Callable[[], Case]], Callable[[], Case]]:
    """Registers the case that a function gives.

    Args:
        repository: The repository of the report.
        number: The number of the report.
        variation: What makes the case harder than the report.
    """

    def register(make: Callable[[], Case]) -> Callable[[], Case]:
        reports.append(Report(f"{repository}#{number}", variation, make))
        return make

    return register


def form(group: str, what: str) -> Callable[[Callable[[], Case]], Callable[[], Case]]:
    """Registers the case that a function gives, which is what people write, and from no report."""

    def register(make: Callable[[], Case]) -> Callable[[], Case]:
        reports.append(Report(group, what, make))
        return make

    return register


class _Function(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *arguments: Any) -> Any:
        return self.function(*arguments)


def module(function: Callable[..., Any]) -> torch.nn.Module:
    """A module whose `forward` calls the function."""
    return _Function(function)
