"""Refuses loops in which a variable of Python's is another number, or of another form, in each iteration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opbridge.capture.control_flow.branch_oracle import BranchEvent, PathsRefused

__all__ = ["check_loop_carry"]


def check_loop_carry(events: Sequence[BranchEvent]) -> None:
    """Compares what the variables hold before the iterations of each loop that asks whether there is a further one.

    Before the first iteration they may hold something else, such as None.

    Raises:
        PathsRefused: They hold something else before the second and the third iteration, and before the following ones.
    """
    iterations: dict[int, list[BranchEvent]] = {}
    for event in events:
        if event.asks and event.loop is not None and event.iteration:
            iterations.setdefault(event.loop, []).append(event)
    for found in iterations.values():
        if len(found) < 3 or found[-1].place == found[-2].place:
            continue
        names = _differing(found[-2].place, found[-1].place)
        named = [name for name in names if not name.isdigit()]  # a number is that of a loop, for what it goes over
        what = "the sequence that a loop iterates over has" if names else "a variable holds"
        if named:
            what = f"{', '.join(map(repr, named))} {'holds' if len(named) == 1 else 'hold'}"
        raise PathsRefused(
            f"The model cannot be captured: {what} a different value in each iteration of the loop at "
            f"{found[-1].sources[0]}, and the value is not only a tensor. Count in a tensor, or compute the value "
            "from the loop's index; fill a list with append only."
        )


def _differing(one: Any, other: Any) -> list[str]:
    """The names of the variables whose structures differ."""
    (_, (frames, attributes, *_)), (_, (others, of_others, *_)) = one, other
    pairs = [
        *zip(frames, others, strict=False),
        *zip((each[1] for each in attributes), (each[1] for each in of_others), strict=False),
    ]
    found = [
        name for before, after in pairs for (name, *held), (_, *now) in zip(before, after, strict=False) if held != now
    ]
    return list(dict.fromkeys(map(str, found)))
