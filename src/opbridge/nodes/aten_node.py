"""The format of an `aten` node: one ONNX node that calls one PyTorch operator. Written down and made here only.

The node is `ATen` in the domain `org.pytorch.aten`, version 1. A kernel needs nothing else to make the call through
libtorch's dispatcher: no schema, no Python.

Attributes that every node has
    operator        STRING  "aten::add", with its namespace and without its overload
    overload_name   STRING  "Tensor"; "" for the default overload
    schema          STRING  the operator's schema, as torch prints it
    torch_version   STRING  the torch that it was written with. Where `schema` is not what the torch at hand says of the
                            operator, the two do not fit, and this names the other one.
    arguments       STRING  every argument of the schema, in order, defaults filled in, separated by single spaces:
                                name:type=kind
                            as in "self:Tensor=tensor other:Tensor=tensor alpha:Scalar=int"
    results         STRING  every result of the schema, in order: type=kind
                            as in "Tensor=tensor Tensor[]=[tensor,tensor]"
    output_types    INTS    the ONNX element type of each output of the node

`type` is the schema's, without aliasing and list lengths: Tensor, Tensor?, Tensor?[], SymInt[], int[]?, Scalar,
ScalarType? and so on. `kind` says what the value is and where it is found. An attribute for an argument has the
argument's name (with a trailing "_" where that is one of the names above).

    kind            where                               what
    tensor          the node's next input               a tensor
    complex_tensor  the node's next input               a complex tensor, as real numbers with a trailing dimension of 2
    input_int       the node's next input, INT64 []     a number that is known only when the model runs
    input_float     the node's next input, floating []  the same
    input_bool      the node's next input, BOOL []      the same
    none            nowhere                             None
    int             attribute INT                       an integer
    bool            attribute INT, 0 or 1               a truth value
    float           attribute TENSOR, DOUBLE []         a number, exactly (ONNX's own FLOAT has half of its digits)
    complex         attribute TENSOR, DOUBLE [2]        real and imaginary part
    str             attribute STRING                    text
    dtype           attribute STRING                    "float32": the name that torch gives it
    layout          attribute STRING                    "strided"
    device          attribute STRING                    "cpu", "cuda:0"
    memory_format   attribute STRING                    "channels_last"
    ints, bools     attribute INTS                      a list of at least one
    floats          attribute TENSOR, DOUBLE [n]        a list of at least one
    [kind,...]      item by item; an attribute for      any other list, such as tensors of which some are None:
                    item i is called "name.i"           "indices:Tensor?[]=[none,tensor]"

A number in an input may be of another kind than the type (INT64 for `float`); it is converted to what the type says.

In `results` the kinds are tensor, complex_tensor, int, float, bool (outputs without dimensions), none (a result that
the operator left undefined, or that nothing in the model reads; the node has no output for it) and lists of these. The
node's outputs are in this order.

Operators that write to their arguments are called on copies: what they return is all that is seen of them.

TorchScript-based exporters wrote a simpler form: `operator` without a namespace, often an empty `overload_name`, and
all arguments as inputs, constants included. `decode` reads it too, as far as the installed torch can tell what was
meant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from opbridge.base.dtypes import onnx_dtype
from opbridge.base.torch_private import torch_operators
from opbridge.errors import ModelFileError, TranslationError, UsageError

__all__ = ["DOMAIN", "OP_TYPE", "VERSION", "AtenCall", "Encoded", "Input", "decode", "encode", "leaves", "operators"]

DOMAIN = "org.pytorch.aten"
OP_TYPE = "ATen"
VERSION = 1

_RESERVED = frozenset({"operator", "overload_name", "schema", "torch_version", "arguments", "results", "output_types"})
_INPUTS = ("tensor", "complex_tensor", "input_int", "input_float", "input_bool")

_Kinds = str | tuple["_Kinds", ...]


@dataclass(frozen=True)
class Input:
    """An argument that is an input of the node.

    Attributes:
        kind: One of the kinds of inputs above.
        value: For `encode` whatever stands for the value; from `decode` the number of the node's input.
    """

    kind: str
    value: Any


@dataclass(frozen=True)
class Encoded:
    """What a node consists of.

    Attributes:
        inputs: What was given as `Input.value`, in the order of the node's inputs.
        attributes: By name.
    """

    inputs: list[Any]
    attributes: dict[str, ir.Attr]


def encode(
    target: torch._ops.OpOverload,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    result: Any,
) -> Encoded:
    """The node that calls an operator.

    Args:
        target: The operator.
        args: Its positional arguments, also in lists: `Input`s, numbers, text, dtypes and so on.
        kwargs: Its keyword arguments.
        result: What it returns for them, in torch's structure; of tensors only the dtype matters.

    Raises:
        TranslationError: an argument or a result that a node cannot hold.
    """
    declared, returned = torch_operators.declared(target)
    writer = _Writer(target)
    for argument, value in zip(declared, bound(target, args, kwargs), strict=True):
        writer.argument(argument, value)
    values = [result] if len(returned) == 1 else list(result or ())
    kinds = [writer.result(each, value) for each, value in zip(returned, values, strict=True)]
    types = [int(_onnx_type(value, writer)) for value in leaves(result)]
    name, _, overload = (torch_operators.operator_name(target) or "").partition(".")
    written = " ".join(f"{each.type}={_spelled(kind)}" for each, kind in zip(returned, kinds, strict=True))
    attributes = [
        ir.AttrString("operator", name),
        ir.AttrString("overload_name", overload),
        ir.AttrString("schema", str(target._schema)),
        ir.AttrString("torch_version", torch.__version__),
        ir.AttrString("arguments", " ".join(writer.told)),
        ir.AttrString("results", written),
        ir.AttrInt64s("output_types", types),
        *writer.attributes,
    ]
    return Encoded(writer.inputs, {attribute.name: attribute for attribute in attributes})


def bound(target: torch._ops.OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The value of every argument of the schema, in order.

    Defaults are filled in; one number stands for a list whose length the schema gives (`int[2] stride`).

    Raises:
        TranslationError: an argument is missing, or there is no such argument.
    """
    declared, _ = torch_operators.declared(target)
    unknown = [*map(repr, args[len(declared) :]), *kwargs.keys() - {each.name for each in declared}]
    if unknown:
        raise TranslationError(
            f"{torch_operators.operator_name(target)} takes no argument {unknown[0]}: {target._schema}."
        )
    values = []
    for position, each in enumerate(declared):
        if position < len(args):
            value = args[position]
        elif each.name in kwargs:
            value = kwargs[each.name]
        elif each.has_default:
            value = each.default
        else:
            raise TranslationError(
                f"{torch_operators.operator_name(target)} is called without its argument '{each.name}'."
            )
        if each.length is not None and value is not None and not isinstance(value, (list, tuple)):
            value = [value] * each.length
        values.append(value)
    return values


