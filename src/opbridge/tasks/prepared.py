"""The tasks by name, and what each of them gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from opbridge.errors import UsageError
from opbridge.tasks import text_generation

__all__ = ["TASKS", "Prepared", "prepare"]


@dataclass
class Prepared:
    """The inputs and options of an export.

    Attributes:
        kwargs: The example inputs, by name.
        dynamic_shapes: Which of their dimensions may vary.
        inputs: The inputs that the file is verified with.
        notes: What a person should know.
        covered: What a person should know once the file is verified with these inputs.
    """

    kwargs: dict[str, Any]
    dynamic_shapes: dict[str, Any]
    inputs: list[dict[str, Any]] = field(default_factory=list)
    notes: tuple[str, ...] = ()
    covered: tuple[str, ...] = ()


TASKS: dict[str, Callable[..., tuple[Any, ...]]] = {"text-generation": text_generation.inputs_of}


def prepare(
    task: str,
    model: Any,
    args: Any,
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    *,
    contiguous: bool = False,
) -> Prepared:
    """The inputs and options of an export for a task.

    Args:
        task: Its name.
        model: The model.
        args: The user's own example inputs: at most the tokens.
        kwargs: The user's own keyword inputs, which come beside those of the task.
        dynamic_shapes: What the user says of them; the task says it, so None.
        contiguous: Whether the file takes texts without padding only, of which several are continued by one token each.

    Raises:
        UsageError: There is no such task, or the model, the inputs or the shapes do not fit it.
    """
    if task not in TASKS:
        raise UsageError(f"Unknown task {task!r}. The tasks are {', '.join(TASKS)}.")
    if dynamic_shapes is not None:
        raise UsageError(
            f"task={task!r} makes the batch, the sequence and the length of the cache dynamic. Leave "
            "dynamic_shapes out, or leave the task out and give example inputs."
        )
    return Prepared(*TASKS[task](model, args, kwargs, contiguous=contiguous))
