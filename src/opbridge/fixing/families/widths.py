"""Types that a target does not take for an operator, or nowhere: the operator computes in another one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import onnx_ir as ir

from opbridge.conversion import schemas
from opbridge.conversion.widening import holding, is_exact
from opbridge.fixing.site import Refused, Site, repair
from opbridge.rules.findings import Finding
from opbridge.rules.forms import holds
from opbridge.rules.looking import Looked, name_of, type_name
from opbridge.targets.facts import Form, Kernels, Narrow, Types, Unstored

_D = ir.DataType
_INTEGERS = (_D.BOOL, _D.INT8, _D.UINT8, _D.INT16, _D.UINT16, _D.INT32, _D.UINT32)


def _is_of_type(finding: Finding) -> bool:
    """Whether a finding on a node of ONNX's own says of a type that the target does not take it."""
    named = finding.rule != "unsupported-form" or any(f" is {type_name(each)}" in finding.message for each in _INTEGERS)
    return named and "::" not in finding.operator


@repair("unsupported-type", "unsupported-form", "no-kernel", offered=_is_of_type)
def cast_and_back(site: Site) -> str:
    """The operator computes in a type that the target takes, where the results are the same, and they are cast back.

    1. A wider type that holds every value, or every value of the type that it was cast from, for operators that move,
       choose or compare elements; and for float16 and bfloat16 where the wider result, rounded, is the result.
    2. int32 in the place of int64, where all values are known to fit.
    """
    node = site.node
    value = node.inputs[0] if node.inputs else None
    dtype = None if value is None else value.dtype
    schema = schemas.form(node.op_type, site.opset) if node.domain in ("", "ai.onnx") else None
    if value is None or dtype is None or schema is None or not schema.inputs:
        return ""
    variable = schemas.type_of_value(schema, schema.inputs, 0).type_str
    values = [each for _, each in _of_variable(node, schema, variable)]
    held = _holding(values, dtype)
    taken = _taken(site, dtype, held)
    for wide in taken:
        if dtype == _D.INT64 and wide == _D.INT32:
            if not all(_fits(site.looked, each) for each in values):
                continue
        elif not is_exact(node.op_type, dtype, wide) or wide not in held:
            continue
        return _computed_in(site, schema, variable, dtype, wide)
    if taken:
        raise Refused(f"of {type_name(dtype)}, which {type_name(taken[0])} cannot represent")
    return ""


def _holding(values: Sequence[ir.Value], dtype: _D) -> list[_D]:
    """The types that hold all elements: of their type, or of the narrower one that a value was cast from."""
    held = list(holding(dtype))
    if len(values) == 1:
        node = values[0].producer()
        given = node.inputs[0] if node is not None and node.op_type == "Cast" else None
        if given is not None and given.dtype is not None and dtype in holding(given.dtype):
            held += [each for each in holding(given.dtype) if each not in (*held, dtype)]
    return held


def _taken(site: Site, dtype: _D, held: Sequence[_D]) -> list[_D]:
    """The types that the targets have the operator for, those that are near first."""
    allowed: set[_D] | None = None
    for fact in site.facts(Types):
        if not fact.inputs and type_name(dtype) not in fact.allowed:
            named = {each for each in _D if type_name(each) in fact.allowed}
            allowed = named if allowed is None else allowed & named
    if allowed is None:
        allowed = _of_forms(site, dtype) if site.finding.rule == "unsupported-form" else _with_kernels(site, dtype)
    nowhere = {
        name
        for target in site.around.targets
        if site.finding.target in ("", str(target))
        for fact in target.of_kind(Unstored)
        for name in fact.types
    }
    order = dict.fromkeys((*held, _D.INT32))
    return [each for each in order if each in allowed and type_name(each) not in nowhere]


def _of_forms(site: Site, dtype: _D) -> set[_D]:
    """The integers that a model for the targets may be computed in, but those that a form which they lack names."""
    forms = [each.form for each in site.facts(Form)]
    named = {condition.rpartition(" is ")[2] for form in forms for condition in form}
    of_type = [form for form in forms if any(each.endswith(f" is {type_name(dtype)}") for each in form)]
    if not any(all(holds(each, site.node, site.looked) for each in form) for form in of_type):
        return set()
    taken = [
        {name for fact in target.of_kind(Narrow) for name in fact.types}
        for target in site.around.targets
        if site.finding.target in ("", str(target))
    ]
    return {each for each in _INTEGERS if type_name(each) in set.intersection(*taken) - named}


