"""Kernels in a model for TensorRT: what its ONNX parser needs to find their plug-ins.

1. A node is marked if a library at hand, loaded or built in, has a kernel of it for CUDA devices, from which
   `opbridge build --tensorrt` builds the plug-in; if the target has plug-ins; and if the user does not state that
   the target has the operator already (`provides=`).
2. The marks are attributes. ONNX Runtime and the kernels themselves take no notice of them.
3. Integers that do not fit 32 bits would be cut by the parser, without a word: that is a problem.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import onnx_ir as ir

from opbridge.fit.target import Target
from opbridge.kernels import library
from opbridge.kernels.library import Declared
from opbridge.plan.rows import Problem
from opbridge.targets import facts
from opbridge.targets.plugins import INT32, NAMESPACE, OUTPUTS, VERSION

__all__ = ["mark"]

_VERSION = "1"
"""Of all plug-ins that opbridge builds."""


def mark(model: ir.Model, target: Target) -> dict[str, Problem]:
    """Gives the nodes of kernels the attributes of plug-ins, in place, where the target has plug-ins.

    Args:
        model: The model.
        target: Its target.

    Returns:
        A problem for each operator whose attributes a plug-in would not get as they are.
    """
    if target.limits is None or not any(each.are_loaded for each in target.limits.of_kind(facts.Plugins)):
        return {}
    problems: dict[str, Problem] = {}
    for node in itertools.chain(model.graph.all_nodes(), *(each.all_nodes() for each in model.functions.values())):
        declared = _kernel_of(node, target)
        if declared is None:
            continue
        reason, remedy = _refused(node, declared)
        if reason:
            problems[node.metadata_props.get("opbridge.operator", declared.name)] = Problem(reason, remedy)
        node.attributes[NAMESPACE] = ir.AttrString(NAMESPACE, declared.domain)
        node.attributes[VERSION] = ir.AttrString(VERSION, _VERSION)
        if declared.returns_list:
            node.attributes[OUTPUTS] = ir.AttrInt64(OUTPUTS, len(node.outputs))
    return problems


def _kernel_of(node: ir.Node, target: Target) -> Declared | None:
    """The kernel that a node's plug-in is built from; None: it has none."""
    if node.domain in ("", "ai.onnx") or target.has_operator(node.domain, node.op_type):
        return None
    if target.provides(node.domain, node.op_type):
        return None
    name = f"{node.domain}::{node.op_type}"
    having = library.find(name)
    operators = having.operators if having is not None else ()
    return next((each for each in operators if each.name == name and each.cuda), None)


def _refused(node: ir.Node, declared: Declared) -> tuple[str, str]:
    """Why a plug-in would not get what a node has, and what to do about it; "" where it does."""
    for name, value in _integers(node):
        if value not in INT32:
            return (
                f"The attribute '{name}' of {declared.name} is {value}, of which TensorRT's parser gives only 32 bits "
                "to the plug-in.",
                f"Use a value between {INT32.start} and {INT32.stop - 1}.",
            )
    given = [at for at, value in enumerate(node.inputs) if value is not None]
    if given and given[-1] >= len(given):
        return (
            f"{declared.name} is called without an input that precedes others, which is not supported in plug-ins.",
            "Pass a tensor for it, or declare it after the other inputs.",
        )
    return "", ""


def _integers(node: ir.Node) -> Iterator[tuple[str, int]]:
    """The integers among a node's attributes."""
    for name, attribute in node.attributes.items():
        if attribute.type in (ir.AttributeType.INT, ir.AttributeType.INTS):
            values = attribute.value if attribute.type == ir.AttributeType.INTS else [attribute.value]
            yield from ((name, int(each)) for each in values)
