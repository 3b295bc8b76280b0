"""The first operator that differs between a PyTorch model and a file."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import Node
from torch.utils import _pytree as pytree

from opbridge.base.wording import counted
from opbridge.capture import capture as capture_model
from opbridge.errors import OpbridgeError, UsageError
from opbridge.onnx import reading
from opbridge.runtimes.onnxruntime.model_file import checked_model
from opbridge.verification.bisection.captured_pair import CapturedPair
from opbridge.verification.bisection.cases import Located
from opbridge.verification.bisection.files import FileSide, Setting
from opbridge.verification.bisection.judging import Judge
from opbridge.verification.bisection.metadata import PYTORCH
from opbridge.verification.bisection.report import Bisection
from opbridge.verification.bisection.types import coarsest
from opbridge.verification.dispatch import checked_example
from opbridge.verification.fresh_inputs import fresh_inputs
from opbridge.verification.intermediate import Unusable, feeds_of

__all__ = ["bisect"]

_SAMPLES = 2
"""So many sets of fresh inputs are tried where the example agrees."""


def bisect(
    stack: contextlib.ExitStack,
    file: Any,
    model: Any,
    args: Any,
    kwargs: Mapping[str, Any] | None,
    setting: Setting,
    rtol: float | None,
    atol: float | None,
) -> tuple[Bisection, Located | None]:
    """Searches for the first operator of a file that differs from PyTorch's.

    Args:
        stack: Keeps the file's parts until the reproducer is written.
        file: The path of the file, or its content.
        model: The PyTorch model.
        args: Its example inputs.
        kwargs: Its example keyword inputs.
        setting: Where the file runs.
        rtol: As for `opbridge.bisect`.
        atol: As for `opbridge.bisect`.

    Raises:
        OpbridgeError: See `opbridge.bisect`.
    """
    args, kwargs = checked_example("opbridge.bisect", model, args, kwargs)
    content, label = checked_model(file)
    side = stack.enter_context(FileSide.of_file(content, setting))  # a damaged file is refused before the capture
    capture = capture_model(model, args, kwargs)
    found = Bisection((PYTORCH, label), (f"captured graph, torch {torch.__version__}", setting.label))
    found.nodes = len(side.index.nodes)
    loaded = reading.load(content)
    judge = Judge((PYTORCH, label), coarsest(side.index, {k: v.type for k, v in side.index.types.items()}), rtol, atol)
    for number in range(_SAMPLES + 1):
        inputs = fresh_inputs(args, kwargs, number) if number else (args, kwargs)
        leaves = pytree.tree_leaves(inputs)
        try:
            side.feeds = feeds_of(loaded, capture.functional.graph, leaves)
            pair = CapturedPair(stack, side, loaded, capture.functional, leaves, judge)
            found.outputs = tuple(pair.outputs(_outputs(pair), side))
        except Unusable as error:
            if number:  # fresh inputs that the model does not take
                break
            raise UsageError(f"{label} cannot be compared with the PyTorch model: {error}.") from error
        found.runs += 1 + pair.torch.runs
        if not all(each.ok for each in found.outputs):
            break
    if found.ok or not found.outputs:
        return found, None
    before = pair.runs
    located = _located(pair, found)
    found.runs += pair.runs - before
    if located is not None:
        found.culprit = located.culprit
    return found, located


def _outputs(pair: CapturedPair) -> list[tuple[str, Node]]:
    """The outputs of the file and the nodes that give those of the model.

    Raises:
        Unusable: Their numbers differ.
    """
    names, nodes = pair.file.index.outputs, [node for node in pair.results if node is not None]
    if len(nodes) != len(names):
        raise Unusable(f"the file has {counted(len(names), 'output')}, but the model returns {len(nodes)}")
    return list(zip(names, nodes, strict=True))


def _located(pair: CapturedPair, found: Bisection) -> Located | None:
    """The first operator that differs; None where none can be named, for a reason that is noted."""
    makers = pair.whole.index.makers
    wrong = min((each.name for each in found.outputs if not each.ok), key=lambda name: makers.get(name, 0))
    if wrong not in makers:
        found.reason = f"the output '{wrong}' is an input or an initializer of the file"
        return None
    if pair.note:
        found.notes.append(f"{pair.note}; values are matched by what they hold")
    try:
        first = wrong if pair.whole is pair.file else pair.first_wrong(_outputs(pair))
        if first is None:
            found.reason = "the file takes other branches than PyTorch, whose conditions agree"
            return None
        return pair.located(first)
    except (Unusable, OpbridgeError) as error:
        found.reason = str(error).rstrip(".")
        return None
