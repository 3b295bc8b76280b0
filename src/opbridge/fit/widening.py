"""The rewrites for a target: unread outputs, wider types where kernels are missing, and the target's own corrections.

Rules, in this order:
    1. Optional outputs that no node reads are removed.
    2. Nodes that the installed ONNX Runtime has no kernels for compute in wider types (`opbridge.onnx.wider_types`).
       Nodes of floating types that the target has kernels for, or casts by itself, stay: what runs the model in the
       end decides, and ONNX Runtime only proves the file.
    3. Nodes that ONNX Runtime would compute wrongly are rewritten.

Nodes of integers and booleans are widened for every target, and the plan says so where it is not ONNX Runtime's CPU.
Facts of kind "types" list what a target takes at most, and few targets have a list of kernels behind them that says
what it takes for certain: of the narrow integers that ONNX Runtime lacks a kernel for on the CPU, CUDA has Trilu and
CumSum, and DirectML some thirty operators. TensorRT's table names int8 for what is quantized. A Cast to a wider integer
is exact, and a file that keeps the narrow ones would run on no CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import onnx_ir as ir

from opbridge.base.wording import counted, listed
from opbridge.fit.target import Target
from opbridge.onnx import wider_types
from opbridge.onnx.wider_types import INTEGERS, Widened
from opbridge.rules.lint import look
from opbridge.rules.looking import Looked
from opbridge.targets import Target as Limits
from opbridge.targets.facts import Narrow

__all__ = ["note", "widen"]

# The first output that the operator's schema declares as optional.
_OPTIONAL_FROM = {"BatchNormalization": 1, "Dropout": 1, "LayerNormalization": 1, "MaxPool": 1, "Unique": 1}

_OF_TYPES = frozenset({"unsupported-form", "unsupported-type"})
"""The rules that find nodes that a target may take in other types. A warning is not about all of its devices."""

_OF_OPERATORS = frozenset({"missing-operator"})
"""The rule that finds operators that a target lacks. Of an execution provider, which leaves it to ONNX Runtime to cast
float16, this and the others are warnings: ONNX Runtime runs the node on the CPU."""

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
        return _note_for(widened, target, str(target.limits))
    count = widened.nodes.get(ir.DataType.BFLOAT16, 0)
    if not count:
        return ""
    return (
        f"{counted(count, 'node')} {_verb(count)} in float32, between Casts, because {target.name} {target.version} "
        f"has no bfloat16 kernels for them on the CPU; {_KEEPING}"
    )


def _note_for(widened: Widened, target: Target, asked: str) -> str:
    """The same for a target other than ONNX Runtime on the CPU."""
    runtime, said = f"{target.name} {target.version}", []
    if count := widened.nodes.get(ir.DataType.BFLOAT16, 0):
        said.append(
            f"{counted(count, 'node')} {_verb(count)} in float32, between Casts, because {runtime} has no bfloat16 "
            f"kernels for them on the CPU and {asked} is not known to have any."
        )
    integers = {dtype.name.lower(): found for dtype, found in widened.nodes.items() if dtype in INTEGERS}
    if integers:
        count = sum(integers.values())
        said.append(
            f"{counted(count, 'node')} of {listed(sorted(integers), 9)} {_verb(count)} in wider integers, between "
            f"Casts, because {runtime} has no kernels for them on the CPU; the results are the same."
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
    """Which types of a node stay as they are in a model for a target."""
    facts = limits.of_kind(Narrow)
    types = {ir.DataType[name.upper()] for fact in facts for name in fact.types}
    cast_by_it = types - {ir.DataType[name.upper()] for fact in facts for name in fact.with_kernels}
    lacking: set[ir.Node] = set()
    if any(value.dtype in types - cast_by_it for node in model.graph.all_nodes() for value in node.outputs):
        copy = model.clone()
        nodes = dict(zip(copy.graph.all_nodes(), model.graph.all_nodes(), strict=True))
        for finding, node in look(Looked(copy), [limits], _OF_TYPES | _OF_OPERATORS):
            refused = finding.severity == "error" and finding.rule in _OF_TYPES
            if node in nodes and (refused or (cast_by_it and finding.severity == "warning")):
                lacking.add(nodes[node])
    return lambda node: cast_by_it if node in lacking else types
