"""Arguments of one operator as several paths have them: what is the same, and where the paths differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch.fx import Node

from opbridge.capture.control_flow.differences import known_unlike, targets_unlike
from opbridge.capture.control_flow.execution_path import ExecutionPath, is_number
from opbridge.capture.control_flow.merge_points import Unjoined

__all__ = ["Computed", "Given", "KnownForm", "Pass", "unify_arguments"]

Pass = tuple[ExecutionPath, int]
"""A path in one of its segments: a loop takes a path through the same operators again."""


@dataclass(frozen=True, eq=False)
class Given:
    """A value that the paths have as these nodes."""

    nodes: Mapping[Pass, Node]


@dataclass(frozen=True)
class Computed:
    """A number that is computed from others, or read from a tensor.

    Attributes:
        target: The operator, or the function of Python's.
        args: Its arguments.
        known: What the number is on the paths on which it is known.
    """

    target: Any
    args: tuple[Any, ...]
    known: Mapping[Pass, Any] = field(default_factory=dict, compare=False)


KnownForm = Callable[[Mapping[Pass, Any]], "Computed | None"]
"""Gives a common form that is known of an argument, or None."""


def _unknown(values: Mapping[Pass, Any]) -> Computed | None:
    return None


def unify_arguments(values: Mapping[Pass, Any], known_form: KnownForm = _unknown) -> Any:
    """The common form of the same argument in several paths.

    A number may be known in some paths; those in which it is computed say how.

    Args:
        values: The argument in each path.
        known_form: Gives the form of an argument, or of a part of one, where it is known; it is asked first.

    Raises:
        Unjoined: It has none.
    """
    if (form := known_form(values)) is not None:
        return form
    some = next(iter(values.values()))
    if all(isinstance(value, Node) and not is_number(value) for value in values.values()):
        return Given(dict(values))
    computed = {path: value for path, value in values.items() if isinstance(value, Node)}
    if computed:
        if any(not is_number(value) for value in computed.values()):
            raise Unjoined("an argument is a tensor in one branch and not in another")
        if all(value.op == "placeholder" for value in computed.values()):
            return Given(computed)
        targets = {value.target for value in computed.values()}
        if len(targets) != 1 or any(value.op != "call_function" for value in computed.values()):
            raise Unjoined(targets_unlike(computed.values()))
        known = {path: value for path, value in values.items() if path not in computed}
        args = unify_arguments({path: value.args for path, value in computed.items()}, known_form)
        return Computed(targets.pop(), args, known)
    if isinstance(some, (list, tuple)):
        if len(lengths := {len(value) for value in values.values()}) != 1:
            raise Unjoined(f"a list has {' or '.join(map(str, sorted(lengths)))} elements, depending on the branch")
        items = [
            unify_arguments({path: value[i] for path, value in values.items()}, known_form) for i in range(len(some))
        ]
        return type(some)(items) if type(some) in (list, tuple) else tuple(items)
    if isinstance(some, dict):
        if len(keys := {tuple(value): None for value in values.values()}) != 1:
            raise Unjoined(
                f"a dict has the keys {' or '.join(str(list(each)) for each in keys)}, depending on the branch"
            )
        return {key: unify_arguments({path: value[key] for path, value in values.items()}, known_form) for key in some}
    if isinstance(some, slice):
        return slice(
            *(
                unify_arguments({path: getattr(value, part) for path, value in values.items()}, known_form)
                for part in ("start", "stop", "step")
            )
        )
    if any(type(value) is not type(some) or repr(value) != repr(some) for value in values.values()):
        raise Unjoined(known_unlike(values.values()))
    return some
