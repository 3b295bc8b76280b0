"""What is known of the types and shapes of a model's values."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from opbridge.conversion import inference_worker
from opbridge.onnx.shapes import Size, Sizes, elements, note_sizes, sizes

__all__ = ["Types", "checked", "folded", "inferred", "lean", "mistyped", "type_text"]

_SECONDS = 300
_LARGEST_KEPT = 1024
"""Initializers of more bytes than this do not go to the process that infers types."""

_LARGEST_FOLDED = 1 << 12

# What is computed here where all that goes in is known: the ways in which exporters write sizes and axes.
_FOLDED = frozenset(
    {"Add", "Cast", "Concat", "ConstantOfShape", "Div", "Gather", "Identity", "Max", "Min", "Mul", "Neg", "Range"}
    | {"Reshape", "Slice", "Squeeze", "Sub", "Unsqueeze", "Equal", "Where", "Expand"}
)


class Types:
    """The types of values, beside the model: inferred ones are not written to the file.

    Args:
        model: The model.
        inferred: The same model with inferred types; None where they could not be inferred.
    """

    def __init__(self, model: ir.Model, inferred: onnx.ModelProto | None) -> None:
        self._types: dict[ir.Value, onnx.TypeProto] = {}
        self._folded: dict[ir.Value, np.ndarray | None] = {}
        self._overridable = set(model.graph.inputs) if (model.ir_version or 4) >= 4 else set()
        if inferred is not None:
            self._read(model.graph, inferred.graph)
            functions = {(each.domain, each.name): each for each in inferred.functions}
            for function in model.functions.values():
                if (proto := functions.get((function.domain, function.name))) is not None:
                    self._read_nodes(function, proto.node, _by_name(proto.value_info))

    def _read(self, graph: ir.Graph, proto: onnx.GraphProto) -> None:
        known = _by_name([*proto.value_info, *proto.output, *proto.input])
        for value in graph.inputs:
            if value.name in known:
                self.set(value, known[value.name])
        self._read_nodes(graph, proto.node, known)

    def _read_nodes(self, nodes: Iterable[ir.Node], protos: Sequence[onnx.NodeProto], known: dict[str, Any]) -> None:
        for node, proto in zip(nodes, protos, strict=False):
            for value in node.outputs:
                if value.name in known:
                    self.set(value, known[value.name])
            bodies = {each.name: each for each in proto.attribute}
            for name, attribute in node.attributes.items():
                if attribute.type == ir.AttributeType.GRAPH and name in bodies and not attribute.is_ref():
                    self._read(attribute.as_graph(), bodies[name].g)

    def of(self, value: ir.Value | None) -> onnx.TypeProto | None:
        """The type of a value with what is known of its shape."""
        if value is None:
            return None
        found = self._types.get(value)
        if found is not None:
            return found
        if value.type is not None:
            made = onnx.TypeProto()
            ir.serde.serialize_type_into(made, value.type)
            if value.shape is not None and made.HasField("tensor_type"):
                return onnx.helper.make_tensor_type_proto(int(value.type.dtype), sizes(value))
            return made
        tensor = value.const_value
        if tensor is not None:
            return onnx.helper.make_tensor_type_proto(int(tensor.dtype), list(tensor.shape.numpy()))
        return None

    def pass_to_functions(self, model: ir.Model) -> None:
        """Gives the inputs of functions the types that all their calls agree on."""
        calls: dict[ir.Value, list[onnx.TypeProto | None]] = {}
        for node in model.graph.all_nodes():
            function = model.functions.get(node.op_identifier())
            if function is not None:
                for parameter, given in zip(function.inputs, node.inputs, strict=False):
                    calls.setdefault(parameter, []).append(self.of(given))
        for parameter, given_types in calls.items():
            common = _common(given_types)
            if common is not None:
                self.set(parameter, common)

    def set(self, value: ir.Value, type_: onnx.TypeProto) -> None:
        """Notes the type of a value."""
        self._types[value] = type_
        if (shape := self.shape(value)) is not None:
            note_sizes(value, shape)

    def text(self, value: ir.Value | None) -> str | None:
        """The type as schemas write it: "tensor(float)"."""
        found = self.of(value)
        return None if found is None else type_text(found)

    def dtype(self, value: ir.Value | None) -> ir.DataType | None:
        """The type of a tensor's elements."""
        found = self.of(value)
        if found is None or not found.HasField("tensor_type") or not found.tensor_type.elem_type:
            return None
        return ir.DataType(found.tensor_type.elem_type)

    def shape(self, value: ir.Value | None) -> Sizes | None:
        """A tensor's sizes: numbers, names or None; None where not even their number is known."""
        found = self.of(value)
        if found is None or not found.HasField("tensor_type") or not found.tensor_type.HasField("shape"):
            return None
        return [_size(each) for each in found.tensor_type.shape.dim]

    def constant(self, value: ir.Value | None) -> np.ndarray | None:
        """The elements of a value that does not depend on the inputs, if they are few."""
        if value is None:
            return None
        if value not in self._folded:
            self._folded[value] = None  # where a model goes in circles
            self._folded[value] = self._computed(value)
        return self._folded[value]

    def _computed(self, value: ir.Value) -> np.ndarray | None:
        if value in self._overridable:
            return None
        found = self._folded_alone(value)
        return self._of_sizes(value) if found is None and value.producer() is not None else found

    def _of_sizes(self, value: ir.Value) -> np.ndarray | None:
        """The elements of a tensor of sizes which are known, though others of the same shapes are not."""
        shape = self.shape(value)
        if self.dtype(value) != ir.DataType.INT64 or shape is None or len(shape) > 1:
            return None
        found = elements(value)
        if found is None or not all(isinstance(each, int) for each in found):
            return None
        numbers = np.asarray(found, np.int64)
        return numbers if shape else numbers.reshape(()) if numbers.size == 1 else None

    def _folded_alone(self, value: ir.Value) -> np.ndarray | None:
        """The elements of a value all of whose inputs are known."""
        node = value.producer()
        tensor = value.const_value
        if tensor is None and node is not None and node.op_type == "Constant" and node.domain == "":
            return _of_constant(node)
        if tensor is not None:
            return tensor.numpy() if tensor.size <= _LARGEST_FOLDED else None
        if node is None or node.domain != "" or len(node.outputs) != 1:
            return None
        if node.op_type in ("Shape", "Size"):
            shape = self.shape(node.inputs[0]) if node.inputs else None
            if shape is None or not all(isinstance(each, int) for each in shape):
                return None
            if node.op_type == "Size":
                return np.asarray(np.prod(np.asarray(shape, np.int64)), np.int64)
            start, end = (node.attributes.get(each) for each in ("start", "end"))
            part = slice(start.as_int() if start else None, end.as_int() if end else None)
            return np.asarray(shape[part], np.int64)
        if node.op_type not in _FOLDED:
            return None
        given = [self.constant(each) for each in node.inputs]
        if any(each is None and value is not None for each, value in zip(given, node.inputs, strict=True)):
            return None
        return folded(node, given)