def _with_kernels(site: Site, dtype: _D) -> set[_D]:
    """The types that a runtime has a kernel of the operator for."""
    node, found = site.node, set()
    schema = schemas.form(node.op_type, site.opset)
    assert schema is not None
    variable = schemas.type_of_value(schema, schema.inputs, 0).type_str
    for target in site.around.targets:
        for fact in target.of_kind(Kernels):
            for each in holding(dtype):
                if not fact.lacks(node.op_type, site.opset, {variable: f"tensor({each.name.lower()})"}):
                    found.add(each)
    return found


def _of_variable(node: ir.Node, schema: onnx.defs.OpSchema, variable: str) -> list[tuple[int, ir.Value]]:
    """The inputs of a type variable, with their places."""
    return [
        (at, value)
        for at, value in enumerate(node.inputs)
        if value is not None and schemas.type_of_value(schema, schema.inputs, at).type_str == variable
    ]


def _computed_in(site: Site, schema: onnx.defs.OpSchema, variable: str, dtype: _D, wide: _D) -> str:
    node = site.node
    parameter = schemas.type_of_value(schema, schema.inputs, 0)
    name = onnx.helper.tensor_dtype_to_string(int(wide)).removeprefix("TensorProto.").lower()
    if f"tensor({name})" not in schemas.permitted(schema, parameter):
        raise Refused(f"of {type_name(wide)} at opset {site.opset}")
    step = site.step()
    places = dict(_of_variable(node, schema, variable))
    given = [
        step.cast(value, wide) if at in places and value is not None else value for at, value in enumerate(node.inputs)
    ]
    attributes = {name: each.value for name, each in node.attributes.items()}
    count = len(node.outputs)
    made = step.emit(node.op_type, *given, outputs=count, **attributes)
    results = []
    for at, value in enumerate([made] if count == 1 else made):
        if schemas.type_of_value(schema, schema.outputs, at).type_str == variable:
            step.types.set(value, onnx.helper.make_tensor_type_proto(int(wide), step.shape(value)))
            results.append(step.emit("Cast", value, to=int(dtype)))
        else:
            results.append(value)
    site.put(step, *results)
    return f"computed {node.op_type} in {type_name(wide)}"


_SMALL = frozenset({_D.BOOL, _D.INT8, _D.UINT8, _D.INT16, _D.UINT16, _D.INT32})
_KEEPING = frozenset(
    {"Concat", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "Max", "Min", "ReduceMax"}
    | {"ReduceMin", "Reshape", "Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze", "Where"}
)
_PLACES = frozenset({"ArgMax", "ArgMin", "NonZero", "Shape", "Size"})
_DEPTH = 32


def _fits(looked: Looked, value: ir.Value, depth: int = _DEPTH) -> bool:
    """Whether all elements of a value of int64 are known to be numbers of int32."""
    known = looked.constant(value)
    if known is not None:
        limits = np.iinfo(np.int32)
        return not known.size or bool(known.min() >= limits.min and known.max() <= limits.max)
    node = value.producer()
    if node is None or not depth or node.domain not in ("", "ai.onnx"):
        return False
    if node.op_type in _PLACES:
        return True  # no tensor has more elements than that
    if node.op_type == "TopK":
        return value is node.outputs[1]
    if node.op_type == "Cast":
        given = node.inputs[0]
        return given is not None and given.dtype in _SMALL
    if node.op_type in _KEEPING:
        given_values = [each for each in node.inputs if each is not None and each.dtype == _D.INT64]
        if node.op_type in ("Gather", "GatherElements", "GatherND", "Reshape", "Expand", "Slice", "Tile", "Squeeze"):
            given_values = given_values[:1]
        if node.op_type in ("Unsqueeze", "Split", "ReduceMax", "ReduceMin"):
            given_values = given_values[:1]
        return all(_fits(looked, each, depth - 1) for each in given_values)
    return False


