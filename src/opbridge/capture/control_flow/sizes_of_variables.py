"""Numbers that are the sizes of tensors which Python's variables hold.

    found = x[x > 0] if flag else x[x < 1]
    for _ in range(n):
        found = found * 2
    if len(found) > 0:

Each path computes the length from the first tensor that has it: the indices of the elements, which are another tensor
in each branch, and which no variable holds in the loop. In all paths it is the size of the tensor that `found` holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import Node

from opbridge.base.torch_private import torch_sizes
from opbridge.capture.control_flow.ambiguous_phi_sources import held
from opbridge.capture.control_flow.blocks import Block
from opbridge.capture.control_flow.execution_path import shape_of
from opbridge.capture.control_flow.unify_arguments import Computed, Given, KnownForm, Pass

__all__ = ["sizes_of_variables"]

_SIZE = torch.ops.aten.sym_size.int


def sizes_of_variables(block: Block) -> KnownForm | None:
    """Gives numbers of a block as sizes of what variables hold at its decision, or at the decision right before it.

    Returns:
        What `unify_arguments` takes; None where there is no such decision.
    """
    if block.decides:
        variables = {each: held(*each) for each in block.passes}
    elif len(block.before) == 1 and block.before[0].decides:
        variables = {(path, segment): held(path, segment - 1) for path, segment in block.passes}
    else:
        return None

    def known_form(values: Mapping[Pass, Any]) -> Computed | None:
        numbers = {each: _number(value) for each, value in values.items()}
        if not any(isinstance(number, torch.SymInt) for number in numbers.values()):
            return None
        own = {each: variables[each] for each in values}
        for index in range(min(map(len, own.values()))):
            nodes = {each: nodes[index] for each, nodes in own.items()}
            shapes = {each: shape_of(node) for each, node in nodes.items()}
            for dim in range(min(map(len, shapes.values()))):
                if all(torch_sizes.is_equal(shapes[each][dim], number) for each, number in numbers.items()):
                    return Computed(_SIZE, (Given(nodes), dim))
        return None

    return known_form


def _number(value: Any) -> Any:
    """An argument as a number; None where it is something else."""
    if isinstance(value, Node):
        value = value.meta.get("val")
    return value if type(value) in (int, torch.SymInt) else None