def folded(node: ir.Node, given: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """What a node gives for constants, by ONNX's reference; None where it says nothing."""
    from onnx.reference import ReferenceEvaluator

    schema = None
    for opset in range(7, onnx.defs.onnx_opset_version() + 1):  # the first form that takes this call
        try:
            schema = onnx.defs.get_schema(node.op_type, opset, "")
        except onnx.defs.SchemaError:
            continue
        if len(node.inputs) <= schema.max_input and set(node.attributes) <= set(schema.attributes):
            break
        schema = None
    if schema is None:
        return None
    names = ["" if each is None else f"i{at}" for at, each in enumerate(given)]
    made = onnx.NodeProto(op_type=node.op_type, input=names, output=["o"])
    made.attribute.extend(ir.serde.serialize_attribute(each) for each in node.attributes.values())
    inputs = [
        onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(each.dtype), each.shape)
        for name, each in zip(names, given, strict=True)
        if each is not None
    ]
    graph = onnx.helper.make_graph([made], "g", inputs, [onnx.ValueInfoProto(name="o")])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", max(opset, 7))])
    try:
        feeds = {name: each for name, each in zip(names, given, strict=True) if each is not None}
        (result,) = ReferenceEvaluator(model).run(None, feeds)
    except Exception:  # not a valid node, which is for the runtime to say
        return None
    found = np.asarray(result)
    return found if found.size <= _LARGEST_FOLDED else None


