"""Rules that compare nodes with the schemas of ONNX, and with the kernels that a runtime says it has."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import onnx
import onnx_ir as ir

from opbridge.onnx import opsets
from opbridge.rules.looking import Looked, type_name
from opbridge.rules.node_types import all_by_type_variable, function_body, mixed_inputs
from opbridge.rules.rule import FactRule, Hit, ModelRule, NodeRule
from opbridge.targets import facts, provided

__all__ = ["FACT_RULES", "MODEL_RULES", "RULES"]

_ONNX = ("", "ai.onnx")


class NotInOnnx(ModelRule):
    """An operator that ONNX does not have at the model's opset."""

    identifier = "not-in-onnx"
    title = "An operator that does not exist in ONNX at the model's opset"
    why = "No runtime loads such a model, unless it has the operator as an extension."
    remedy = "Use an opset that has the operator, or another operator."
    always = True

    def hits(self, looked: Looked) -> Iterator[Hit]:
        for node in looked.malformed:
            opset = looked.opset_of(node)
            if opsets.native_schema(node.op_type, opset) is None:
                if node.op_identifier() in looked.model.functions:
                    continue
                later = opsets.opset_after_deprecation(node.op_type, opset)
                if later is None:
                    yield Hit(f"ONNX has no operator {node.op_type} at opset {opset}.", node)
                    continue
                yield Hit(
                    f"{node.op_type} is deprecated at opset {opset}: onnx.checker refuses it, some runtimes load it.",
                    node,
                    remedy=f"Convert the file: opbridge convert MODEL.onnx --opset {later}.",
                    severity="warning",
                )


class InvalidNode(ModelRule):
    """A node that is not as its operator's schema has it."""

    identifier = "invalid-node"
    title = "A node that does not match the schema of its operator"
    why = "Runtimes reject the model. Often the node was written for a different opset."
    remedy = "Export again for one opset, or write the node as defined in the model's opset."
    always = True

    def hits(self, looked: Looked) -> Iterator[Hit]:
        for node, wrong in looked.malformed.items():
            if wrong:
                yield Hit(f"{node.op_type} {wrong}.", node)


class UndefinedValue(ModelRule):
    """A node that reads a value that nothing gives."""

    identifier = "undefined-value"
    title = "A value that is not defined"
    why = "No runtime can compute it: the model was extracted incorrectly, or is damaged."
    remedy = "Make the value an input of the model, or export again."
    always = True

    def hits(self, looked: Looked) -> Iterator[Hit]:
        for node, values in looked.early.items():
            for value in values:
                if value.producer() is None:
                    yield Hit(f"{node.op_type} uses '{value.name}', which is not defined.", node)


class UnsortedNodes(ModelRule):
    """A node that stands before one whose result it reads."""

    identifier = "unsorted-nodes"
    title = "Nodes that are not topologically sorted"
    why = "ONNX requires nodes in the order of computation. A cycle has no such order."
    remedy = "Sort the nodes; if there is a cycle, export again."
    always = True

    def hits(self, looked: Looked) -> Iterator[Hit]:
        for node, values in looked.early.items():
            for value in values:
                producer = value.producer()
                if producer is not None:
                    yield Hit(f"{node.op_type} uses '{value.name}' before {producer.op_type} computes it.", node)


class MixedTypes(NodeRule):
    """Inputs that have to have one type have several."""

    identifier = "mixed-types"
    title = "Inputs of one operator that differ in type"
    why = "ONNX requires the same type for these inputs. Some runtimes load the model anyway, and others reject it."
    remedy = "Cast one to the type of the other."
    always = True

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        if node.domain in _ONNX:
            for types in _mixed(node.op_type, looked.opset_of(node), looked.types_of_inputs(node)):
                yield Hit(f"{node.op_type} has inputs of {' and '.join(types)}.", node)


class TypeNotInOnnx(NodeRule):
    """A type that ONNX does not allow for an operator."""

    identifier = "type-not-in-onnx"
    title = "A type that the operator does not support at the model's opset"
    why = "Runtimes reject the model, except those with kernels beyond the specification."
    remedy = "Cast to a type that the operator supports, or use a newer opset."
    always = True

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        opset = looked.opset_of(node)
        if node.domain in _ONNX and (found := _not_allowed(node.op_type, opset, looked.types_of_inputs(node))):
            yield Hit(f"{node.op_type} of opset {opset} does not support {found}.", node)


