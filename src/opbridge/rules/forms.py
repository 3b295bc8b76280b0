"""The forms that nodes have: what `facts.Form` says of them, one condition after the other."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import onnx_ir as ir

from opbridge.onnx import opsets
from opbridge.onnx.shapes import Sizes
from opbridge.rules.looking import Looked, name_of, type_name
from opbridge.rules.signs import is_never_negative

__all__ = ["CONDITION", "ENDS", "LARGER", "NEGATIVE", "OUTER", "SIGNED", "conditions", "holds"]

ENDS = ("it reads an input of the model that is a sequence", "it gives an output of the model that is a sequence")
"""Conditions on the model's inputs and outputs, which programs that run it may be unable to pass."""

OUTER = "a body reads what stands outside of it"
"""A condition on a node with bodies, as Scan and Loop."""

CONDITION = "the body reads the condition"
"""A condition on a Loop, whose body gets its condition and may pass it on."""

LARGER = "it makes a dimension larger"
"""A condition on a node that resizes."""

SIGNED = ("Less", "LessOrEqual", "Greater", "GreaterOrEqual")
"""Operators that compare numbers, of whose inputs it is told whether they may be negative."""

NEGATIVE = " may be negative"
"""What follows the name of an input of such an operator."""

_LEFT_OUT = {("DFT", "axis"): -2}
"""By an operator and an input of it, what that is where it is left out."""

_FLOATING = ("float16", "bfloat16", "float32", "float64")
_RESIZING = ("Resize", "Upsample")
_LONGEST_VALUE = 60
_MOST_ELEMENTS = 8


def holds(condition: str, node: ir.Node, looked: Looked) -> bool:
    """Whether a condition holds of a node, as far as the model says so."""
    kind, name, value = _parsed(condition)
    if kind == "end":
        return name in _ends(node)
    if kind == "outer":
        return _reads_outer_values(node)
    if kind == "read condition":
        return _reads_condition(node)
    if kind == "count":
        return str(len(node.inputs)) == value
    if kind == "opset":
        return str(looked.revision(node)) == value
    if kind == "no attribute":
        return name not in node.attributes
    if kind == "attribute":
        return _text(looked.attribute(node, name)) == value
    if kind == "output":
        return looked.output(node, name) is not None
    if kind == "no name":
        return not _has_name(node, name, looked)
    if kind == "empty output":
        return any(0 in (looked.shape(each) or ()) for each in _outputs(node, looked, name))
    if kind == "larger":
        return _is_enlarged(node, looked)
    if kind == "other dimension":
        return _is_other_dimension(node, looked, name, int(value))
    if kind == "from the end":
        return (_number(node, looked, name) or 0) < 0
    found = looked.input(node, name)
    if kind == "given":
        return found is not None if value == "given" else found is None and _takes(node, looked, name)
    if found is None:
        return False
    if kind == "computed":
        return looked.is_known(found) == (value == "a constant")
    if kind == "type":
        return _type(found) == value
    if kind == "sign":
        return _type(found) in _FLOATING and not is_never_negative(found)
    shape = looked.shape(found)
    if shape is None:
        return False
    if kind == "length":
        return len(shape) == 1 and str(shape[0]) == value and _type(found) == "int64"
    if kind == "elements":
        return _has_elements(shape)
    return 0 in shape if kind == "empty" else str(len(shape)) == value


def _takes(node: ir.Node, looked: Looked, name: str) -> bool:
    """Whether an operator has an input of a name in the form that a node has: newer forms have more."""
    schema = opsets.native_schema(name_of(node), looked.opset_of(node))
    return schema is not None and any(each.name == name for each in schema.inputs)