def _of_constant(node: ir.Node) -> np.ndarray | None:
    for name, kind in (("value_int", np.int64), ("value_ints", np.int64), ("value_float", np.float32)):
        if (attribute := node.attributes.get(name)) is not None:
            return np.asarray(attribute.value, kind)
    if (floats := node.attributes.get("value_floats")) is not None:
        return np.asarray(floats.value, np.float32)
    tensor = node.attributes.get("value")
    if tensor is None or tensor.is_ref() or tensor.as_tensor().size > _LARGEST_FOLDED:
        return None
    return tensor.as_tensor().numpy()


def _size(dim: onnx.TensorShapeProto.Dimension) -> Size:
    return dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None


def _common(found: Sequence[onnx.TypeProto | None]) -> onnx.TypeProto | None:
    """The type that several have in common; None where they differ in more than sizes."""
    first = found[0]
    if first is None or any(each is None or type_text(each) != type_text(first) for each in found):
        return None
    if not first.HasField("tensor_type"):
        return first
    shapes = {tuple(map(_size, each.tensor_type.shape.dim)) for each in found if each is not None}
    known = all(each is not None and each.tensor_type.HasField("shape") for each in found)
    if not known or len({len(each) for each in shapes}) > 1:
        return onnx.helper.make_tensor_type_proto(first.tensor_type.elem_type, None)
    sizes_ = [at[0] if len(set(at)) == 1 else None for at in zip(*shapes, strict=True)]
    return onnx.helper.make_tensor_type_proto(first.tensor_type.elem_type, sizes_)


def _by_name(infos: Iterable[onnx.ValueInfoProto]) -> dict[str, onnx.TypeProto]:
    return {each.name: each.type for each in infos if each.type.WhichOneof("value")}


def type_text(found: onnx.TypeProto) -> str | None:
    """A type as schemas write it; None where it is not known."""
    kind = found.WhichOneof("value")
    if kind == "tensor_type" and found.tensor_type.elem_type:
        return f"tensor({_element(found.tensor_type.elem_type)})"
    if kind == "sequence_type":
        inner = type_text(found.sequence_type.elem_type)
        return None if inner is None else f"seq({inner})"
    if kind == "optional_type":
        inner = type_text(found.optional_type.elem_type)
        return None if inner is None else f"optional({inner})"
    return None


def _element(number: int) -> str:
    name = onnx.TensorProto.DataType.Name(number).lower()
    return name


def lean(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy of a model without the data of its larger weights, which types and shapes do not depend on."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    _strip(result.graph)
    return result


def _strip(graph: onnx.GraphProto) -> None:
    for tensor in graph.initializer:
        if tensor.ByteSize() > _LARGEST_KEPT or tensor.data_location == tensor.EXTERNAL:
            for name in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
                tensor.ClearField(name)
            del tensor.external_data[:]
            tensor.ClearField("data_location")


def inferred(model: onnx.ModelProto, *, isolated: bool = True) -> onnx.ModelProto | None:
    """The model with the types of its values; None where ONNX's inference fails on it.

    Args:
        model: The model.
        isolated: Whether it is inferred in a process of its own, which a damaged model may end.
    """
    said = _asked("infer", lean(model), isolated)
    try:
        return None if said is None else onnx.ModelProto.FromString(said)
    except Exception:  # cut off
        return None


def checked(model: onnx.ModelProto, *, isolated: bool = True) -> str | None:
    """What ONNX's checker has to say against a model without its weights; None where it crashes.

    Args:
        model: The model.
        isolated: Whether it is checked in a process of its own, which a damaged model may end.
    """
    said = _asked("check", model, isolated)
    return None if said is None else said.decode(errors="replace")


def mistyped(model: onnx.ModelProto, *, isolated: bool = True) -> str | None:
    """What ONNX's inference has to say against the types of a model without its weights; None where it crashes.

    Args:
        model: The model.
        isolated: Whether it is inferred in a process of its own, which a damaged model may end.
    """
    said = _asked("types", model, isolated)
    return None if said is None else said.decode(errors="replace")


def _asked(what: str, model: onnx.ModelProto, isolated: bool) -> bytes | None:
    if not isolated:
        try:
            return inference_worker.answer(what, model)
        except Exception:  # as a process that failed
            return None
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(each or os.getcwd() for each in sys.path)}
    try:
        done = subprocess.run(
            [sys.executable, "-P", inference_worker.__file__, what],
            input=model.SerializeToString(),
            capture_output=True,
            timeout=_SECONDS,
            env=environment,
            check=True,
        )
    except (subprocess.SubprocessError, OSError):
        return None
    return done.stdout