_Types = tuple[ir.DataType | None, ...]


# A model has many nodes of few forms.
@functools.lru_cache(maxsize=4096)
def _mixed(op_type: str, opset: int, types: _Types) -> tuple[tuple[str, ...], ...]:
    """For each type variable that has to be one type, the names of those that inputs have where they are several."""
    return tuple(
        tuple(sorted({type_name(each) for each in found.values()})) for found in mixed_inputs(op_type, opset, types)
    )


@functools.lru_cache(maxsize=4096)
def _not_allowed(op_type: str, opset: int, types: _Types) -> str:
    """The name of the first type that an operator does not take; "": it takes all."""
    schema = opsets.native_schema(op_type, opset)
    for position, dtype in enumerate(types):
        if schema is not None and schema.inputs and dtype is not None:
            if not opsets.allows(op_type, opset, {schema.type_variable(position): _spelled(dtype)}):
                return type_name(dtype)
    return ""


class NoKernel(FactRule):
    """Reads `facts.Kernels`."""

    identifier = "no-kernel"
    title = "An operator without a kernel in the runtime for these types"
    why = "The model is valid, but cannot be loaded without such a kernel."
    remedy = "Cast to a type with a kernel, such as float32, or use another opset."
    kind = facts.Kernels

    def hits(self, node: ir.Node, fact: facts.Kernels, looked: Looked) -> Iterator[Hit]:
        if node.op_identifier() in looked.model.functions:
            return
        lacking = _lacking(node, looked.opset_of(node), fact)
        if lacking:
            yield Hit(f"The runtime has no kernel for {lacking}.", node, remedy=_remedy(node, looked, fact))


def _remedy(node: ir.Node, looked: Looked, fact: facts.Kernels) -> str:
    """What to do about a node without a kernel; "": what the rule says."""
    if node.domain not in _ONNX:
        return provided.remedy(f"{node.domain}::{node.op_type}")
    newer = _newer_opset_with_kernel(node, looked.opset_of(node), fact)
    return "" if newer is None else f"Convert the file: opbridge convert MODEL.onnx --opset {newer}."


def _newer_opset_with_kernel(node: ir.Node, opset: int, fact: facts.Kernels) -> int | None:
    """The first newer opset at which a runtime has a kernel for a node of these types; None: there is none."""
    for newer in range(opset + 1, onnx.defs.onnx_opset_version() + 1):
        if opsets.native_schema(node.op_type, newer) is not None and not _lacking(node, newer, fact):
            return newer
    return None


def _lacking(node: ir.Node, opset: int, fact: facts.Kernels) -> str:
    """What a runtime has no kernel for: a node, or one of those that ONNX defines its operator by; "": nothing."""
    if node.domain not in _ONNX:
        return "" if fact.has(node.domain, node.op_type) else f"{node.domain}::{node.op_type}"
    schema = opsets.native_schema(node.op_type, opset)
    if schema is None or node.op_type == "Constant":  # an operator that ONNX does not have is for another rule
        return ""
    types: dict[str, str] | None = None
    if all(isinstance(each.type, ir.TensorType) for each in (*node.inputs, *node.outputs) if each is not None):
        types = {name: _spelled(each) for name, each in all_by_type_variable(node, schema).items()}
    widened = {name: fact.cast.get(each, each) for name, each in (types or {}).items()}
    if not all(fact.lacks(node.op_type, opset, each) for each in (types or {}, widened)):
        return ""
    body = None if types is None else function_body(node, opset)
    if body is not None:
        found = (_lacking(each, body.opset, fact) for each in body.nodes)
        inner = next(filter(None, found), "")
        return f"{inner}, which ONNX defines {node.op_type} by" if inner else ""
    if opsets.is_function(node.op_type, opset):  # of types, or with a body, that are not known here
        return ""
    said = ", ".join(sorted(set((types or {}).values())))
    return f"{node.op_type} of opset {opset}" + (f" with {said}" if said else "")


def _spelled(dtype: ir.DataType) -> str:
    """A type as schemas name it: "tensor(float)"."""
    return f"tensor({dtype.name.lower()})"


RULES: tuple[type[NodeRule], ...] = (MixedTypes, TypeNotInOnnx)

MODEL_RULES: tuple[type[ModelRule], ...] = (NotInOnnx, InvalidNode, UndefinedValue, UnsortedNodes)

FACT_RULES: tuple[type[FactRule], ...] = (NoKernel,)