def leaves(result: Any) -> list[Any]:
    """The results that are outputs of the node, in order."""
    if isinstance(result, (list, tuple)):
        return [leaf for item in result for leaf in leaves(item)]
    return [] if result is None else [result]


class _Writer:
    """Collects what `encode` finds."""

    def __init__(self, target: torch._ops.OpOverload) -> None:
        self._operator = torch_operators.operator_name(target)
        self.inputs: list[Any] = []
        self.attributes: list[ir.Attr] = []
        self.told: list[str] = []

    def argument(self, declared: torch_operators.Declared, value: Any) -> None:
        optional = declared.type.endswith("?")
        kind = "none" if value is None and optional else self._kind(declared, declared.type.rstrip("?"), value)
        self.told.append(f"{declared.name}:{declared.type}={kind}")

    def result(self, declared: torch_operators.Declared, value: Any) -> _Kinds:
        if isinstance(value, (list, tuple)):
            return tuple(self.result(declared, item) for item in value)
        if value is None:
            return "none"
        if isinstance(value, torch.Tensor):
            return "complex_tensor" if value.is_complex() else "tensor"
        for kind, types in (
            ("bool", (bool, torch.SymBool)),
            ("int", (int, torch.SymInt)),
            ("float", (float, torch.SymFloat)),
        ):
            if isinstance(value, types):
                return kind
        raise self.error(f"its result of type {declared.type} cannot be an output")

    def error(self, reason: str) -> TranslationError:
        return TranslationError(f"{self._operator} does not fit into an aten node: {reason}.")

    def _kind(self, declared: torch_operators.Declared, type_: str, value: Any) -> str:
        """Stores a value; returns its kind."""
        name = declared.name
        if not type_.endswith("[]"):
            return self._single(name, name, type_, value)
        item_type = type_.removesuffix("[]")
        if not isinstance(value, (list, tuple)):
            raise self.error(f"its argument '{name}' is {_described(value)} in the place of a list")
        plain = {_number_kind(item, item_type.rstrip("?")) for item in value}
        kind = plain.pop() if len(plain) == 1 else None
        if kind in ("int", "float", "bool"):
            return self._numbers(name, kind, value)
        kinds = []
        for index, item in enumerate(value):
            absent = item is None and item_type.endswith("?")
            kinds.append("none" if absent else self._single(name, f"{name}.{index}", item_type.rstrip("?"), item))
        return _spelled(tuple(kinds))

    def _numbers(self, name: str, kind: str, values: Sequence[Any]) -> str:
        if kind == "float":
            self._store(_doubles(_stored_as(name), values))
        else:
            self._store(ir.AttrInt64s(_stored_as(name), [self._int64(name, value) for value in values]))
        return f"{kind}s"

    def _single(self, name: str, stored: str, type_: str, value: Any) -> str:
        stored = _stored_as(stored)
        if isinstance(value, Input):
            if (type_ == "Tensor") != (value.kind in ("tensor", "complex_tensor")):
                raise self.error(f"its argument '{name}' is of type {type_}, and is given a value of kind {value.kind}")
            self.inputs.append(value.value)
            return value.kind
        kind = _number_kind(value, type_)
        if kind == "float":
            self._store(_doubles(stored, float(value)))
        elif kind == "complex":
            self._store(_doubles(stored, [value.real, value.imag]))
        elif kind is not None:
            self._store(ir.AttrInt64(stored, self._int64(name, value)))
        elif type_ == "str" and isinstance(value, str):
            kind = "str"
            self._store(ir.AttrString(stored, value))
        else:
            kind, text = _setting(type_, value)
            if not kind:
                raise self.error(f"its argument '{name}' of type {type_} is {_described(value)}")
            self._store(ir.AttrString(stored, text))
        return kind

    def _store(self, attribute: ir.Attr) -> None:
        self.attributes.append(attribute)

    def _int64(self, name: str, value: int) -> int:
        if not -(2**63) <= value < 2**63:
            raise self.error(f"its argument '{name}' is {value}, which is no 64-bit integer")
        return int(value)


