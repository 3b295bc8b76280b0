"""A model at an opset and a version of the file format that its targets take."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from opbridge.conversion.converting import converted
from opbridge.errors import OpbridgeError
from opbridge.rules.findings import Finding
from opbridge.rules.lint import look
from opbridge.rules.looking import Looked
from opbridge.targets import Target

__all__ = ["RULE", "to_versions"]

RULE = "opset-range"
"""The rule whose findings are repaired here."""

_NEWER_TYPES = {
    **dict.fromkeys(("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ"), 9),
    **dict.fromkeys(("INT4", "UINT4"), 10),
    "FLOAT4E2M1": 11,
}
"""The versions of the format that types came with."""

_OF_FUNCTIONS, _OF_INITIALIZERS = 8, 4


def to_versions(
    looked: Looked, original: str | bytes, label: str, targets: Sequence[Target], chosen: frozenset[str]
) -> tuple[ir.Model, list[tuple[Finding, str]]]:
    """Puts a model at an opset and a version of the format that all targets take, where it can be.

    Args:
        looked: The model.
        original: Its file, or the content of it.
        label: Its name in messages.
        targets: The targets.
        chosen: The rules whose findings are repaired.

    Returns:
        The model, another one where it was converted, and what was done for which finding.
    """
    model = looked.model
    found = [finding for finding, _ in look(looked, targets, chosen & {RULE})] if RULE in chosen else []
    if not found:
        return model, []
    done: list[str] = []
    opset = looked.opset
    wanted = opset
    for target in targets:
        if target.opsets is not None:
            wanted = min(max(wanted, target.opsets.oldest), target.opsets.newest)
    if wanted != opset and not model.meta:  # a model with clashing names is repaired first
        try:
            model = converted(original, label, wanted, isolated=True).model
        except OpbridgeError:  # it says so where it is asked to convert
            return model, []
        done.append(f"converted the model from opset {opset} to {wanted}")
    limits = [each.opsets.ir_version for each in targets if each.opsets is not None]
    known = [each for each in limits if each is not None]
    if known and model.ir_version is not None and model.ir_version > min(known) >= _least(model):
        done.append(f"changed the IR version from {model.ir_version} to {min(known)}")
        model.ir_version = min(known)
    return model, [(found[0], " and ".join(done))] if done else []


def _least(model: ir.Model) -> int:
    """The oldest version of the format that has what is in a model."""
    types = {each.dtype.name for each in model.graph.initializers.values() if each.dtype is not None}
    for node in model.graph.all_nodes():
        types.update(each.dtype.name for each in node.outputs if each.dtype is not None)
    found = max((_NEWER_TYPES.get(each, _OF_INITIALIZERS) for each in types), default=_OF_INITIALIZERS)
    return max(found, _OF_FUNCTIONS) if model.functions else found