@repair("value-type")
def marks_as_numbers(site: Site) -> str:
    """A Cast of truth values to a type that the target does not have is one to float32, with what reads it.

    They are 0 and 1, which every type has; what reads them chooses among them.
    """
    if site.found_at is None:  # an input of the model
        return ""
    node = site.node
    value = node.inputs[0] if node.op_type == "Cast" and node.inputs else None
    if value is None or value.dtype != _D.BOOL or node.outputs[0].is_graph_output():
        return ""
    readers = [each for each, _ in node.outputs[0].uses()]
    if not readers or any(name_of(each) not in _READING for each in readers):
        raise Refused("whose result is also used elsewhere")
    step = site.step()
    made = step.emit("Cast", value, to=int(_D.FLOAT))
    given = node.outputs[0]
    wide = given.dtype
    if any(name_of(each) in _EMPTY and not _has_elements(site, each) for each in readers):
        raise Refused("that may reduce over an empty axis")
    for reader in readers:
        for at, each in enumerate(reader.inputs):
            if each is given:
                reader.replace_input_with(at, made)
    assert wide is not None and node.graph is not None
    site.put_before(step)
    node.graph.remove(node, safe=True)
    for reader in readers:
        if name_of(reader) in _GIVING_NUMBERS:
            _cast_back(site, reader, wide)
    return "represented boolean values in float32"


def _has_elements(site: Site, reader: ir.Node) -> bool:
    """Whether what a node reduces is known to have elements: of none, the extreme is that of the type."""
    shape = site.looked.shape(reader.inputs[0])
    return shape is not None and all(isinstance(each, int) and each for each in shape)


_GIVING_NUMBERS = frozenset({"ReduceMax", "ReduceMin", "GatherElements", "Gather"})
_EMPTY = frozenset({"ReduceMax", "ReduceMin"})
_READING = frozenset({"ArgMax", "ArgMin", "Cast", *_GIVING_NUMBERS})


def _cast_back(site: Site, reader: ir.Node, dtype: _D) -> None:
    """Has what reads a result that is of float32 now get the type that it had."""
    result = reader.outputs[0]
    if all(each.op_type == "Cast" for each, _ in result.uses()) and not result.is_graph_output():
        result.type = ir.TensorType(_D.FLOAT)
        return
    uses = list(result.uses())
    made = ir.node("Cast", [result], attributes={"to": int(dtype)})
    made.name = site.around.name(f"{reader.name}_cast")
    made.metadata_props.update(reader.metadata_props)
    cast = made.outputs[0]
    cast.type, cast.shape = result.type, result.shape
    assert reader.graph is not None
    reader.graph.insert_after(reader, made)
    for user, at in uses:
        user.replace_input_with(at, cast)
    if result.is_graph_output():
        graph = reader.graph
        graph.outputs[list(graph.outputs).index(result)] = cast
    name = result.name
    result.name, cast.name = site.around.name(f"{name}_wide"), name
    result.type = ir.TensorType(_D.FLOAT)


@repair("float64")
def in_float32(site: Site) -> str:
    """Where that is asked for by the rule's name: what is computed in float64 is computed in float32, which rounds."""
    if "float64" not in site.around.asked:
        return ""
    changed = 0
    for value in site.model.graph.initializers.values():
        tensor = value.const_value
        if tensor is not None and tensor.dtype == _D.DOUBLE:
            value.const_value = ir.tensor(tensor.numpy().astype(np.float32), name=value.name)
            value.type = ir.TensorType(_D.FLOAT)
            changed += 1
    for node in site.looked.nodes:
        for attribute in list(node.attributes.values()):
            if attribute.type == ir.AttributeType.TENSOR and attribute.value.dtype == _D.DOUBLE:
                node.attributes[attribute.name] = ir.AttrTensor(
                    attribute.name, ir.tensor(attribute.value.numpy().astype(np.float32))
                )
            elif attribute.name in ("to", "dtype") and attribute.value == int(_D.DOUBLE):
                node.attributes[attribute.name] = ir.AttrInt64(attribute.name, int(_D.FLOAT))
        for value in node.outputs:
            if value.dtype == _D.DOUBLE:
                value.type = ir.TensorType(_D.FLOAT)
                changed += 1
    return f"computed {changed} values in float32" if changed else ""
