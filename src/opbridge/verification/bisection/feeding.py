"""Inputs on which two files are compared: given ones, or random ones of the types and sizes that a file declares."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from opbridge.errors import OpbridgeError, UsageError
from opbridge.rules.measured import Inputs, arrays_of
from opbridge.side_by_side import random_feeds
from opbridge.verification import exchange
from opbridge.verification.bisection.files import FileSide

__all__ = ["OutputRun", "mapped", "outputs_of", "runs_of"]


@dataclasses.dataclass
class OutputRun:
    """The outputs of a file on some inputs.

    Attributes:
        feeds: The inputs by name.
        outputs: The outputs in order.
    """

    feeds: dict[str, torch.Tensor]
    outputs: list[torch.Tensor]


def runs_of(side: FileSide, session: Any, inputs: Inputs | None) -> Iterator[OutputRun]:
    """The outputs of a file on given inputs, or on random ones of each choice of sizes that it runs on.

    Args:
        side: The file, whose runs are counted.
        session: Its session.
        inputs: Arrays, by name or in order, or an .npz file of them; None: random ones.

    Raises:
        UsageError: The inputs are not those of the file, or no random ones can be made.
        OpbridgeError: It runs on none of them.
    """
    if inputs is not None:
        feeds = _tensors(side, arrays_of(side.index.inputs, inputs))
        side.runs += 1
        yield OutputRun(feeds, outputs_of(session, feeds))
        return
    why: OpbridgeError | None = None
    done = 0
    for attempts in random_feeds(session.get_inputs()):
        if isinstance(attempts, str):
            raise UsageError(f"{attempts} Give inputs= (--inputs) for {side.label}.")
        for each in attempts:
            feeds = _tensors(side, each)
            side.runs += 1
            try:
                found = OutputRun(feeds, outputs_of(session, feeds))
            except OpbridgeError as error:
                why = why or error
                continue
            done += 1
            yield found
            break
    if not done and why is not None:
        raise UsageError(
            f"{side.label} fails on random inputs: {why} Give inputs that it runs on in inputs= (--inputs)."
        ) from why


def _tensors(side: FileSide, arrays: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Arrays as tensors.

    Raises:
        UsageError: One holds no numbers.
    """
    for name, each in arrays.items():
        if each.dtype.kind in "OUSV" and not hasattr(torch, each.dtype.name):
            raise UsageError(f"The input '{name}' of {side.label} has no numbers, which is not supported.")
    return {name: exchange.of_array(each) for name, each in arrays.items()}


def outputs_of(session: Any, feeds: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    """The outputs of a session.

    Raises:
        OpbridgeError: The run fails.
    """
    try:
        return exchange.run(session, feeds)
    except OpbridgeError:
        raise
    except Exception as error:  # the runtimes' errors have no other common base class
        raise UsageError(" ".join(str(error).split())) from error


def mapped(
    first: FileSide, second: FileSide, session: Any, feeds: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """The inputs of one file as those of another: by name where the names are the same, else by position.

    Numbers go in the type that the other file declares.

    Raises:
        UsageError: The other file has more or fewer inputs.
    """
    names, others = first.index.inputs, second.index.inputs
    if len(names) != len(others):
        raise UsageError(
            f"{first.label} has the inputs {', '.join(names) or 'none'}, and {second.label} has "
            f"{', '.join(others) or 'none'}. Compare files with the same inputs."
        )
    pairs = {name: name for name in others} if set(names) == set(others) else dict(zip(others, names, strict=True))
    wanted = {each.name: exchange.dtype_of(each.type) for each in session.get_inputs()}
    found = {}
    for name in others:
        value = feeds[pairs[name]]
        dtype = wanted.get(name)
        found[name] = value if dtype is None or dtype == value.dtype else value.to(dtype)
    return found