@functools.lru_cache(maxsize=4096)
def _parsed(condition: str) -> tuple[str, str, str]:
    """A condition's kind, what it is about, and its value."""
    if condition.startswith("of opset "):
        return "opset", "", condition.removeprefix("of opset ")
    if condition in ENDS:
        return "end", condition, ""
    if condition == OUTER:
        return "outer", "", ""
    if condition == CONDITION:
        return "read condition", "", ""
    if condition == LARGER:
        return "larger", "", ""
    if condition.endswith(NEGATIVE):
        return "sign", condition.removesuffix(NEGATIVE), ""
    if condition.startswith("no attribute "):
        return "no attribute", condition.removeprefix("no attribute "), ""
    if condition.endswith(" inputs"):
        return "count", "", condition.removesuffix(" inputs")
    name, separator, value = condition.partition(" = ")
    if separator:
        return "attribute", name, value
    name, separator, value = condition.partition(" has rank ")
    if separator:
        return "rank", name, value
    name, separator, value = condition.partition(" has length ")
    if separator:
        return "length", name, value
    if condition.endswith(" counts from the end"):
        return "from the end", condition.removesuffix(" counts from the end"), ""
    name, separator, value = condition.partition(" is not dimension ")
    if separator:
        return "other dimension", name, value
    if condition.endswith(" has no name"):
        return "no name", condition.removesuffix(" has no name"), ""
    if condition.endswith(" comes out empty"):
        return "empty output", condition.removesuffix(" comes out empty"), ""
    name, _, value = condition.partition(" is ")
    kinds = {
        "given": "given",
        "left out": "given",
        "computed": "computed",
        "a constant": "computed",
        "empty": "empty",
        "not empty": "elements",
        "used": "output",
    }
    return kinds.get(value, "type"), name, value


def conditions(node: ir.Node, looked: Looked) -> Iterator[str]:
    """All conditions that hold of a node of ONNX's own domain, as far as the model says so."""
    yield from _ends(node)
    schema = opsets.native_schema(name_of(node), looked.opset_of(node))
    if schema is None:
        return
    yield f"of opset {schema.since}"
    if _reads_outer_values(node):
        yield OUTER
    if _reads_condition(node):
        yield CONDITION
    if _is_enlarged(node, looked):
        yield LARGER
    for name in schema.attributes:
        text = _text(looked.attribute(node, name))
        if text and len(text) <= _LONGEST_VALUE:
            yield f"{name} = {text}"
        if name not in node.attributes:  # a runtime's default may be another than ONNX's
            yield f"no attribute {name}"
    for at, formal in enumerate(schema.inputs):
        value = looked.input(node, formal.name)
        optional = not formal.required
        if formal.variadic:
            yield f"{len(node.inputs)} inputs"
        if value is None:
            if optional:
                yield f"{formal.name} is left out"
            continue
        if optional:
            yield f"{formal.name} is given"
        if at:
            yield f"{formal.name} is {'a constant' if looked.is_known(value) else 'computed'}"
        if found := _type(value):
            yield f"{formal.name} is {found}"
        if found in _FLOATING and name_of(node) in SIGNED and not is_never_negative(value):
            yield f"{formal.name}{NEGATIVE}"
        if (shape := looked.shape(value)) is not None:
            yield f"{formal.name} has rank {len(shape)}"
            if len(shape) == 1 and _has_elements(shape) and _type(value) == "int64":
                if at:
                    yield f"{formal.name} is not empty"
                if shape[0] is not None and int(shape[0]) <= _MOST_ELEMENTS:
                    yield f"{formal.name} has length {shape[0]}"
            if 0 in shape:
                yield f"{formal.name} is empty"
    for at, formal in enumerate(schema.outputs):
        made = looked.output(node, formal.name)
        if at and made is not None:
            yield f"{formal.name} is used"
        if not formal.variadic and not _has_name(node, formal.name, looked):
            yield f"{formal.name} has no name"
        if any(0 in (looked.shape(each) or ()) for each in _outputs(node, looked, formal.name)):
            yield f"{formal.name} comes out empty"


def _outputs(node: ir.Node, looked: Looked, name: str) -> Sequence[ir.Value]:
    """The outputs of a name in the schema that are used, which are several for the last one of some operators."""
    schema = opsets.native_schema(name_of(node), looked.opset_of(node))
    if schema is not None and schema.outputs and schema.outputs[-1].variadic and schema.outputs[-1].name == name:
        return [each for each in node.outputs[len(schema.outputs) - 1 :] if each.name]
    found = looked.output(node, name)
    return [] if found is None else [found]


def _has_name(node: ir.Node, name: str, looked: Looked) -> bool:
    """Whether an output of a node has a name, as those have that are left out nowhere, read or not."""
    schema = opsets.native_schema(name_of(node), looked.opset_of(node))
    at = next((at for at, each in enumerate(() if schema is None else schema.outputs) if each.name == name), None)
    return at is not None and at < len(node.outputs) and bool(node.outputs[at].name)


