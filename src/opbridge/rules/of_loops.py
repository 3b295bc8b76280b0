"""Rules on the sizes in the bodies of Loop and If, for the targets whose facts name them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import onnx_ir as ir

from opbridge.onnx.shapes import Sizes
from opbridge.rules.looking import Looked, bodies, carried, differ
from opbridge.rules.of_early_sizes import SIZES, is_of_late_values, is_of_values
from opbridge.rules.rule import Hit, NodeRule
from opbridge.rules.size_inputs import size_inputs

__all__ = ["RULES"]

_FARTHEST, _MOST = 64, 512
_MAKING = frozenset({"ConstantOfShape", "Expand", "Range"})
"""The operators whose size may be computed in a branch from the values of inputs, as TensorRT-RTX 1.7.1 was seen to."""
_NAME = re.compile(r"[A-Za-z_]\w*\b(?!\()")


class LoopSizes(NodeRule):
    """A Loop that carries a tensor whose size changes, or collects rows without a limit of its iterations."""

    identifier = "loop-sizes"
    title = "A Loop whose tensors change their size, or whose number of rows has no limit"
    why = "The target computes the sizes of all tensors of a Loop before it runs, from those at its start."
    remedy = "Write into a tensor of a fixed size, or give the Loop a number of iterations."
    operators = frozenset({"Loop"})

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        body = next(bodies(node), None)
        if body is None:
            return
        if node.inputs and node.inputs[0] is None and len(body.outputs) > len(node.inputs) - 1:
            yield Hit("The Loop returns one row per iteration, and has no limit of its iterations.", node)
        for before, after in carried(node, body):
            if _changes(looked, before, after) or _grows(after, before):
                yield Hit(f"The Loop changes the size of '{before.name}', which it carries.", node)


def _changes(looked: Looked, before: ir.Value, after: ir.Value) -> bool:
    one, other = looked.shape(before), looked.shape(after)
    if one is None or other is None:
        return False
    return len(one) != len(other) or differ(one, other)


def _grows(value: ir.Value, before: ir.Value) -> bool:
    """Whether a value is another one with more behind or before it, perhaps only on one branch."""
    for _ in range(_FARTHEST):
        node = value.producer()
        if node is None or not node.inputs:
            return False
        if node.op_type == "If":
            at = node.outputs.index(value)
            return any(_grows(body.outputs[at], before) for body in bodies(node) if at < len(body.outputs))
        if node.op_type == "Concat":
            return len(node.inputs) > 1 and before in node.inputs
        if node.op_type != "Identity" or node.inputs[0] is None:
            return False
        value = node.inputs[0]
    return False


class SizeInLoop(NodeRule):
    """A size in the body of a Loop that is not the same in all iterations."""

    identifier = "size-in-loop"
    title = "A size in the body of a Loop that is computed from the number of the iteration, or from what it carries"
    why = "The target computes the sizes of all tensors of a Loop before it runs."
    remedy = "Gather single elements, or compute on the whole tensor and choose with Where."
    operators = frozenset({"Loop"})

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        body = next(bodies(node), None)
        if body is not None and body.inputs:
            varying = {body.inputs[0], *body.inputs[2:]}
            yield from _varying_sizes(body, varying, looked)


def _varying_sizes(body: ir.Graph, varying: set[ir.Value], looked: Looked) -> Iterator[Hit]:
    """The nodes of a body with sizes that are computed from values that vary, to which further ones are added."""
    for node in body:
        for inner in bodies(node):
            yield from _varying_sizes(inner, varying, looked)
        if node.op_type in SIZES and not varying.isdisjoint(size_inputs(node, SIZES)):
            yield Hit(f"The size of {node.op_type} varies with the iterations of the Loop.", node)
        results = (value for inner in bodies(node) for value in inner.outputs)
        if node.op_type not in ("Shape", "Size") and not varying.isdisjoint((*node.inputs, *results)):
            varying.update(node.outputs)


class SizeInBranch(NodeRule):
    """A size in a branch of an If that is computed from the values of tensors."""

    identifier = "size-in-branch"
    title = "A size in a branch of an If that is computed from the values of tensors"
    why = "The target has tensors of sizes that data decide outside of branches only."
    remedy = "Compute it before the If, or use torch.where in the place of a selection by a mask."
    operators = frozenset({"If"})

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        for body in bodies(node):
            for inner in body:
                decides = is_of_late_values if inner.op_type in _MAKING else is_of_values
                if inner.op_type in SIZES and any(decides(each, looked) for each in size_inputs(inner, SIZES)):
                    yield Hit(f"The size of {inner.op_type} is computed from the values of tensors.", inner)
        if (found := _decided_result(node, looked)) is not None:
            yield Hit(f"The branches give '{found.name}' different sizes, which depend on the values of tensors.", node)


def _decided_result(node: ir.Node, looked: Looked) -> ir.Value | None:
    """A result of an If whose branches give it different sizes, which are neither known nor those of the inputs."""
    inputs = {name for each in looked.model.graph.inputs for name in _names(looked.shape(each))}
    for result, *given in zip(node.outputs, *(body.outputs for body in bodies(node)), strict=False):
        shapes = [looked.shape(each) for each in given]
        if len(shapes) == 2 and None not in shapes and shapes[0] != shapes[1]:
            names = {name for shape in shapes for name in _names(shape)}
            if not names <= inputs and any(_has_size_of_values(each, looked) for each in given):
                return result
    return None


def _names(shape: Sizes | None) -> Iterator[str]:
    """The names in the sizes of a shape, which may be expressions."""
    for size in shape or ():
        if isinstance(size, str):
            yield from _NAME.findall(size)


def _has_size_of_values(value: ir.Value, looked: Looked) -> bool:
    """Whether a value, or one that it is computed from, has a size that is computed from values of the model's own."""
    waiting, seen = [value], {value}
    while waiting and len(seen) < _MOST:
        node = waiting.pop(0).producer()
        if node is None:
            continue
        if node.op_type in SIZES and any(is_of_late_values(each, looked) for each in size_inputs(node, SIZES)):
            return True
        found = {each for each in node.inputs if each is not None} - seen
        seen |= found
        waiting.extend(found)
    return False


RULES: tuple[type[NodeRule], ...] = (LoopSizes, SizeInLoop, SizeInBranch)
