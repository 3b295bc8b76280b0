"""Rounding and ties: where a small difference decides between two values, the runtime's decision is taken.

A value near a tie is rounded up by one and down by the other, and of two equal elements each picks another. What
follows then differs by more than any tolerance, though neither is wrong. So the captured graph is computed again in
PyTorch, and at each operator that decides so, the runtime's value is taken where it is right by one of these rules:

1. *Rounding* (round, floor, ceil, trunc, and every operator that quantises, or quantises and dequantises): the value is
   that of inputs which differ by the tolerance; see `rounding`.
2. *Positions* (topk, sort, argsort, argmax, argmin, max, min, kthvalue, median, mode): the runtime's positions pick
   elements that are equal to PyTorch's within the tolerance, or as near as the runtime's values are to PyTorch's, and
   none twice. Equal elements that a stable sort has to
   leave in their order are not excused. The elements of a topk with sorted=False may stand in any order.

3. *Jumps* (comparisons, suppression of boxes): the runtime's result is that of PyTorch's operator for the runtime's
   inputs, which agree with PyTorch's within the tolerance; see `jumps`.
4. *Signs* (eigenvectors of symmetric matrices, singular vectors): the runtime's vectors are PyTorch's, some with the
   opposite sign; see `signs`.

Where the model decides by data or by sizes, the graph is computed along the branches that the inputs take.

The file is right where the outputs of this computation agree with its own.

ONNX Runtime fuses quantised operators, and rounds in a fused one where none of its values can be read. So where reading
the values makes the difference go away, the file is computed without graph optimisations: it is right where that agrees
with PyTorch, and the optimised run is a step of the quantisation away at most, for an output that is dequantised.
Where it differs from PyTorch by a step, the captured graph with other roundings beside ties tells whether these explain
it; see `beside_ties`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import onnx_ir as ir
import torch
from torch.fx import Node
from torch.utils import _pytree as pytree

from opbridge.graph.node_sources import sources_of
from opbridge.graph.operators import operator_of
from opbridge.verification import ties
from opbridge.verification.beside_ties import outputs_beside_ties
from opbridge.verification.compare import compare, tolerance
from opbridge.verification.graph_run import GraphRun
from opbridge.verification.intermediate import RuntimeValues, counterparts, feeds_of
from opbridge.verification.jumps import jumps, result_for_inputs_of
from opbridge.verification.rounding import rounded, rounds
from opbridge.verification.signs import has_free_signs, with_signs_of
from opbridge.verification.taken_branches import along_taken_branches

if TYPE_CHECKING:
    from opbridge.capture import Capture
    from opbridge.runtimes.onnxruntime import Limits

__all__ = ["Replay", "has_nodes_of_operators", "replay"]

_MOVING = frozenset({"Flatten", "Gather", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze"})
"""ONNX operators whose outputs are elements of their first input."""

_MOST_OUTPUTS = 3
"""How many outputs an operator has at most that decides so."""


@dataclass
class Replay:
    """What came of the computation.

    Attributes:
        outputs: The outputs of the graph; or of the file without the runtime's graph optimisations.
        taken: What was taken from the runtime, in words.
        steps: For the file without optimisations: the step of the quantisation that each output comes from, or None.
        beside_ties: For the same: the outputs of the graph in computations that round otherwise beside ties.
    """

    outputs: list[Any]
    taken: list[str] = field(default_factory=list)
    steps: list[float | None] | None = None
    beside_ties: list[list[Any]] = field(default_factory=list)


def has_nodes_of_operators(model: ir.Model) -> bool:
    """Whether a file says which of its nodes were made from which operator."""
    return any("opbridge.node" in node.metadata_props for node in model.graph)


def replay(
    model: ir.Model,
    capture: Capture,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    isolated: bool | Limits = False,
) -> Replay | None:
    """Computes a captured graph with the runtime's decisions.

    Args:
        model: The ONNX model. It is not changed.
        capture: The capture that the model was made from.
        args: The positional inputs.
        kwargs: The keyword inputs.
        isolated: Whether the file runs in a process of its own, or with which limits it does.

    Returns:
        None where the graph has no such operator, or the runtime's values differ from PyTorch's at none of them and no
        output is dequantised.

    Raises:
        Unusable: The values of the runtime cannot be had, or PyTorch cannot compute a node.
    """
    leaves = pytree.tree_leaves((args, dict(kwargs)))
    model, functional = along_taken_branches(model, capture.functional, leaves, _decides)
    if not any(_decides(node) for node in functional.graph.graph.nodes):
        return None
    found = counterparts(model.graph, functional.graph)
    names: dict[str, str] = {}
    for node in filter(_decides, functional.graph.graph.nodes):
        inputs = [each.name for each in node.all_input_nodes] if jumps(node) or ties.picks_positions(node) else []
        for key in (node.name, *(f"{node.name}:{output}" for output in range(_MOST_OUTPUTS)), *inputs):
            if key in found:
                names[key] = str(found[key].name)
    if not names:
        return None
    runtime = RuntimeValues(model, feeds_of(model, functional.graph, leaves), [], isolated)
    unique = list(dict.fromkeys(names.values()))
    by_name = dict(zip(unique, runtime.compute(unique, optimised=True), strict=True))
    actual = {key: by_name[name] for key, name in names.items()}
    run = GraphRun(functional, leaves)
    taken: list[str] = []
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        for node in functional.graph.graph.nodes:
            if node.op == "get_attr":
                run.read(node)
            elif node.op == "call_function":
                result = run.compute(node)
                if _decides(node):
                    result = _decided(node, result, run, actual, taken)
                run.assign(node, result)
    if taken:
        leaves = [leaf.value if leaf.node is None else run.values[leaf.node] for leaf in functional.graph.outputs]
        return Replay([leaf for leaf in leaves if leaf is not None], taken)
    steps = [_step(output) for output in model.graph.outputs]
    if not any(steps):
        return None
    plain = runtime.compute([str(output.name) for output in model.graph.outputs])
    return Replay(plain, steps=steps, beside_ties=outputs_beside_ties(functional, leaves))


def _step(output: ir.Value | None) -> float | None:
    """The step of the quantisation that a value comes from, through operators that move elements alone."""
    node = output.producer() if output is not None else None
    if node is None or not node.inputs or node.domain != "":
        return None
    if node.op_type in _MOVING:
        return _step(node.inputs[0])
    if node.op_type != "DequantizeLinear" or node.inputs[1] is None:
        return None
    scale = ir.convenience.get_const_tensor(node.inputs[1])
    return None if scale is None or scale.size != 1 else float(scale.numpy().item())


def _decides(node: Node) -> bool:
    if node.op != "call_function":
        return False
    return ties.picks_positions(node) or has_free_signs(node) or rounds(node) or jumps(node)


def _decided(node: Node, result: Any, run: GraphRun, actual: Mapping[str, torch.Tensor], taken: list[str]) -> Any:
    """The result of a node with the runtime's decisions, where they are right."""
    if jumps(node):
        other = result_for_inputs_of(node, result, run, actual)
        if other is None:
            return result
        taken.append(f"{_place(node)} decides otherwise on inputs that agree within the tolerance")
        return other
    values = run.values
    source = values.get(node.args[0]) if node.args and isinstance(node.args[0], Node) else None
    if not isinstance(source, torch.Tensor) or source.numel() == 0:
        return result
    if rounds(node):
        if not source.is_floating_point():
            return result
        allowed_by = tolerance(source)
        found = rounded(node, result, values, actual, allowed_by.absolute + allowed_by.relative * source.abs())
        if found is None:
            return result
        count = f"{found.count} of {found.total} elements of {_place(node)}"
        taken.append(f"{count} one {found.step} step apart, next to a rounding tie")
        return found.result
    if has_free_signs(node):
        turned = with_signs_of(node, result, actual)
        if turned is None:
            return result
        taken.append(f"vectors of {_place(node)} have the opposite sign, which is not defined")
        return turned
    allowed = _allowed_for(source, actual.get(str(node.args[0]))) if source.is_floating_point() else 0.0
    picked = ties.picked(node, result, source, actual, allowed)
    if picked is None:
        return result
    taken.append(f"{picked.which} of {_place(node)} are in a different order")
    return picked.result


def _allowed_for(source: torch.Tensor, actual: torch.Tensor | None) -> float:
    """How far two elements may be apart that may stand in another order in the runtime.

    Args:
        source: What is picked from.
        actual: The same in the runtime, if it is known. Where it agrees within the tolerance, which is larger for large
            elements, two elements may each have moved as far as any.
    """
    allowed = tolerance(source).absolute
    if actual is None or not compare("", source, actual).ok:
        return allowed
    moved = (source.double() - actual.double()).abs().nan_to_num(nan=0.0, posinf=0.0)
    return max(allowed, 2 * float(moved.max()))


def _place(node: Node) -> str:
    frames = sources_of(node)
    return f"{operator_of(node)} at {frames[0]}" if frames else operator_of(node)