def _is_enlarged(node: ir.Node, looked: Looked) -> bool:
    """Whether a node that resizes makes a dimension larger, as far as shapes and scales say."""
    if node.op_type not in _RESIZING or not node.inputs:
        return False
    before, after = looked.shape(node.inputs[0]), looked.shape(node.outputs[0])
    if before is not None and after is not None:
        pairs = zip(before, after, strict=False)
        if any(isinstance(a, int) and isinstance(b, int) and b > a for a, b in pairs):
            return True
    scales = looked.constant(looked.input(node, "scales"))
    return scales is not None and scales.dtype.kind == "f" and bool((scales > 1).any())


def _ends(node: ir.Node) -> Iterator[str]:
    """Where a node reads an input of the model, or gives an output, that is no tensor."""
    kinds = (ir.SequenceType, ir.OptionalType)
    if any(each is not None and each.is_graph_input() and isinstance(each.type, kinds) for each in node.inputs):
        yield ENDS[0]
    if any(each.is_graph_output() and isinstance(each.type, kinds) for each in node.outputs):
        yield ENDS[1]


def _reads_outer_values(node: ir.Node) -> bool:
    """Whether a node in one of its bodies, at any depth, reads a value that stands outside of the body."""
    return any(_outer_values(body) for each in node.attributes.values() for body in _bodies(each))


def _reads_condition(node: ir.Node) -> bool:
    """Whether the body of a Loop reads its condition, were it only to pass it on."""
    body = next((each for attribute in node.attributes.values() for each in _bodies(attribute)), None)
    if node.op_type != "Loop" or body is None or len(body.inputs) < 2:
        return False
    given = body.inputs[1]
    return bool(given.uses()) or given in body.outputs


def _outer_values(body: ir.Graph) -> set[ir.Value]:
    read: set[ir.Value] = {each for each in body.outputs if each is not None}
    made: set[ir.Value] = {*body.inputs, *body.initializers.values()}
    for node in body:
        made.update(node.outputs)
        read.update(each for each in node.inputs if each is not None)
        for attribute in node.attributes.values():
            for inner in _bodies(attribute):
                read |= _outer_values(inner)
    return read - made


def _bodies(attribute: ir.Attr) -> Sequence[ir.Graph]:
    if attribute.is_ref():
        return ()
    if attribute.type == ir.AttributeType.GRAPH:
        return (attribute.as_graph(),)
    return attribute.as_graphs() if attribute.type == ir.AttributeType.GRAPHS else ()


def _is_other_dimension(node: ir.Node, looked: Looked, name: str, wanted: int) -> bool:
    """Whether an axis is known, and another dimension of the first input than one that is counted from the front."""
    axis = _number(node, looked, name)
    if axis is None or axis >= 0:
        return axis is not None and axis != wanted
    shape = looked.shape(node.inputs[0])
    return shape is not None and axis + len(shape) != wanted


def _number(node: ir.Node, looked: Looked, name: str) -> int | None:
    """A number that an attribute or an input is, as far as it is known."""
    attribute = looked.attribute(node, name)
    if isinstance(attribute, int):
        return attribute
    value = looked.input(node, name)
    if value is None:
        return _LEFT_OUT.get((name_of(node), name))
    found = looked.constant(value)
    return int(found.item()) if found is not None and found.size == 1 and found.dtype.kind in "iu" else None


def _has_elements(shape: Sizes) -> bool:
    """Whether a tensor has elements, as far as its sizes are known."""
    return all(isinstance(each, int) and each > 0 for each in shape)


def _type(value: ir.Value) -> str:
    if value.dtype is not None and isinstance(value.type, ir.TensorType):
        return type_name(value.dtype)
    return "a sequence" if isinstance(value.type, ir.SequenceType) else ""


def _text(value: Any) -> str:
    """An attribute's value as conditions write it; "" for bodies and tensors."""
    if isinstance(value, str):
        return value or "''"
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, (list, tuple)) and all(isinstance(each, (str, int, float)) for each in value):
        return f"[{', '.join(map(str, value))}]"
    return ""
