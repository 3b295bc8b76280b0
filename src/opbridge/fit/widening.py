"""The rewrites for a target: unread outputs, wider types where kernels are missing, and the target's own corrections.

Rules, in this order:
    1. Optional outputs that no node reads are removed.
    2. Nodes that the installed ONNX Runtime has no kernels for compute in wider types (`opbridge.onnx.wider_types`).
       Nodes of types that the target has kernels for, or casts by itself, stay: what runs the model in the end
       decides, and ONNX Runtime only proves the file.
    3. Nodes that ONNX Runtime would compute wrongly are rewritten.

The target's facts say which types it has. Those of kind "narrow" name the types that a model may be computed in, of
floating numbers and of integers, and the others what it does not take of them. A type that no fact of kind "narrow"
names is not known to be taken, as int8 in TensorRT, whose table names it for what is quantized: such nodes are widened,
which is exact for integers, and the plan says so. Nodes that ONNX Runtime has kernels for and the target has not are
repaired afterwards (`opbridge.fixing`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection

import onnx_ir as ir

from opbridge.base.wording import counted
from opbridge.fit.target import Target
from opbridge.onnx import wider_types
from opbridge.onnx.wider_types import INTEGERS, Widened
from opbridge.rules.findings import Finding
from opbridge.rules.lint import look
from opbridge.rules.looking import Looked
from opbridge.targets import Target as Limits
from opbridge.targets.facts import Narrow

__all__ = ["is_refused", "note", "takes", "widen"]

# The first output that the operator's schema declares as optional.
_OPTIONAL_FROM = {"BatchNormalization": 1, "Dropout": 1, "LayerNormalization": 1, "MaxPool": 1, "Unique": 1}

_OF_TYPES = frozenset({"no-kernel", "unsupported-form", "unsupported-type"})
"""The rules that find nodes that a target may take in other types. A warning is not about all of its devices."""

_OF_OPERATORS = frozenset({"missing-operator", "unsupported-attribute", "unsupported-revision"})
"""The rules that find nodes that a target lacks in any type. Of an execution provider, which leaves it to ONNX Runtime
to cast float16, these and the others are warnings: ONNX Runtime runs the node on the CPU."""

_KEEPING = 'target="cuda", "tensorrt" or "openvino" (--target) keeps bfloat16.'


def widen(model: ir.Model, target: Target) -> Widened:
    """Rewrites a model for its target, in place.

    Args:
        model: The model. The types of all its values are known.
        target: The target.
    """
    for graph in [model.graph, *model.graph.subgraphs()]:
        for node in graph:
            _drop_unread_outputs(node)
    left = _nothing if target.limits is None else _left_to(target.limits, model)
    found = wider_types.widen(model, target.kernels, left=left)
    target.correct(model)
    return found


def note(widened: Widened, target: Target) -> str:
    """One sentence on nodes that do not compute in the floating type of the model; "": there are none to speak of.

    A float16 model stays one: ONNX Runtime casts by itself, and the few nodes around which it does not are not worth
    a sentence.
    """
    if target.limits is not None:
        return _note_for(widened, target, target.limits)
    count = widened.nodes.get(ir.DataType.BFLOAT16, 0)
    if not count:
        return ""
    return (
        f"{counted(count, 'node')} {_verb(count)} in float32, between Casts, because {target.name} {target.version} "
        f"has no bfloat16 kernels for them on the CPU; {_KEEPING}"
    )


def _note_for(widened: Widened, target: Target, limits: Limits) -> str:
    """The same for a target other than ONNX Runtime on the CPU."""
    known, said = _types_of(limits), []
    for wide, types, result in (
        ("float32", [ir.DataType.BFLOAT16], ""),
        ("wider integers", INTEGERS & known, "; the results are the same"),
        ("wider integers", INTEGERS - known, "; the results are the same"),
    ):
        found = {dtype.name.lower(): widened.nodes[dtype] for dtype in types if dtype in widened.nodes}
        if not found:
            continue
        count, kernels = sum(found.values()), f"{' and '.join(sorted(found))} kernels"
        has_none = "has none either" if known.issuperset(types) else "is not known to have any"
        said.append(
            f"{counted(count, 'node')} {_verb(count)} in {wide}, between Casts, because {target.name} {target.version} "
            f"has no {kernels} for {'it' if count == 1 else 'them'} on the CPU and {limits} {has_none}{result}."
        )
    return " ".join(said)


def _verb(count: int) -> str:
    return "computes" if count == 1 else "compute"


def _drop_unread_outputs(node: ir.Node) -> None:
    first = _OPTIONAL_FROM.get(node.op_type)
    if first is None or node.domain != "":
        return
    count = len(node.outputs)
    while count > first and not node.outputs[count - 1].uses() and not node.outputs[count - 1].is_graph_output():
        count -= 1
    if count < len(node.outputs):
        node.resize_outputs(count)


def _nothing(node: ir.Node) -> Collection[ir.DataType]:
    return ()


def _left_to(limits: Limits, model: ir.Model) -> Callable[[ir.Node], Collection[ir.DataType]]:
    """Which types of a node stay as they are in a model for a target, asked before any node is widened."""
    types, cast_by_it = _types_of(limits), _types_of(limits, cast=True)
    lacking = functools.cache(lambda: _lacking(limits, model))
    return lambda node: cast_by_it if node in lacking() else types


def _types_of(limits: Limits, *, cast: bool = False) -> set[ir.DataType]:
    """The types that a model for a target may be computed in; or only those that it casts where it has no kernel."""
    facts = limits.of_kind(Narrow)
    types = {ir.DataType[name.upper()] for fact in facts for name in fact.types}
    return types - {ir.DataType[name.upper()] for fact in facts for name in fact.with_kernels} if cast else types


def takes(limits: Limits, dtype: ir.DataType) -> bool:
    """Whether a model for a target may be computed in a type: what a provider lacks, ONNX Runtime has to cast.

    Of targets other than ONNX Runtime's providers, what they refuse says it.
    """
    return not _types_of(limits, cast=True) or dtype in _types_of(limits)


def is_refused(finding: Finding, limits: Limits, dtype: ir.DataType | None = None) -> bool:
    """Whether a finding says that the target does not take a node in its type, or leaves it to the CPU without a Cast.

    Args:
        finding: What a rule found at the node.
        limits: The target.
        dtype: The type; None: one that the target does not cast by itself.
    """
    if finding.severity == "error":
        return finding.rule in _OF_TYPES
    cast_by_it = _types_of(limits, cast=True)  # of targets that are no providers, nothing is
    return bool(cast_by_it) and dtype not in cast_by_it and finding.rule in _OF_TYPES | _OF_OPERATORS


def _lacking(limits: Limits, model: ir.Model) -> set[ir.Node]:
    """The nodes that a target does not take in their types."""
    lacking = set()
    copy = model.clone()
    nodes = dict(zip(copy.graph.all_nodes(), model.graph.all_nodes(), strict=True))
    for finding, node in look(Looked(copy), [limits], _OF_TYPES | _OF_OPERATORS):
        if node in nodes and is_refused(finding, limits):
            lacking.add(nodes[node])
    return lacking
