"""Repairs a model for targets, and proves that its results are as they were."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import os
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from opbridge.base.wording import counted, within
from opbridge.errors import FixError, OpbridgeError, UsageError
from opbridge.fixing.attempts import Attempts
from opbridge.fixing.cut_out import cut_out, has_provided
from opbridge.fixing.engines import Engines, built
from opbridge.fixing.evaluator import compare_with_evaluator
from opbridge.fixing.repairing import Change
from opbridge.onnx import damage, reading, serialize
from opbridge.reports.report import reporting
from opbridge.rules.findings import Findings
from opbridge.rules.lint import check_patterns, chosen_rules, look
from opbridge.rules.looking import Looked
from opbridge.rules.measured import Inputs, feeds_of
from opbridge.runtimes.onnxruntime import open_session
from opbridge.runtimes.onnxruntime.model_file import checked_model
from opbridge.save import writer
from opbridge.side_by_side import SideBySide, compare, is_random
from opbridge.targets import Target, find_targets

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
        undone: The repairs that failed, or that changed the results, with what came of them. They are not in the model.
        refused: Why ONNX Runtime does not load the model, where nothing was found in it; "": it does, or other findings
            say why.
        engines: Whether TensorRT-RTX builds the original and the model; None where it is no target, or not installed.
    """

    model: ir.Model
    changes: Sequence[Change]
    left: Findings
    comparison: SideBySide | None
    path: str = ""
    undone: Sequence[tuple[Change, str]] = ()
    refused: str = ""
    engines: Engines | None = None

    @property
    def ok(self) -> bool:
        """Whether no errors remain, and TensorRT-RTX builds the model where it was asked."""
        return self.left.ok and not (self.engines is not None and self.engines.after)

    def summary(self) -> str:
        """What was done, in one paragraph."""
        if not self.changes:
            if len(self.left):
                return f"No repair was made. Remaining: {self.left.counted()}."
            return (
                f"No findings to repair, but ONNX Runtime does not load the model. {self.refused}"
                if self.refused
                else "No findings to repair."
            )
        found = self.comparison
        assert found is not None
        counts = Counter(each.finding.rule for each in self.changes)
        said = ", ".join(f"{rule} {count}" for rule, count in counts.items())
        left = f" {counted(len(self.undone), 'repair')} undone: {self.undone[0][1]}" if self.undone else ""
        return f"Repaired {said}. {found.summary()}{left}"

    def document(self) -> dict[str, Any]:
        """The result as plain data."""
        found = self.comparison
        return {
            "ok": self.ok,
            "path": self.path,
            "changes": [{"done": each.done, **each.finding.document()} for each in self.changes],
            "runs": 0 if found is None else len(found.runs),
            "largest_difference": None if found is None else found.largest,
            "refused": self.refused,
            "engines": None if self.engines is None else self.engines.document(),
            "undone": [{"done": each.done, "why": why, **each.finding.document()} for each, why in self.undone],
            "left": self.left.document(),
        }


def fix(
    model: str | os.PathLike[str] | bytes,
    target: str | Sequence[str] = (),
    output: str | os.PathLike[str] | None = None,
    *,
    provides: str | Sequence[str] = (),
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    inputs: Inputs | None = None,
    report: str | os.PathLike[str] | None = None,
) -> Fixed:
    """Repairs the findings of lint in a model, and compares the result with the original.

    Args:
        model: The path of an ONNX file, or its content.
        target: As for `opbridge.lint`.
        output: The file to write, also if there is nothing to repair; None: no file is written. A repair that changes
            the results is undone, and the others are kept. No file is written if the results cannot be compared.
        provides: Operators that the targets have in addition, as for `opbridge.lint`.
        select: The rules whose findings are repaired, or patterns of them; none: all.
        ignore: The rules whose findings are left.
        inputs: Arrays to compare both models on, by the names of the inputs or in order, or an .npz file of them, for a
            model that does not run on random inputs. None: random inputs.
        report: The path of an HTML report with the graph of the repaired model, the repairs and the remaining
            findings.

    Raises:
        ModelFileError: The file cannot be read.
        UsageError: There is no such target or rule, `provides` is wrong, or there are more or fewer arrays than inputs.
        FixError: Each repair changes the results, or they cannot be compared.
        SaveError: The file cannot be written.
    """
    targets = find_targets(target, provides)
    check_patterns(targets)
    chosen = chosen_rules(select, ignore)
    checked, label = checked_model(model)
    with reporting(report, "fix", label) as told:
        fixed = _fixed(checked, label, targets, output, chosen, select, inputs)
        engines = built(targets, checked, fixed.model if fixed.changes else None)
        fixed = dataclasses.replace(fixed, engines=engines)
        told.fixed = fixed.document()
        fixed.left.tell(told, fixed.model)
    return fixed


