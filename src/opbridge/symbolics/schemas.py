"""Rules of ONNX's own operators at an opset, by which the nodes of a symbolic function are checked and typed."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import onnx
import onnx_ir as ir

from opbridge.errors import TranslationError

__all__ = ["Rules", "check_call"]

_Type = onnx.defs.OpSchema.AttrType

# The kinds of attributes by their suffixes in `g.op`; a list's has an s appended.
_KINDS = {
    "i": (_Type.INT, "an integer"),
    "f": (_Type.FLOAT, "a float"),
    "s": (_Type.STRING, "a string"),
    "t": (_Type.TENSOR, "a tensor"),
    "z": (_Type.TENSOR, "a tensor"),
    "g": (_Type.GRAPH, "a graph"),
    "is": (_Type.INTS, "a list of integers"),
    "fs": (_Type.FLOATS, "a list of floats"),
    "ss": (_Type.STRINGS, "a list of strings"),
    "ts": (_Type.TENSORS, "a list of tensors"),
    "gs": (_Type.GRAPHS, "a list of graphs"),
}
_WORDS = dict(_KINDS.values())
_BODIES = frozenset({"then_branch", "else_branch", "body"})


@dataclass(frozen=True)
class Rules:
    """The checked properties of one operator at one opset. (Reading them from onnx's schema each time is far slower.)

    Attributes:
        name: The operator.
        inputs: The name, type variable and homogeneity of each input; the last may stand for several.
        counts: The minimum and maximum number of inputs.
        attributes: The type of each attribute, and whether it is required.
        outputs: The type variable of each output; the last may stand for several.
        only: The type of each type variable that allows a single one, and of each type that is no variable.
    """

    name: str
    inputs: tuple[tuple[str, str, bool], ...]
    counts: tuple[int, int]
    attributes: Mapping[str, tuple[Any, bool]]
    outputs: tuple[str, ...]
    only: Mapping[str, ir.DataType]

    def input(self, position: int) -> tuple[str, str, bool]:
        """The name, type variable and homogeneity of an input."""
        return self.inputs[min(position, len(self.inputs) - 1)]

    def output(self, position: int) -> str:
        """The type variable of an output."""
        return self.outputs[min(position, len(self.outputs) - 1)]


def check_call(name: str, opset: int, inputs: int, attributes: Mapping[str, str]) -> Rules:
    """Checks a call of an operator, and returns the operator's rules at the opset.

    Args:
        name: The operator.
        opset: The model's opset.
        inputs: The number of its inputs.
        attributes: The kinds of its attributes, by name.

    Raises:
        TranslationError: There is no such operator, or its inputs or attributes are others.
    """
    rules = _rules(name, opset)
    for key, kind in attributes.items():
        if key not in rules.attributes:
            shown = ", ".join(rules.attributes) or "none"
            raise TranslationError(
                f"It built {name} with the attribute '{key}', which does not exist at opset {opset} (its "
                f"attributes: {shown}). Correct the name, or pass it as an input if newer opsets do."
            )
        wanted, _ = rules.attributes[key]
        if _KINDS[kind][0] != wanted and name != "Constant":  # torch allows a value of any kind
            word = _WORDS.get(wanted, str(wanted))
            letter = next((each for each, (type_, _) in _KINDS.items() if type_ == wanted), "")
            hint = f" Write {key}_{letter[0]}= with {word}." if letter else ""
            raise TranslationError(f"It built {name} with {_KINDS[kind][1]} as '{key}', which is {word}.{hint}")
    least, most = rules.counts
    if not least <= inputs <= most:
        takes = str(least) if least == most else f"{least} to {most}"
        names = ", ".join(each for each, _, _ in rules.inputs)
        given = f"{inputs} input{'s' * (inputs != 1)}"
        raise TranslationError(f"It built {name} with {given}, but at opset {opset} it has {takes} ({names}).")
    for key, (_, required) in rules.attributes.items():
        if required and key not in attributes and key not in _BODIES:
            raise TranslationError(
                f"It built {name} without the attribute '{key}', which is required at opset {opset}."
            )
    return rules


@functools.cache
def _rules(name: str, opset: int) -> Rules:
    versions = _schemas().get(name, [])
    fitting = [schema for schema in versions if schema.since_version <= opset]
    if not fitting or fitting[-1].deprecated:
        raise TranslationError(_unknown(name, opset, versions))
    schema = fitting[-1]
    only = {
        constraint.type_param_str: _dtype(constraint.allowed_type_strs[0])
        for constraint in schema.type_constraints
        if len(constraint.allowed_type_strs) == 1 and constraint.allowed_type_strs[0].startswith("tensor(")
    }
    concrete = {
        formal.type_str for formal in (*schema.inputs, *schema.outputs) if formal.type_str.startswith("tensor(")
    }
    return Rules(
        name,
        tuple((formal.name, formal.type_str, formal.is_homogeneous) for formal in schema.inputs),
        (schema.min_input, schema.max_input),
        {key: (attribute.type, attribute.required) for key, attribute in schema.attributes.items()},
        tuple(formal.type_str for formal in schema.outputs),
        only | {each: _dtype(each) for each in concrete},
    )


def _dtype(text: str) -> ir.DataType:
    return ir.DataType[text.removeprefix("tensor(").removesuffix(")").upper()]


def _unknown(name: str, opset: int, versions: list[onnx.defs.OpSchema]) -> str:
    later = [schema.since_version for schema in versions if schema.since_version > opset and not schema.deprecated]
    if later:
        return (
            f"It built the operator {name}, which was added to ONNX in opset {later[0]}, but the model has opset "
            f"{opset}. Export with opset_version={later[0]} or newer, or register another symbolic function for "
            f"opset {opset}."
        )
    known = "dropped" if versions else "does not have"
    return (
        f"It built the operator {name}, which ONNX {known} (the model has opset {opset}). Use another operator, or "
        "your own domain, as 'domain::Name'."
    )


@functools.cache
def _schemas() -> dict[str, list[onnx.defs.OpSchema]]:
    """Every version of every standard operator, the oldest first."""
    found: dict[str, list[onnx.defs.OpSchema]] = {}
    for schema in sorted(onnx.defs.get_all_schemas_with_history(), key=lambda schema: schema.since_version):
        if schema.domain == "":
            found.setdefault(schema.name, []).append(schema)
    return found
