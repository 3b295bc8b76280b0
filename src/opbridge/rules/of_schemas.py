"""Rules that compare nodes with the schemas of ONNX, and with the kernels that a runtime says it has."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterator

import onnx
import onnx_ir as ir

from opbridge.onnx import opsets
from opbridge.rules.looking import Looked, type_name
from opbridge.rules.node_types import all_by_type_variable, function_body
from opbridge.rules.rule import FactRule, Hit, ModelRule, NodeRule
from opbridge.targets import facts

__all__ = ["FACT_RULES", "MODEL_RULES", "RULES"]

_ONNX = ("", "ai.onnx")


class NotInOnnx(ModelRule):
    """An operator that ONNX does not have at the model's opset."""

    identifier = "not-in-onnx"
    title = "An operator that ONNX does not have at the model's opset"
    why = "No runtime loads such a model, but for one that has the operator of its own accord."
    remedy = "Raise the model's opset to one that has the operator, or use another operator."
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
    title = "A node with inputs, outputs or attributes that its operator does not have"
    why = "Runtimes refuse the model. Often an operator has the form of another opset than the model's."
    remedy = "Export again with one opset, or write the node in the form that the model's opset has."
    always = True

    def hits(self, looked: Looked) -> Iterator[Hit]:
        for node, wrong in looked.malformed.items():
            if wrong:
                yield Hit(f"{node.op_type} {wrong}.", node)


class UndefinedValue(ModelRule):
    """A node that reads a value that nothing gives."""

    identifier = "undefined-value"
    title = "A value that nothing gives"
    why = "No runtime can compute it: the model was cut out of another one, or is damaged."
    remedy = "Make the value an input of the model, or export again."
    always = True

    def hits(self, looked: Looked) -> Iterator[Hit]:
        for node, values in looked.early.items():
            for value in values:
                if value.producer() is None:
                    yield Hit(f"{node.op_type} reads '{value.name}', which nothing gives.", node)


class UnsortedNodes(ModelRule):
    """A node that stands before one whose result it reads."""

    identifier = "unsorted-nodes"
    title = "A node that stands before one whose result it reads"
    why = "ONNX has nodes in the order in which they can be computed. Where they are in a circle there is none."
    remedy = "Sort the nodes; where they are in a circle, export again."
    always = True

    def hits(self, looked: Looked) -> Iterator[Hit]:
        for node, values in looked.early.items():
            for value in values:
                producer = value.producer()
                if producer is not None:
                    yield Hit(f"{node.op_type} reads '{value.name}', which {producer.op_type} gives only later.", node)


class MixedTypes(NodeRule):
    """Inputs that have to have one type have several."""

    identifier = "mixed-types"
    title = "Inputs of one operator that differ in type"
    why = "ONNX has these inputs of one type. Some runtimes load the model all the same, and others refuse it."
    remedy = "Cast one to the type of the other."
    always = True

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        if node.domain in _ONNX:
            for types in _mixed(node.op_type, looked.opset_of(node), looked.types_of_inputs(node)):
                yield Hit(f"{node.op_type} has inputs of {' and '.join(types)}.", node)


class TypeNotInOnnx(NodeRule):
    """A type that ONNX does not allow for an operator."""

    identifier = "type-not-in-onnx"
    title = "A type that ONNX does not have an operator for at the model's opset"
    why = "Runtimes refuse the model, but for those that have kernels beyond the specification."
    remedy = "Cast to a type that the operator has, or raise the model's opset."
    always = True

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        opset = looked.opset_of(node)
        if node.domain in _ONNX and (found := _not_allowed(node.op_type, opset, looked.types_of_inputs(node))):
            yield Hit(f"{node.op_type} of opset {opset} does not take {found}.", node)


_Types = tuple[ir.DataType | None, ...]


# A model has many nodes of few forms.
@functools.lru_cache(maxsize=4096)
def _mixed(op_type: str, opset: int, types: _Types) -> tuple[tuple[str, ...], ...]:
    """For each type variable that has to be one type, the names of those that inputs have where they are several."""
    schema = opsets.native_schema(op_type, opset)
    found: dict[str, set[ir.DataType]] = defaultdict(set)
    for position, dtype in enumerate(types):
        if schema is not None and schema.inputs and dtype is not None and schema.homogeneous(position):
            found[schema.type_variable(position)].add(dtype)
    return tuple(tuple(sorted(map(type_name, each))) for each in found.values() if len(each) > 1)


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
    title = "An operator that the runtime has no kernel for, with these types"
    why = "The model loads nowhere without such a kernel, though it is valid."
    remedy = "Cast to a type that the runtime has a kernel for, as float32, or choose another opset."
    kind = facts.Kernels

    def hits(self, node: ir.Node, fact: facts.Kernels, looked: Looked) -> Iterator[Hit]:
        if node.op_identifier() in looked.model.functions:
            return
        lacking = _lacking(node, looked.opset_of(node), fact)
        if lacking:
            newer = _newer_opset_with_kernel(node, looked.opset_of(node), fact)
            remedy = "" if newer is None else f"Convert the file: opbridge convert MODEL.onnx --opset {newer}."
            yield Hit(f"The runtime has no kernel for {lacking}.", node, remedy=remedy)


def _newer_opset_with_kernel(node: ir.Node, opset: int, fact: facts.Kernels) -> int | None:
    """The first newer opset at which a runtime has a kernel for a node of these types; None: there is none."""
    if node.domain not in _ONNX:
        return None
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
