"""Repairs a model for targets, and proves that its results are as they were."""

from __future__ import annotations

import difflib
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx_ir as ir

from opbridge.errors import FixError, UsageError
from opbridge.fixing.evaluator import compare_with_evaluator
from opbridge.fixing.repairing import Change, repaired
from opbridge.fixing.versions import to_versions
from opbridge.onnx import damage, reading, serialize
from opbridge.rules.findings import Findings
from opbridge.rules.lint import check_patterns, chosen_rules, look
from opbridge.rules.looking import Looked
from opbridge.runtimes.onnxruntime.model_file import checked_model
from opbridge.save import writer
from opbridge.side_by_side import SideBySide, compare, is_random
from opbridge.targets import find_target

__all__ = ["Fixed", "difference", "fix"]


@dataclass(frozen=True)
class Fixed:
    """A model that was repaired.

    Attributes:
        model: The new model.
        changes: What was done.
        left: What was found in it afterwards.
        comparison: What it and the original gave on the same inputs; None where nothing was changed.
        path: Where it was written; "": nowhere.
    """

    model: ir.Model
    changes: Sequence[Change]
    left: Findings
    comparison: SideBySide | None
    path: str = ""

    def summary(self) -> str:
        """What was done, in one paragraph."""
        if not self.changes:
            return "Nothing to repair."
        found = self.comparison
        assert found is not None
        counts = Counter(each.finding.rule for each in self.changes)
        said = ", ".join(f"{rule} {count}" for rule, count in counts.items())
        return f"Repaired {said}. {found.summary()}"

    def document(self) -> dict[str, Any]:
        """The result as plain data."""
        found = self.comparison
        return {
            "ok": self.left.ok,
            "path": self.path,
            "changes": [{"done": each.done, **each.finding.document()} for each in self.changes],
            "runs": 0 if found is None else len(found.runs),
            "largest_difference": None if found is None else found.largest,
            "left": self.left.document(),
        }


def fix(
    model: str | os.PathLike[str] | bytes,
    target: str | Sequence[str] = (),
    output: str | os.PathLike[str] | None = None,
    *,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
) -> Fixed:
    """Repairs what lint finds in a model, where there is a repair, and compares it with the original.

    Args:
        model: The path of an ONNX file, or its content.
        target: As for `opbridge.lint`.
        output: Where to write it, also where there is nothing to repair; None: nowhere. Nothing is written where the
            results would change, or where they cannot be compared.
        select: The rules whose findings are repaired, or patterns of them; none: all.
        ignore: The rules whose findings are left.

    Raises:
        ModelFileError: The file cannot be read.
        UsageError: There is no such target or rule.
        FixError: The new model gives something else, or the two cannot be compared.
        SaveError: The file cannot be written.
    """
    targets = [find_target(each) for each in ([target] if isinstance(target, str) else target)]
    check_patterns(targets)
    chosen = chosen_rules(select, ignore)
    checked, label = checked_model(model)
    if output is not None and isinstance(checked, str) and os.path.exists(output) and os.path.samefile(checked, output):
        raise UsageError(f"{output} is the model itself. Name another file with -o (output=).")
    changed = reading.load_with_clashes(checked)
    if any(True for _ in look(Looked(changed), (), frozenset({"unreadable-weight"}))):
        damage.refuse(changed, label)
    changed, fitted = to_versions(changed, checked, label, targets, chosen)
    changes, found_left = repaired(changed, targets, chosen, asked=select)
    changes = [*(Change(finding, said) for finding, said in fitted), *changes]
    left = Findings(label, targets, found_left)
    if not changes:
        if output is not None:
            writer.save(changed, output)
        return Fixed(changed, (), left, None, "" if output is None else os.fspath(output))
    if output is None:
        found = _proof(label, checked, serialize.to_bytes(changed), changed)
        return Fixed(changed, changes, left, found)
    with writer.staged(changed, output) as files:
        found = _proof(label, checked, files.path, changed)
        files.commit()
    return Fixed(changed, changes, left, found, os.fspath(output))


def _proof(label: str, original: str | bytes, new: str | Path | bytes, model: ir.Model) -> SideBySide:
    """What both models give.

    Raises:
        FixError: They were not shown to give the same.
    """
    found = compare(original, new, random=is_random(model))
    if not found.runs and not found.failed:
        found = compare_with_evaluator(original, new) or found
    if not found.runs or not found.ok:
        raise FixError(
            f"The repaired model of {label} was not shown to give what the original gives, so nothing was written. "
            f"{found.summary()} Leave out rules with --ignore (ignore=) to see which repair it is."
        )
    return found


def difference(original: str | bytes, fixed: ir.Model) -> str:
    """The two models as text, as a unified diff without their weights."""
    before, after = (_text(each) for each in (reading.load_with_clashes(original), fixed))
    return "\n".join(difflib.unified_diff(before, after, "original", "fixed", lineterm="", n=1))


def _text(model: ir.Model) -> list[str]:
    """A model's nodes as lines of text."""
    lines = []
    for node in model.graph.all_nodes():
        inputs = ", ".join("" if each is None else each.name or "" for each in node.inputs)
        outputs = ", ".join(each.name or "" for each in node.outputs)
        plain = (each for each in node.attributes.values() if each.type != ir.AttributeType.GRAPH)
        attributes = ", ".join(f"{each.name}={each.value}" for each in plain)
        lines.append(f"{outputs} = {node.op_type}" + (f" <{attributes}>" if attributes else "") + f" ({inputs})")
    return lines
