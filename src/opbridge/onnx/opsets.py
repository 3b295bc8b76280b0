"""The standard operators' schemas, by opset, in the form that `builder` reads.

A translation may be written for another opset than the model's. Most operators mean the same in both. For the few
whose form changed, `_REVISIONS` says how a call in an older form is put in the model's; `downgrade` does the same for a
call in a newer form.
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
    from opbridge.onnx.tensor import NodeBuilder

__all__ = [
    "OLDEST",
    "WRITTEN_FOR",
    "Schema",
    "allows",
    "first_opset",
    "is_function",
    "native_schema",
    "opset_after_deprecation",
    "schema_for",
]

OLDEST = 9
"""The oldest opset that models are built for."""

WRITTEN_FOR = 18
"""The opset that our translations and torchlib's are written for; at older ones `downgrade` rewrites their calls."""

_Revision = Callable[["NodeBuilder", list[Any], dict[str, Any]], tuple[list[Any], dict[str, Any]]]


def _dft_20(builder: NodeBuilder, inputs: list[Any], attributes: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """DFT took its axis as an attribute before opset 20, with a default of 1, and takes it as an input since."""
    attributes = dict(attributes)
    axis = attributes.pop("axis", 1)
    signal, length = inputs
    return [signal, length, axis], attributes


def _grid_sample_20(
    builder: NodeBuilder, inputs: list[Any], attributes: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """GridSample's modes were renamed in opset 20."""
    renamed = {"bilinear": "linear", "bicubic": "cubic"}
    mode = attributes.get("mode", "bilinear")
    return inputs, {**attributes, "mode": renamed.get(mode, mode)}


def _group_normalization_21(
    builder: NodeBuilder, inputs: list[Any], attributes: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    raise TranslationError(
        "GroupNormalization changed its meaning in opset 21 (scale and bias for each channel, no longer for each "
        "group). Write the translation for opset 21, or export with opset_version=20."
    )


def _softmax_13(
    builder: NodeBuilder, inputs: list[Any], attributes: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Before opset 13 the softmax family took all axes from `axis` on (1 by default) as one; since, `axis` alone."""
    axis = int(attributes.get("axis", 1))
    rank = inputs[0].rank
    if axis != -1 and (rank is None or axis != rank - 1):
        raise TranslationError(
            "Since opset 13 Softmax, LogSoftmax and Hardmax work along one axis; before, over all axes from "
            f"axis={axis} on. Write the translation for opset 13, or flatten these axes in it."
        )
    return inputs, {**attributes, "axis": -1}


def _pad_11(builder: NodeBuilder, inputs: list[Any], attributes: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Pad's amounts and value became inputs in opset 11."""
    attributes = dict(attributes)
    return [*inputs, list(attributes.pop("pads")), attributes.pop("value", None)], attributes


def _top_k_10(builder: NodeBuilder, inputs: list[Any], attributes: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """TopK's k became an input in opset 10."""
    attributes = dict(attributes)
    return [*inputs, [int(attributes.pop("k"))]], attributes


def _roi_align_16(
    builder: NodeBuilder, inputs: list[Any], attributes: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """RoiAlign was given its better coordinates in opset 16, as the default."""
    return inputs, {**attributes, "coordinate_transformation_mode": "output_half_pixel"}


_REVISIONS: dict[tuple[str, int], _Revision] = {
    ("DFT", 20): _dft_20,
    ("GridSample", 20): _grid_sample_20,
    ("GroupNormalization", 21): _group_normalization_21,
    ("Hardmax", 13): _softmax_13,
    ("LogSoftmax", 13): _softmax_13,
    ("Pad", 11): _pad_11,
    ("RoiAlign", 16): _roi_align_16,
    ("Softmax", 13): _softmax_13,
    ("TopK", 10): _top_k_10,
}


@dataclass(frozen=True)
class Schema:
    """One operator at one opset.

    Attributes:
        name: The operator's name.
        inputs: Its inputs; only the last may be variadic.
        attributes: Its attributes by name, with their defaults.
        outputs: Its outputs.
        since: The opset that this form came with. Where it is newer than the model's, `downgrade` builds the call.
        older: The form that calls are written in, where it differs from this one.
        revise: Puts a call in the older form in this one; None where nothing changed.
    """

    name: str
    inputs: tuple[schemas.Parameter, ...]
    attributes: Mapping[str, schemas.AttributeParameter]
    outputs: tuple[schemas.Parameter, ...]
    since: int
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
                raise TranslationError(f"{self.name} requires the input '{parameter.name}'.")
            else:
                inputs.append(None)
        attributes: dict[str, Any] = {}
        for name in self.attributes:
            if rest:
                attributes[name] = rest.pop(0)
        attributes.update(kwargs)
        if rest:
            raise TranslationError(f"{self.name} got {len(rest)} unexpected positional arguments.")
        return inputs, {name: value for name, value in attributes.items() if self._is_given(name, value)}

    def _is_given(self, name: str, value: Any) -> bool:
        if value is None:
            return False
        parameter = self.attributes.get(name)
        if parameter is None:
            raise TranslationError(
                f"{self.name} got the unknown attribute '{name}'; its attributes are {', '.join(self.attributes)}."
            )
        return parameter.default is None or parameter.default.value != value

    def output_dtypes(
        self, types: Mapping[str, ir.DataType], attributes: Mapping[str, Any], inputs: Sequence[Any] = ()
    ) -> list[ir.DataType | ir.TypeProtocol | None]:
        """The outputs' types, as far as the schema tells: by type variable, or by the attribute that names it."""
        body = _BODIES.get(self.name)
        if body is not None:
            attribute, first = body
            return [output.dtype for output in attributes[attribute].outputs[first:]]
        special = _dtype_by_attribute(self.name, attributes)
        count = len(self.outputs)
        if self.name == "Split":
            return [types.get("T")] * _split_count(attributes, inputs)
        if self.name == "BatchNormalization" and not attributes.get("training_mode"):
            count = 1
        if special is not None:
            return [special] * count
        return [types.get(output.type_constraint.name) or _single(output) for output in self.outputs[:count]]


# Operators that give what a graph of theirs gives: the attribute that holds it, and its first output that counts.
_BODIES = {"If": ("then_branch", 0), "Loop": ("body", 1), "Scan": ("body", 0)}


def _split_count(attributes: Mapping[str, Any], inputs: Sequence[Any]) -> int:
    if "num_outputs" in attributes:
        return int(attributes["num_outputs"])
    if "split" in attributes:
        return len(attributes["split"])
    lengths = inputs[1] if len(inputs) > 1 else None
    if lengths is None or lengths.shape is None or not isinstance(lengths.shape[0], int):
        raise TranslationError("Split requires the number of its outputs: num_outputs=, or a list of lengths.")
    return lengths.shape[0]


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
def native_schema(op_type: str, opset: int) -> Schema | None:
    """A standard operator as it is at an opset; None where it is no part of it: not yet, or no longer."""
    try:
        schema = onnx.defs.get_schema(op_type, opset, "")
        return None if schema.deprecated else _as_schema(schema)
    except onnx.defs.SchemaError:
        return None
    except (TypeError, ValueError):  # no number of an opset; a form of opset 1 that onnx_ir does not take
        return None


@functools.cache
def opset_after_deprecation(op_type: str, opset: int) -> int | None:
    """The opset at which a standard operator that is deprecated at an opset has a form again; None: it is not, or none.

    GroupNormalization of opsets 18 to 20 is deprecated, and has another form since opset 21.
    """
    try:
        deprecated = onnx.defs.get_schema(op_type, opset, "").deprecated
    except (onnx.defs.SchemaError, TypeError, ValueError):  # no such operator, or no number of an opset
        return None
    later = onnx.defs.get_schema(op_type, "")
    return later.since_version if deprecated and not later.deprecated else None


@functools.cache
def schema_for(op_type: str, opset: int, *, written_for: int) -> Schema:
    """The schema of a standard operator at an opset, for a call written for `written_for`.

    Where the operator came after the opset, or was changed after it, and the call is of the later form, the schema is
    of that form, and its `since` tells.

    Raises:
        TranslationError: the operator is not part of the opset, or came after it in another form, and calls of that
            form are not rewritten.
    """
    native = native_schema(op_type, opset)
    first = first_opset(op_type)
    if first is None:
        raise TranslationError(f"ONNX has no operator {op_type}.")
    written = native if written_for == opset else native_schema(op_type, written_for)
    if native is None and (first <= opset or written is None or written.since > WRITTEN_FOR):
        if first > opset:
            raise TranslationError(
                f"{op_type} was added to ONNX in opset {first}, but the model is built for opset {opset}. Export "
                f"with opset_version={first} or newer."
            )
        raise TranslationError(f"{op_type} was removed from ONNX before opset {opset}.")
    if written is None:
        raise TranslationError(
            f"{op_type} is not an operator of opset {written_for}, for which the translation is written."
        )
    if native is None or written.since > native.since:
        if written.since > WRITTEN_FOR:
            raise TranslationError(
                f"The translation uses the version of {op_type} of opset {written.since}, but the model is built "
                f"for opset {opset}. Export with opset_version={written.since} or newer."
            )
        return written
    for (name, version), revise in _REVISIONS.items():
        if name == op_type and written.since < version <= native.since:
            return dataclasses.replace(native, older=written, revise=revise)
    return native


def _as_schema(schema: onnx.defs.OpSchema) -> Schema:
    signature = schemas.OpSignature.from_op_schema(schema)
    return Schema(
        signature.name,
        tuple(signature.inputs),
        {attribute.name: attribute for attribute in signature.attributes},
        tuple(signature.outputs),
        schema.since_version,
    )


def allows(op_type: str, opset: int, types: Mapping[str, str]) -> bool:
    """Whether an operator of an opset may have these types: type variable -> type, as in "tensor(float)"."""
    permitted = _permitted(op_type, opset)
    return all(type_ in permitted.get(variable, (type_,)) for variable, type_ in types.items())


@functools.cache
def is_function(op_type: str, opset: int) -> bool:
    """Whether ONNX defines an operator by other operators too."""
    schema = onnx.defs.get_schema(op_type, opset, "")
    return bool(schema.has_function or schema.has_context_dependent_function)


@functools.cache
def _permitted(op_type: str, opset: int) -> Mapping[str, frozenset[str]]:
    constraints = onnx.defs.get_schema(op_type, opset, "").type_constraints
    return {constraint.type_param_str: frozenset(constraint.allowed_type_strs) for constraint in constraints}


@functools.cache
def first_opset(op_type: str) -> int | None:
    """The opset that an operator came with; None where there is no such operator."""
    return _first_opsets().get(op_type)


@functools.cache
def _first_opsets() -> Mapping[str, int]:
    first: dict[str, int] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            first[schema.name] = min(schema.since_version, first.get(schema.name, schema.since_version))
    return first