def _number_kind(value: Any, type_: str) -> str | None:
    """What kind of number a value is for an argument of a type; None for what is none, or does not fit."""
    if isinstance(value, bool):
        return {"bool": "bool", "SymBool": "bool", "Scalar": "bool", "int": "int", "SymInt": "int"}.get(type_)
    if isinstance(value, int):
        return {"int": "int", "SymInt": "int", "Scalar": "int", "float": "float", "SymFloat": "float"}.get(type_)
    if isinstance(value, float):
        return {"float": "float", "SymFloat": "float", "Scalar": "float"}.get(type_)
    return "complex" if isinstance(value, complex) and type_ == "Scalar" else None


def _setting(type_: str, value: Any) -> tuple[str, str]:
    """Kind and text of a dtype, layout, device or memory format; two empty texts for anything else."""
    for wanted, kind, class_ in (
        ("ScalarType", "dtype", torch.dtype),
        ("Layout", "layout", torch.layout),
        ("MemoryFormat", "memory_format", torch.memory_format),
        ("Device", "device", (torch.device, str)),
    ):
        if type_ == wanted and isinstance(value, class_):
            return kind, str(value).removeprefix("torch.")
    return "", ""


def _described(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _doubles(name: str, values: Any) -> ir.Attr:
    return ir.AttrTensor(name, ir.Tensor(np.asarray(values, dtype=np.float64)))


def _stored_as(name: str) -> str:
    return f"{name}_" if name in _RESERVED else name


def _spelled(kind: _Kinds) -> str:
    return kind if isinstance(kind, str) else f"[{','.join(map(_spelled, kind))}]"


def _onnx_type(value: Any, writer: _Writer) -> ir.DataType:
    if not isinstance(value, torch.Tensor):
        is_bool, is_int = isinstance(value, (bool, torch.SymBool)), isinstance(value, (int, torch.SymInt))
        return ir.DataType.BOOL if is_bool else ir.DataType.INT64 if is_int else ir.DataType.DOUBLE
    if value.layout != torch.strided or value.is_nested:
        kind = "nested" if value.is_nested else str(value.layout).removeprefix("torch.")
        raise writer.error(f"one of its results is a {kind} tensor, which ONNX cannot hold")
    try:
        return onnx_dtype(value.dtype.to_real() if value.is_complex() else value.dtype)
    except UsageError:
        raise writer.error(f"one of its results is of {value.dtype}, which ONNX does not have") from None


# -- reading ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AtenCall:
    """What a node calls.

    Attributes:
        operator: "aten::add.Tensor".
        arguments: By name, in the schema's order: `Input`s (also in lists), and Python values for the rest.
        results: The kind of each result; a tuple for a list.
        schema: The operator's schema where the node was written; "" in a node of the older form.
        torch_version: The torch that it was written with; "" in a node of the older form.
    """

    operator: str
    arguments: dict[str, Any]
    results: tuple[_Kinds, ...] = ()
    schema: str = ""
    torch_version: str = ""

    def target(self) -> torch._ops.OpOverload:
        """The operator in the torch at hand.

        Raises:
            ModelFileError: this torch does not have it, or has it with another schema.
        """
        found = torch_operators.operator_object(self.operator)
        written = f" with torch {self.torch_version}" if self.torch_version else ""
        if found is None:
            raise ModelFileError(
                f"A node of the model calls {self.operator}, which torch {torch.__version__} does not have; it was "
                f"written{written or ' elsewhere'}. Import the library that defines it, or install that torch."
            )
        if self.schema and self.schema != str(found._schema):
            raise ModelFileError(
                f"A node of the model was written{written} for {self.schema}, and torch {torch.__version__} has "
                f"{found._schema}. Export the model again, or install that torch."
            )
        return found

    def call(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Makes the call in Python: what a kernel has to do.

        Args:
            inputs: The node's inputs.

        Returns:
            The node's outputs.
        """
        target = self.target()
        if target._schema.is_mutable:
            inputs = [tensor.clone() for tensor in inputs]
        given = {name: _filled(value, inputs) for name, value in self.arguments.items()}
        result = target(**given)
        kinds = self.results[0] if len(self.results) == 1 else self.results
        return [_as_output(value) for value in leaves(_kept(result, kinds))]


def operators(model: ir.Model) -> tuple[str, ...]:
    """The operators that a model's nodes call, each once, as "aten::add.Tensor"."""
    found = {}
    graphs: list[Any] = [model.graph, *model.functions.values()]
    for graph in graphs:
        for node in graph.all_nodes():
            if (node.domain, node.op_type) == (DOMAIN, OP_TYPE) and "operator" in node.attributes:
                overload = node.attributes.get("overload_name")
                suffix = f".{overload.as_string()}" if overload is not None and overload.as_string() else ""
                name = node.attributes["operator"].as_string()
                found[f"{name if '::' in name else f'aten::{name}'}{suffix}"] = True
    return tuple(found)


def decode(node: ir.Node) -> AtenCall:
    """What a node calls.

    Args:
        node: An `ATen` node, of the form above or of that of older exporters.

    Raises:
        ModelFileError: the node is malformed, or of the older form and means no operator of this torch.
    """
    if (node.domain, node.op_type) != (DOMAIN, OP_TYPE):
        raise UsageError(f"{node.domain}::{node.op_type} is no aten node; those are {DOMAIN}::{OP_TYPE}.")
    try:
        return _decoded(node) if "arguments" in node.attributes else _decoded_older(node)
    except (KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
        raise _malformed(node, f"{type(error).__name__}: {error}") from error


def _malformed(node: ir.Node, reason: str) -> ModelFileError:
    called = node.attributes["operator"].as_string() if "operator" in node.attributes else "no operator"
    return ModelFileError(
        f"The node '{node.name}', which calls {called}, is malformed: {reason}. Export the model again."
    )


def _decoded(node: ir.Node) -> AtenCall:
    reader = _Reader(node)
    arguments = {}
    for token in reader.text("arguments").split():
        declared, _, kind = token.partition("=")
        name = declared.partition(":")[0]
        arguments[name] = reader.value(_stored_as(name), _parsed(kind))
    if reader.read != len(node.inputs):
        raise ValueError(f"{reader.read} of its {len(node.inputs)} inputs are arguments")
    results = tuple(_parsed(token.partition("=")[2]) for token in reader.text("results").split())
    overload = reader.text("overload_name")
    operator = reader.text("operator") + (f".{overload}" if overload else "")
    return AtenCall(operator, arguments, results, reader.text("schema"), reader.text("torch_version"))


def _parsed(kind: str) -> _Kinds:
    """A kind from its text; lists in lists do not occur."""
    if not kind.startswith("["):
        return kind
    if not kind.endswith("]"):
        raise ValueError(f"the list {kind} does not end")
    return tuple(kind[1:-1].split(",")) if kind != "[]" else ()


class _Reader:
    """Reads the values of a node; inputs are taken one after the other."""

    def __init__(self, node: ir.Node) -> None:
        self._node = node
        self.read = 0

    def text(self, name: str) -> str:
        return self._node.attributes[name].as_string()

    def value(self, name: str, kind: _Kinds) -> Any:
        if isinstance(kind, tuple):
            return [self.value(f"{name}.{index}", each) for index, each in enumerate(kind)]
        if kind in _INPUTS:
            self.read += 1
            if self.read > len(self._node.inputs):
                raise ValueError(f"there is no input for the argument '{name}'")
            return Input(kind, self.read - 1)
        if kind == "none":
            return None
        attribute = self._node.attributes[name]
        if kind in ("int", "bool"):
            return bool(attribute.as_int()) if kind == "bool" else attribute.as_int()
        if kind in ("ints", "bools"):
            return [bool(item) if kind == "bools" else item for item in attribute.as_ints()]
        if kind in ("float", "floats", "complex"):
            numbers = attribute.as_tensor().numpy().tolist()
            return complex(*numbers) if kind == "complex" else numbers
        text = attribute.as_string()
        if kind in ("dtype", "layout", "memory_format"):
            return getattr(torch, text)
        if kind not in ("device", "str"):
            raise ValueError(f"the argument '{name}' is of the unknown kind {kind}")
        return torch.device(text) if kind == "device" else text


def _filled(value: Any, inputs: Sequence[torch.Tensor]) -> Any:
    if isinstance(value, list):
        return [_filled(item, inputs) for item in value]
    if not isinstance(value, Input):
        return value
    tensor = inputs[value.value]
    if value.kind == "complex_tensor":
        return torch.view_as_complex(tensor.clone(memory_format=torch.contiguous_format))
    return tensor if value.kind == "tensor" else tensor.item()


def _kept(result: Any, kinds: _Kinds) -> Any:
    """A result without what has no output."""
    if kinds == "none":
        return None
    if isinstance(kinds, str) or not kinds:
        return result
    return [_kept(item, kind) for item, kind in zip(result, kinds, strict=True)]


def _as_output(value: Any) -> torch.Tensor:
    tensor = value if isinstance(value, torch.Tensor) else torch.tensor(value)
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


# -- the form of older exporters --------------------------------------------------------------------------------------


def _decoded_older(node: ir.Node) -> AtenCall:
    operator = node.attributes["operator"].as_string()
    operator = operator if "::" in operator else f"aten::{operator}"
    overload = node.attributes["overload_name"].as_string() if "overload_name" in node.attributes else ""
    # They often left the overload out. The one called Tensor takes numbers too, as tensors without dimensions; the
    # default one may be of TorchScript's own, for numbers alone.
    names = [f"{operator}.{overload}"] if overload else [operator, f"{operator}.Tensor"]
    found = [each for each in map(torch_operators.operator_object, names) if each is not None]
    target = next((each for each in found if "Tensor" in str(each._schema).partition(" -> ")[0]), None)
    if target is None:
        raise _malformed(node, f"torch {torch.__version__} has no operator {operator} with the overload '{overload}'")
    declared, _ = torch_operators.declared(target)
    arguments: dict[str, Any] = {}
    following = 0
    for each in declared:
        if each.name in node.attributes and each.name not in _RESERVED:
            arguments[each.name] = _from_attribute(each, node.attributes[each.name])
        elif following < len(node.inputs):
            arguments[each.name] = _from_input(each, node.inputs[following], following)
            following += 1
        elif each.has_default:
            arguments[each.name] = each.default
        else:
            raise ValueError(f"it has no value for the argument '{each.name}' of {target._schema}")
    if following < len(node.inputs):
        raise ValueError(f"it has more inputs than {target._schema} has arguments")
    arguments = {each.name: _set(each.type, arguments[each.name]) for each in declared}
    return AtenCall(torch_operators.operator_name(target) or operator, arguments)


def _from_input(declared: torch_operators.Declared, value: ir.Value | None, position: int) -> Any:
    type_ = declared.type.rstrip("?")
    if value is None:
        return None
    if type_ == "Tensor":
        return Input("tensor", position)
    if type_ == "Tensor[]" or type_ == "Tensor?[]":
        raise ValueError(f"the tensors of the argument '{declared.name}' cannot be told from its other inputs")
    constant = ir.convenience.get_const_tensor(value)
    if constant is not None:
        return constant.numpy().tolist()
    kinds = {"int": "input_int", "SymInt": "input_int", "float": "input_float", "bool": "input_bool"}
    if type_ not in kinds:
        raise ValueError(f"the argument '{declared.name}' of type {declared.type} is known only when the model runs")
    return Input(kinds[type_], position)


def _from_attribute(declared: torch_operators.Declared, attribute: ir.Attr) -> Any:
    value = attribute.value
    if isinstance(value, ir.TensorProtocol):
        value = value.numpy().tolist()
    return list(value) if isinstance(value, (list, tuple)) else value


def _set(type_: str, value: Any) -> Any:
    """A value of the older form as Python has it: truth values and settings were integers there."""
    if type(value) is int and type_.rstrip("?") == "bool":
        return bool(value)
    return torch_operators.setting(type_, value)
