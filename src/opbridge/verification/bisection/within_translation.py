"""The node that differs within the translation of one operator, in a Loop, an If or a function of a file."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import onnx
import torch
from torch.fx import Node

from opbridge.errors import OpbridgeError
from opbridge.graph.operators import operator_of
from opbridge.verification.bisection.cases import Located
from opbridge.verification.bisection.files import FileSide, Setting
from opbridge.verification.bisection.fresh_translation import fresh_translation
from opbridge.verification.bisection.judging import Judge
from opbridge.verification.bisection.locating import locate
from opbridge.verification.bisection.metadata import torch_operator

__all__ = ["located_within"]


def located_within(
    stack: contextlib.ExitStack,
    file: FileSide,
    part: onnx.ModelProto,
    given: Mapping[str, torch.Tensor],
    call: tuple[Node, str, Sequence[Any]],
    expected: torch.Tensor,
    judge: Judge,
    within: Sequence[str],
) -> Located | None:
    """The node within the translation of an operator that differs by itself.

    The search is that between two files, of which one is a new translation of the operator: in the runtime of the file,
    or where that differs from PyTorch, in ONNX Runtime without optimizations.

    Args:
        stack: Keeps the new translation until the reproducer is written.
        file: The file.
        part: Its nodes that were made of the operator, with one output, which differs.
        given: The inputs of the part.
        call: The node of the captured graph, the key of the value, and the values of the nodes that it reads.
        expected: What PyTorch gives for these.
        judge: Compares values.
        within: The nodes that hold the part, in words.

    Returns:
        None where there is no new translation with the nodes of the file, where it differs from PyTorch too, or where
        no node can be named.
    """
    sides: list[FileSide] = []
    try:
        translation = fresh_translation(file, part, given, call)
        if translation is None:
            return None
        mine = file.part(part)
        mine.feeds = dict(given)
        sides.append(mine)
        (value,) = mine.index.outputs
        for setting in _settings(file.setting):
            fresh = stack.enter_context(FileSide.of_file(translation.SerializeToString(), setting))
            fresh.label = fresh.index.label = f"opbridge's translation of {operator_of(call[0])}"
            fresh.feeds = dict(given)
            sides.append(fresh)
            judge = dataclasses.replace(judge, sides=(fresh.label, judge.sides[1]))
            if judge.compare(value, expected, fresh.fetch([value])[value]).ok:
                break
        else:
            return None
        names = {name: name for name in fresh.index.makers if name in mine.index.makers}
        found = locate(fresh, mine, names, value, judge, within)
    except OpbridgeError:  # the operator is named as a whole
        return None
    finally:
        file.runs += sum(each.runs for each in sides)
    if not found.culprit.alone:
        return None
    node, key, _ = call
    operators = [each for each in found.culprit.operators if each.side == file.label]
    where = "" if fresh.setting == file.setting else f" in {fresh.setting.label}"
    note = f"The values that it is compared with are those of {fresh.label}{where}, which agrees with PyTorch."
    return dataclasses.replace(
        found,
        culprit=dataclasses.replace(found.culprit, operators=(torch_operator(node, key), *operators), note=note),
    )


def _settings(own: Setting) -> list[Setting]:
    """Where a new translation may run: where the file does, and in ONNX Runtime without optimizations."""
    plain = Setting(isolated=own.isolated)
    return [own] if own == plain else [own, plain]
