"""Which kernels a model needs in addition to those of its runtime, and which of them are available.

A node needs a kernel if its domain is neither ONNX's nor the runtime's, and no function of the model defines it:

    1. Nodes of the routes `aten` and `fallthrough` were requested (`allow=`, `routes=`): the file is written.
    2. Nodes that a translation or symbolic function builds take the route `kernel`. If neither a loaded library
       (`opbridge.load`) nor one that comes with opbridge has a kernel for them, the operator is missing, unless the
       user promises one: `custom_opsets=` names the domain, `provides=` the operator, or `fallthrough` is allowed.
    3. A model that cannot be run here is not verified, and the plan says why. Nodes of the route `aten` can be run if
       their library is there, or a compiler that builds it.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import onnx_ir as ir

from opbridge.base.wording import listed
from opbridge.kernels import aten, library, shipped
from opbridge.nodes.aten_node import DOMAIN as ATEN
from opbridge.plan.data import Plan
from opbridge.plan.revise import with_kernels
from opbridge.plan.rows import Problem
from opbridge.targets.provided import unmatched

if TYPE_CHECKING:
    from opbridge.fit.target import Target

__all__ = ["Need", "assign_kernel_routes", "needs", "unmatched_patterns"]

_MAX_NAMED = 4


@dataclass
class Need:
    """An ONNX operator of a domain that the runtime does not have.

    Attributes:
        domain: Its domain.
        op_type: Its operator type.
        built_for: The PyTorch operators whose translations build it.
        requested_for: The PyTorch operators that became it by the routes `aten` and `fallthrough`.
        is_available: Whether a library that is loaded, comes with opbridge or can be built here has a kernel for it.
    """

    domain: str
    op_type: str
    built_for: list[str] = field(default_factory=list)
    requested_for: list[str] = field(default_factory=list)
    is_available: bool = False

    @property
    def name(self) -> str:
        """ "custom::deform_conv2d" """
        return f"{self.domain}::{self.op_type}"

    def __str__(self) -> str:
        operators = f" ({listed(self.requested_for, _MAX_NAMED)})" if self.domain == ATEN and self.requested_for else ""
        return f"{self.name}{operators}"


def needs(model: ir.Model, target: Target) -> list[Need]:
    """The ONNX operators that a model needs kernels for, in the order of their first node.

    Args:
        model: The model. The metadata of its nodes names the PyTorch operators that they were made from.
        target: The runtime with its operators.
    """
    found: dict[tuple[str, str], Need] = {}
    for node in model.graph.all_nodes():
        operator = node.metadata_props.get("opbridge.operator", node.op_type)
        for domain, op_type in _called(node, model, target, ()):
            need = found.setdefault((domain, op_type), Need(domain, op_type))
            operators = need.requested_for if "opbridge.route" in node.metadata_props else need.built_for
            if operator not in operators:
                operators.append(operator)
    for need in found.values():
        is_aten = need.name == aten.NAME
        need.is_available = shipped.at_hand(aten.LIBRARY) if is_aten else library.find(need.name) is not None
    return list(found.values())


def _called(
    node: ir.Node, model: ir.Model, target: Target, inside: tuple[ir.OperatorIdentifier, ...]
) -> Iterator[tuple[str, str]]:
    """The operators that the runtime does not have: that of a node, or those in the function that the node calls."""
    function = model.functions.get(node.op_identifier())
    if function is not None:
        if node.op_identifier() not in inside:
            for called in function.all_nodes():
                yield from _called(called, model, target, (*inside, node.op_identifier()))
    elif node.domain not in ("", "ai.onnx") and not target.has_operator(node.domain, node.op_type):
        yield node.domain, node.op_type


def assign_kernel_routes(
    plan: Plan, model: ir.Model, target: Target, custom_opsets: Collection[str]
) -> tuple[Plan, dict[str, Problem]]:
    """Changes the route of operators to `kernel` where their translations build nodes that need kernels.

    Args:
        plan: The plan that the model was built by.
        model: The model.
        target: The runtime.
        custom_opsets: The domains for which the user provides kernels.

    Returns:
        The changed plan, and a problem for each operator that is missing because of a kernel or a pinned route.
    """
    found = needs(model, target)
    runtime = f"{target.name} {target.version}"
    needs_by_operator: dict[str, list[Need]] = {}
    for need in found:
        for operator in need.built_for:
            needs_by_operator.setdefault(operator, []).append(need)
    problems: dict[str, Problem] = {}
    to_kernel = {row.operator for row in plan.rows if row.route == "kernel"}
    for operator, built in needs_by_operator.items():
        names = ", ".join(need.name for need in built)
        lacking = [need for need in built if not (need.is_available or _is_promised(need, target, custom_opsets))]
        if plan.is_pinned(operator) and operator not in to_kernel:
            reason = f"It is pinned to a route other than 'kernel', but its translation builds {names}."
            problems[operator] = Problem(reason, "Pin it to the route kernel, or do not pin it.")
        elif "kernel" not in plan.allow and operator not in to_kernel:
            problems[operator] = Problem(f"Its translation builds {names}.", "Allow the route kernel.")
        elif lacking and "fallthrough" not in plan.allow:
            names = listed([need.name for need in lacking], _MAX_NAMED)
            reason = f"Its translation builds {names}, for which {runtime} has no kernel."
            problems[operator] = Problem(reason, _remedy(lacking), ("fallthrough",))
    for operator in to_kernel - needs_by_operator.keys():
        reason = "It is pinned to the route 'kernel', but the nodes of its translation need no kernel."
        problems[operator] = Problem(reason, "Pin it to another route, or do not pin it.")
    absent = [str(need) for need in found if not need.is_available]
    unverified = f"{runtime} has no kernel for {listed(absent, _MAX_NAMED)}" if absent else ""
    if absent and any(target.provides(need.domain, need.op_type) for need in found if not need.is_available):
        outputs = [str(each.name) for each in model.graph.outputs]
        unverified += f", so these outputs were not compared with PyTorch: {listed(outputs, _MAX_NAMED)}"
    names_by_operator = {operator: [need.name for need in built] for operator, built in needs_by_operator.items()}
    return with_kernels(plan, names_by_operator, tuple(need.name for need in found), unverified), problems


def unmatched_patterns(model: ir.Model, target: Target) -> tuple[str, ...]:
    """A note for each pattern of operators that the target provides which fits no node of a model.

    Args:
        model: The model.
        target: The target, with what the user states that it provides.
    """
    nodes = itertools.chain(model.graph.all_nodes(), *(each.all_nodes() for each in model.functions.values()))
    return unmatched(target.provided, {(node.domain, node.op_type) for node in nodes})


def _is_promised(need: Need, target: Target, custom_opsets: Collection[str]) -> bool:
    """Whether the user states that something runs an operator."""
    return need.domain in custom_opsets or target.provides(need.domain, need.op_type)


def _remedy(lacking: Sequence[Need]) -> str:
    """What to do about kernels that the runtime does not have."""
    versions = ", ".join(f'"{domain}": 1' for domain in dict.fromkeys(need.domain for need in lacking))
    stated = ", ".join(f'"{need.name}"' for need in lacking[:_MAX_NAMED])
    return (
        "If the kernel was built with opbridge, load its library with opbridge.load. Otherwise, declare its domain "
        f"with custom_opsets={{{versions}}} and register the kernel when you load the file "
        "(SessionOptions.register_custom_ops_library); or, if the target has it as a plug-in, state so with "
        f"provides=[{stated}] (--provides); or allow the route fallthrough. The file is then written without "
        "verification."
    )
