"""A model at an opset and a version of the file format that its targets take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from opbridge.base.wording import counted
from opbridge.conversion.converting import converted, converted_in_place
from opbridge.errors import ConversionError, OpbridgeError
from opbridge.rules.findings import Finding
from opbridge.rules.lint import look
from opbridge.rules.looking import Looked
from opbridge.targets import Target

__all__ = ["RULE", "Versions", "to_versions"]

RULE = "opset-range"
"""The rule whose findings are repaired here."""

_NEWER_TYPES = {
    **dict.fromkeys(("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ"), 9),
    **dict.fromkeys(("INT4", "UINT4"), 10),
    "FLOAT4E2M1": 11,
}
"""The versions of the format that types came with."""

_OF_FUNCTIONS, _OF_INITIALIZERS = 8, 4

_MOST_NAMED = 3
"""So many nodes that cannot be converted are named."""


@dataclass(frozen=True)
class Versions:
    """A model at an opset and a version of the format that its targets take, as far as it can be.

    Attributes:
        model: The model; another one than was given where it was converted.
        done: What was done for which finding.
        why: Why the model was not converted, as sentences; "": it was, or need not be.
    """

    model: ir.Model
    done: Sequence[tuple[Finding, str]] = ()
    why: str = ""


def to_versions(
    looked: Looked, original: str | bytes | None, label: str, targets: Sequence[Target], chosen: frozenset[str]
) -> Versions:
    """Puts a model at an opset and a version of the format that all targets take, where it can be.

    Args:
        looked: The model.
        original: Its file, or the content of it; None: it is converted in place, and is not to be used where that
            fails.
        label: Its name in messages.
        targets: The targets.
        chosen: The rules whose findings are repaired.
    """
    model = looked.model
    found = [finding for finding, _ in look(looked, targets, chosen & {RULE})] if RULE in chosen else []
    if not found:
        return Versions(model)
    done: list[str] = []
    opset = looked.opset
    wanted = opset
    for target in targets:
        if target.opsets is not None:
            wanted = min(max(wanted, target.opsets.oldest), target.opsets.newest)
    if wanted != opset:
        if model.meta:
            return Versions(model, (), "Several values have the same name.")
        try:
            if original is None:
                converted_in_place(model, label, wanted)
            else:
                model = converted(original, label, wanted, isolated=True).model
        except OpbridgeError as error:
            return Versions(looked.model, (), _why(error, wanted))
        done.append(f"converted the model from opset {opset} to {wanted}")
    limits = [each.opsets.ir_version for each in targets if each.opsets is not None]
    known = [each for each in limits if each is not None]
    if known and model.ir_version is not None and model.ir_version > min(known) >= _least(model):
        done.append(f"changed the IR version from {model.ir_version} to {min(known)}")
        model.ir_version = min(known)
    return Versions(model, [(found[0], " and ".join(done))] if done else [])


def _why(error: OpbridgeError, opset: int) -> str:
    """What keeps a model from being converted: the first nodes, or the error."""
    refusals = error.refusals if isinstance(error, ConversionError) else []
    if not refusals:
        return str(error)
    further = f" and {counted(len(refusals) - _MOST_NAMED, 'further node')}" if len(refusals) > _MOST_NAMED else ""
    nodes = " ".join(each.line() for each in refusals[:_MOST_NAMED])
    return f"At opset {opset}: {nodes}{further}"


def _least(model: ir.Model) -> int:
    """The oldest version of the format that has what is in a model."""
    types = {each.dtype.name for each in model.graph.initializers.values() if each.dtype is not None}
    for node in model.graph.all_nodes():
        types.update(each.dtype.name for each in node.outputs if each.dtype is not None)
    found = max((_NEWER_TYPES.get(each, _OF_INITIALIZERS) for each in types), default=_OF_INITIALIZERS)
    return max(found, _OF_FUNCTIONS) if model.functions else found
