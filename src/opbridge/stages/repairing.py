"""Repairs of a model for its target, and what the target does not take nevertheless."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from opbridge.base.wording import counted
from opbridge.program import Program

if TYPE_CHECKING:
    import onnx_ir as ir

    from opbridge.fixing import Change, Key
    from opbridge.targets import Target as Limits

__all__ = ["counted_findings", "is_taken", "repair", "repair_in_place"]


def repair(program: Program, limits: Limits, label: str) -> None:
    """Repairs what the target does not take of the program, and notes what stays.

    Args:
        program: The program.
        limits: What the target does not take.
        label: What the model is called in messages.
    """
    from opbridge.fixing import repaired_copy
    from opbridge.rules import Findings

    made = repaired_copy(program.model, [limits])
    program.model, program.repairs = made.model, made.changes
    program.findings = Findings(label, [limits], made.left)


def repair_in_place(
    program: Program, model: ir.Model, limits: Limits, label: str, undone: dict[Key, str]
) -> Sequence[Change] | None:
    """Repairs what the target does not take of a model, notes in the program what stays, and returns what was done.

    What was cast knows the values of this model, so that no copy of it will do. After a repair that failed, which is
    added to those that are left undone, it returns None, and the model is not to be used.
    """
    from opbridge.fixing import Broken, note_broken, repaired
    from opbridge.rules import Findings

    try:
        changes, left = repaired(model, [limits], undone=undone)
    except Broken as broken:
        note_broken(broken, undone)
        return None
    program.findings = Findings(label, [limits], left)
    return changes


def counted_findings(program: Program) -> str:
    """How many repairs were made, and what stays."""
    assert program.findings is not None
    made = f"{counted(len(program.repairs), 'repair')}; " if program.repairs else ""
    return made + program.findings.counted()


def is_taken(program: Program) -> bool:
    """Whether the target takes the program."""
    return program.findings is None or program.findings.ok