def _fixed(
    checked: str | bytes,
    label: str,
    targets: Sequence[Target],
    output: str | os.PathLike[str] | None,
    chosen: frozenset[str],
    select: Sequence[str],
    inputs: Inputs | None,
) -> Fixed:
    """`fix` for a model that was checked."""
    if output is not None and isinstance(checked, str) and os.path.exists(output) and os.path.samefile(checked, output):
        raise UsageError(f"{output} is the input model itself. Give another file with -o (output=).")
    changed = reading.load_with_clashes(checked)
    looked = Looked(changed)
    if look(looked, (), frozenset({"unreadable-weight"})):
        damage.refuse(changed, label)
    original = _Original(
        _in_order(checked, looked), None if inputs is None else [*feeds_of(looked.model, inputs).values()], targets
    )
    attempts = Attempts(checked, label, targets, chosen, select)
    made = attempts.made(looked)
    left = Findings(label, targets, made.left)
    if not made.changes:
        if output is not None:
            writer.save(made.model, output)
        path = "" if output is None else os.fspath(output)
        refused = "" if len(left) else _refused(checked)
        return Fixed(made.model, (), left, None, path, attempts.undone, refused)
    found = _tried(original, made.model, output, keep=True)
    if (found.runs or found.failed) and not found.ok:
        made = attempts.without_failing(made, found, lambda each: _tried(original, each.model, output))
        left = Findings(label, targets, made.left)
        if made.changes:
            found = _tried(original, made.model, output, keep=True)
    if not found.runs or not found.ok:
        remedy = (
            "Give inputs that it accepts with --inputs FILE.npz (inputs=), one array for each input, as numpy.savez "
            "writes them."
            if found.rejected and inputs is None
            else "Exclude rules with --ignore (ignore=) to find the repair that causes it."
        )
        raise FixError(
            f"The repaired model of {within(label)} could not be verified against the original, so no file was "
            f"written. {found.summary()} {remedy}"
        )
    return Fixed(made.model, made.changes, left, found, "" if output is None else os.fspath(output), attempts.undone)


def _refused(model: str | bytes) -> str:
    """Why ONNX Runtime does not load a model; "": it does."""
    try:
        session = open_session(model, True, optimised=False)
    except OpbridgeError as error:
        return str(error)
    session.close()
    return ""


@dataclass(frozen=True)
class _Original:
    """What repaired models are compared with.

    Attributes:
        content: The file, or its content.
        inputs: The inputs to compare on, in the order of the model's; None: random ones.
        targets: What it is repaired for.
    """

    content: str | bytes
    inputs: Sequence[np.ndarray] | None
    targets: Sequence[Target]

    def compared(self, new: str | Path | bytes, model: ir.Model) -> SideBySide:
        """What both models give: the original by ONNX's evaluator where ONNX Runtime does not run it."""
        found = compare(self.content, new, random=is_random(model), inputs=self.inputs)
        if found.runs or found.failed:
            return found
        other = compare_with_evaluator(self.content, new, self.inputs)
        if other is not None and other.rejected:
            note = f"{found.note} In the ONNX reference evaluator, {other.note[:1].lower()}{other.note[1:]}"
            found = dataclasses.replace(found, note=note)
        elif other is not None:
            found = other
        if found.runs or found.failed or not has_provided(model, self.targets):
            return found
        return self._compared_without_provided(new, model) or found

    def _compared_without_provided(self, new: str | Path | bytes, model: ir.Model) -> SideBySide | None:
        """What both models give but for operators that only the user's runtime has; None where that is not known."""
        models = (reading.load_with_clashes(each) for each in (self.content, _readable(new)))
        before, after = (cut_out(each, self.targets) for each in models)
        if before is None or after is None:
            return None
        found = compare(before, after, random=is_random(model))
        found.note = f"{found.note} Operators that only the target has were left out of the comparison.".strip()
        return found


def _in_order(original: str | bytes, looked: Looked) -> str | bytes:
    """What the repaired model is compared with: where the elements of a TopK may come in any order, in their own.

    Args:
        original: The file, or its content.
        looked: The model in it.
    """
    if not any(map(_is_unsorted, looked.nodes)):
        return original
    copy = reading.load_with_clashes(original)
    for node in copy.graph.all_nodes():
        if _is_unsorted(node):
            node.attributes["sorted"] = ir.AttrInt64("sorted", 1)
    content = serialize.serialize(copy)
    return serialize.written(content) if content.size() <= serialize.MAX_FILE_BYTES else original


def _is_unsorted(node: ir.Node) -> bool:
    attribute = node.attributes.get("sorted") if node.op_type == "TopK" and node.domain == "" else None
    return attribute is not None and attribute.value == 0


def _tried(
    original: _Original, model: ir.Model, output: str | os.PathLike[str] | None, *, keep: bool = False
) -> SideBySide:
    """What the original and a repaired model give.

    Args:
        original: The original.
        model: The repaired model.
        output: Where that is to be written; None: nowhere.
        keep: Whether it is written where the two give the same.
    """
    if output is None and (content := serialize.serialize(model)).size() <= serialize.MAX_FILE_BYTES:
        return original.compared(serialize.written(content), model)
    with contextlib.ExitStack() as places:
        if output is None:
            output, keep = os.path.join(places.enter_context(tempfile.TemporaryDirectory()), "model.onnx"), False
        files = places.enter_context(writer.staged(model, output))
        found = original.compared(files.path, model)
        if keep and found.runs and found.ok:
            files.commit()
    return found


def _readable(model: str | Path | bytes) -> str | bytes:
    return model if isinstance(model, bytes) else str(model)


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
