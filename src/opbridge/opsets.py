"""The standard operators' schemas, by opset, in the form that `builder` reads.

A translation may be written for an older opset than the model's. Most operators mean the same in both; for the few
whose form changed, `_REVISIONS` says how a call in the old form is put in the new one.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import onnx
import onnx_ir as ir
from onnx_ir import schemas

from opbridge.errors import TranslationError

if TYPE_CHECKING:
    from opbridge.builder import Builder

__all__ = ["OLDEST", "Schema", "schema_for"]

OLDEST = 18
"""The oldest opset that models are built for: torchlib's translations are written for it."""

_Revision = Callable[["Builder", list[Any], dict[str, Any]], tuple[list[Any], dict[str, Any]]]


def _dft_20(builder: Builder, inputs: list[Any], attributes: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """DFT took its axis as an attribute before opset 20, with a default of 1, and takes it as an input since."""
    attributes = dict(attributes)
    axis = attributes.pop("axis", 1)
    signal, length = inputs
    return [signal, length, axis], attributes


def _grid_sample_20(
    builder: Builder, inputs: list[Any], attributes: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """GridSample's modes were renamed in opset 20."""
    renamed = {"bilinear": "linear", "bicubic": "cubic"}
    mode = attributes.get("mode", "bilinear")
    return inputs, {**attributes, "mode": renamed.get(mode, mode)}


def _group_normalization_21(
    builder: Builder, inputs: list[Any], attributes: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    raise TranslationError(
        "GroupNormalization changed its meaning in opset 21 (scale and bias for each channel, no longer for each "
        "group). Write the translation for opset 21, or export with opset_version=20."
    )


_REVISIONS: dict[tuple[str, int], _Revision] = {
    ("DFT", 20): _dft_20,
    ("GridSample", 20): _grid_sample_20,
    ("GroupNormalization", 21): _group_normalization_21,
}


@dataclass(frozen=True)
class Schema:
    """One operator at one opset.

    Attributes:
        name: The operator's name.
        inputs: Its inputs; only the last may be variadic.
        attributes: Its attributes by name, with their defaults.
        outputs: Its outputs.
        older: The form that calls are written in, where it differs from this one.
        revise: Puts a call in the older form in this one; None where nothing changed.
    """

    name: str
    inputs: tuple[schemas.Parameter, ...]
    attributes: Mapping[str, schemas.AttributeParameter]
    outputs: tuple[schemas.Parameter, ...]
    older: Schema | None = None
    revise: _Revision | None = None

    def _input(self, position: int) -> schemas.Parameter:
        return self.inputs[min(position, len(self.inputs) - 1)]

    def type_variable(self, position: int) -> str:
        """The type variable of an input; inputs of one variable have one type."""
        parameter = self._input(position)
        if parameter.variadic and not parameter.homogeneous:
            return f"{parameter.type_constraint.name}#{position}"
        return parameter.type_constraint.name

    def homogeneous(self, position: int) -> bool:
        """Whether the inputs that share this one's type variable must have one type."""
        return self._input(position).homogeneous

    def only_dtype(self, position: int) -> ir.DataType | None:
        """The type of an input that can have only one."""
        return _single(self._input(position))

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The inputs in order and the attributes by name that a call gives; attributes at their default are left out.

        Raises:
            TranslationError: an argument that the operator does not have, or a needed one left out.
        """
        kwargs = dict(kwargs)
        inputs: list[Any] = []
        rest = list(args)
        for parameter in self.inputs:
            if parameter.variadic:
                inputs.extend(rest)
                rest = []
            elif rest:
                inputs.append(rest.pop(0))
            elif parameter.name in kwargs:
                inputs.append(kwargs.pop(parameter.name))
            elif parameter.required:
                raise TranslationError(f"{self.name} needs its input '{parameter.name}'.")
            else:
                inputs.append(None)
        attributes: dict[str, Any] = {}
        for name in self.attributes:
            if rest:
                attributes[name] = rest.pop(0)
        attributes.update(kwargs)
        if rest:
            raise TranslationError(f"{self.name} was given {len(rest)} arguments too many.")
        return inputs, {name: value for name, value in attributes.items() if self._is_given(name, value)}

    def _is_given(self, name: str, value: Any) -> bool:
        if value is None:
            return False
        parameter = self.attributes.get(name)
        if parameter is None:
            raise TranslationError(f"{self.name} has no attribute '{name}' (it has {', '.join(self.attributes)}).")
        return parameter.default is None or parameter.default.value != value

    def output_dtypes(
        self, types: Mapping[str, ir.DataType], attributes: Mapping[str, Any]
    ) -> list[ir.DataType | ir.TypeProtocol | None]:
        """The outputs' types, as far as the schema tells: by type variable, or by the attribute that names it."""
        body = _BODIES.get(self.name)
        if body is not None:
            attribute, first = body
            return [output.dtype for output in attributes[attribute].outputs[first:]]
        special = _dtype_by_attribute(self.name, attributes)
        count = len(self.outputs)
        if self.name == "Split":
            count = int(attributes["num_outputs"]) if "num_outputs" in attributes else _split_count(attributes)
            return [types.get("T")] * count
        if self.name == "BatchNormalization" and not attributes.get("training_mode"):
            count = 1
        if special is not None:
            return [special] * count
        return [types.get(output.type_constraint.name) or _single(output) for output in self.outputs[:count]]


# Operators that give what a graph of theirs gives: the attribute that holds it, and its first output that counts.
_BODIES = {"If": ("then_branch", 0), "Loop": ("body", 1), "Scan": ("body", 0)}


def _split_count(attributes: Mapping[str, Any]) -> int:
    raise TranslationError("Split needs num_outputs=, the number of its outputs.")


def _dtype_by_attribute(name: str, attributes: Mapping[str, Any]) -> ir.DataType | None:
    if name == "Cast":
        return ir.DataType(int(attributes["to"]))
    if name in ("Constant", "ConstantOfShape"):
        value = attributes.get("value")
        if value is None:
            return ir.DataType.FLOAT
        tensor = value.value if isinstance(value, ir.Attr) else value
        return ir.tensor(tensor).dtype
    dtype = attributes.get("dtype")
    if dtype is not None:
        return ir.DataType(int(dtype))
    if name in ("RandomNormal", "RandomUniform"):
        return ir.DataType.FLOAT
    return None


def _single(parameter: schemas.Parameter) -> ir.DataType | None:
    types = parameter.type_constraint.allowed_types
    if len(types) != 1:
        return None
    (only,) = types
    return only.dtype if isinstance(only, ir.TensorType) else None


@functools.cache
def _read(op_type: str, opset: int) -> tuple[schemas.OpSignature, int]:
    schema = onnx.defs.get_schema(op_type, opset, "")
    if schema.deprecated:
        raise TranslationError(f"{op_type} no longer exists in opset {opset}.")
    return schemas.OpSignature.from_op_schema(schema), schema.since_version


@functools.cache
def schema_for(op_type: str, opset: int, *, written_for: int) -> Schema:
    """The schema of a standard operator at an opset, for a call written for `written_for`.

    Raises:
        TranslationError: the operator is not part of the opset, or came after it in another form.
    """
    try:
        signature, since = _read(op_type, opset)
    except onnx.defs.SchemaError as error:
        first = _first(op_type)
        if first is None:
            raise TranslationError(f"ONNX has no operator {op_type}.") from error
        raise TranslationError(
            f"{op_type} is part of ONNX since opset {first}, and the model is built for opset {opset}. "
            f"Export with opset_version={first} or newer."
        ) from error
    written_since = since
    if written_for != opset:
        written_since = onnx.defs.get_schema(op_type, written_for, "").since_version
    if written_since > since:
        raise TranslationError(
            f"The translation uses {op_type} in its form of opset {written_since}, and the model is built for opset "
            f"{opset}. Export with opset_version={written_since} or newer."
        )
    for (name, version), revise in _REVISIONS.items():
        if name == op_type and written_since < version <= since:
            older = schema_for(op_type, written_for, written_for=written_for)
            return dataclasses.replace(_as_schema(signature), older=older, revise=revise)
    return _as_schema(signature)


def _as_schema(signature: schemas.OpSignature) -> Schema:
    return Schema(
        signature.name,
        tuple(signature.inputs),
        {attribute.name: attribute for attribute in signature.attributes},
        tuple(signature.outputs),
    )


@functools.cache
def _first(op_type: str) -> int | None:
    """The opset that an operator came with."""
    schemas_ = onnx.defs.get_all_schemas_with_history()
    return min((each.since_version for each in schemas_ if each.name == op_type and each.domain == ""), default=None)
