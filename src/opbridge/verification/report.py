"""The result of a verification: the comparison of each output, on each set of inputs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opbridge.base.wording import counted, listed, sentence
from opbridge.targets.measured import MEASURED

if TYPE_CHECKING:
    from opbridge.verification.compare import Comparison
    from opbridge.verification.difference import FirstDifference
    from opbridge.verification.runtime_failure import RuntimeFailure

__all__ = ["LOADING", "BranchReport", "OutputReport", "Run", "Verification"]

LOADING = "loading"
"""The label of the run that is none, as the runtime does not load the file."""

_MAX_ROWS = 12
_MAX_LEFT_OUT = 3


@dataclass(frozen=True)
class Run:
    """One comparison of PyTorch and the runtime, on one set of inputs.

    Attributes:
        kind: "example", "fresh" (new values), "sizes" (other sizes, new values), "branches" (values that take another
            branch of a decision), "values" (values for which an output has numbers that had none), "ends" (the ends of
            dtypes) or "given" (the user's own inputs).
        label: "example", "fresh 1" or "batch=1".
        comparisons: One for each output of the graph; empty if the run was left out or failed.
        left_out: Why the run was left out: the error of the model itself on these inputs, a condition of the capture
            on their sizes, or a difference by what no caller gave.
        failure: The error of the runtime.
        condition: Where the capture leaves these sizes out, the condition that does.
        place: The line that causes it.
        stated: What to write so that the file is valid for all sizes that are asked for, as
            `opbridge.capture.stated_sizes` gives it.
        no_loop: With a condition, why a loop is unrolled as in the example, as a clause.
        invented: Where the run differs by a value that no caller gave and the example does not suggest, that value: a
            NaN, a size of 0, a mask of everything. The notes say more; the file is not refused for it.
    """

    kind: str
    label: str
    comparisons: tuple[Comparison, ...] = ()
    left_out: str | None = None
    failure: RuntimeFailure | None = None
    condition: str = ""
    place: str = ""
    stated: str = ""
    no_loop: str = ""
    invented: str = ""

    @property
    def ok(self) -> bool:
        """Whether nothing differs; true for a run that was left out."""
        return self.failure is None and all(comparison.ok for comparison in self.comparisons)


def _severity(comparison: Comparison) -> tuple[bool, bool, bool, float, bool]:
    """What orders comparisons of one output: the worst is the largest."""
    has_reason = comparison.reason is not None
    return not comparison.ok, has_reason, comparison.forgiven, comparison.excess, comparison.has_numbers


@dataclass(frozen=True)
class OutputReport:
    """One output of the graph, over all runs.

    Attributes:
        name: The name of the output in the file.
        worst: The comparison of the run with the largest difference.
        run: The label of that run.
        wrong: The labels of the runs in which the difference exceeds the tolerance.
    """

    name: str
    worst: Comparison
    run: str
    wrong: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not self.wrong


@dataclass(frozen=True)
class BranchReport:
    """One branch of a decision that depends on data, over all runs.

    Attributes:
        source: The line of the decision, "model.py:12".
        condition: The condition as the line has it.
        answer: Whether it holds.
        operators: The operators that run for this answer only.
        runs: The labels of the runs that took this branch.
    """

    source: str
    condition: str
    answer: bool
    operators: tuple[str, ...]
    runs: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.source} `{self.condition}` is {self.answer}"


@dataclass(frozen=True)
class Verification:
    """The comparison of an ONNX model with eager PyTorch.

    Attributes:
        subject: The path of the file, or "the exported model".
        runtime: The runtime and its version, "onnxruntime 1.31.1".
        runs: The runs on all sets of inputs, the example first.
        difference: The first operator that differs; None if there is none or if it could not be found.
        kept: The inputs that had the example's values in all runs: constants, position ids and the like.
        notes: Remarks on what was not compared, or proves little.
        seconds: The duration in seconds.
        domains: Where a run differs, the inputs whose fresh values were drawn from a domain that the example shows,
            with its name (see `opbridge.verification.domains`).
        branches: The branches of the decisions that are in the file, each with the runs that took it.
        unrun: Why the runtime built or loaded the file and could not run it; "" where it ran.
        stage: How far it came then: "built" or "loaded".
    """

    subject: str
    runtime: str
    runs: tuple[Run, ...]
    difference: FirstDifference | None = None
    kept: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    domains: tuple[tuple[str, str], ...] = ()
    branches: tuple[BranchReport, ...] = ()
    unrun: str = ""
    stage: str = "built"

    @property
    def ok(self) -> bool:
        """Whether the two agree in every run; true where there is none, as the file was only built (`verdict`)."""
        return all(run.ok for run in self.runs)

    @property
    def outputs(self) -> tuple[OutputReport, ...]:
        """The outputs in order, each at its worst."""
        compared = [run for run in self.runs if run.comparisons]
        reports = []
        for position in range(len(compared[0].comparisons) if compared else 0):
            found = [(run.comparisons[position], run.label) for run in compared]
            worst, label = max(found, key=lambda each: _severity(each[0]))
            wrong = tuple(label for comparison, label in found if not comparison.ok)
            reports.append(OutputReport(worst.name, worst, label, wrong))
        return tuple(reports)

    @property
    def random(self) -> tuple[str, ...]:
        """The outputs with random values, of which only shape and dtype were compared."""
        return tuple(report.name for report in self.outputs if report.worst.random)

    @property
    def uncompared(self) -> dict[str, str]:
        """The outputs of which no run compared a number, each with what it is in all runs: "empty", "NaN", or both."""
        found = {}
        for position, report in enumerate(self.outputs):
            each = [run.comparisons[position] for run in self.runs if run.comparisons]
            if not any(one.has_numbers or one.random or one.reason is not None for one in each):
                kinds = {"NaN" if one.elements else "empty" for one in each}
                found[report.name] = "empty or NaN" if len(kinds) == 2 else kinds.pop()
        return found

    @property
    def verdict(self) -> str:
        """ "verified", "mismatch", "nothing compared" where the two agree and no output has a number in any run, or
        "built, not run" ("loaded, not run")."""
        if not self.ok:
            return "mismatch"
        if self.unrun:
            return f"{self.stage}, not run"
        return "nothing compared" if self.uncompared and len(self.uncompared) == len(self.outputs) else "verified"

    @property
    def left_out(self) -> tuple[Run, ...]:
        """The runs that were left out, as the model or its capture does not accept their inputs."""
        return tuple(run for run in self.runs if run.left_out is not None)

    @property
    def untaken(self) -> tuple[BranchReport, ...]:
        """The branches that no run took."""
        return tuple(branch for branch in self.branches if not branch.runs)

    def describe_branches(self) -> str:
        """How many branches of the decisions the runs took, and which they did not; empty where there are none."""
        count, untaken = len(self.branches), self.untaken
        if not untaken:
            return "both branches exercised" if count == 2 else f"all {count} branches exercised" if count else ""
        return f"{len(untaken)} of {count} branches not exercised by any run: {listed(list(map(str, untaken)), 3)}"

    def summary(self) -> str:
        """One line: which outputs agree or differ, and on which inputs; which branches of decisions no run took."""
        failed = next((run for run in self.runs if run.failure is not None), None)
        if failed is not None:
            return f"{self.runtime} fails to run it ({failed.label})"
        if self.unrun:
            what = "the engine was built" if self.stage == "built" else "the file was loaded"
            return f"{what}, but nothing was compared with PyTorch, because {self.unrun}"
        outputs, labels = self.outputs, [run.label for run in self.runs if run.left_out is None]
        wrong = [report.name for report in outputs if not report.ok]
        on = f"on {counted(len(labels), 'run')} ({listed(labels, 5)})"
        if wrong:
            differing = [run.label for run in self.runs if not run.ok]
            on = f"on {len(differing)} of {counted(len(labels), 'run')} ({listed(differing, 5)})"
            found = self.difference
            where = f", first at {found.place}" if found is not None and found.is_beyond else ""
            verb = "differs" if len(wrong) == 1 else "differ"
            return f"{len(wrong)} of {counted(len(outputs), 'output')} {verb} {on}: {listed(wrong, 3)}{where}"
        random = f", {len(self.random)} random in shape and dtype only" if self.random else ""
        forgiven = "".join(f", '{name}' {remark}" for name, remark in self._forgiven())
        branches = f", {said}" if (said := self.describe_branches()) else ""
        nothing = listed([f"'{name}' is {what}" for name, what in self.uncompared.items()], 3)
        if self.verdict == "nothing compared":
            return f"nothing was compared with PyTorch, as {nothing} {on}{branches}"
        count = len(outputs) - len(self.uncompared)
        verb = "agrees" if count == 1 else "agree"
        nothing = f", nothing else was compared, as {nothing} throughout" if nothing else ""
        return f"{counted(count, 'output')} {verb} with PyTorch{random} {on}{nothing}{forgiven}{branches}"

    def _forgiven(self) -> list[tuple[str, str]]:
        """The outputs with differences beyond the tolerance that are right nevertheless, and why."""
        return [(report.name, report.worst.remark) for report in self.outputs if report.worst.forgiven]

    def describe_mismatch(self) -> str:
        """One paragraph: what differs and by how much, the first operator that differs, and what to do."""
        run = next((run for run in self.runs if not run.ok), None)
        if run is None and self.verdict != "verified":
            return f"{sentence(self.subject)}: {self.summary()}."
        if run is None:
            return f"{sentence(self.subject)} agrees with PyTorch: {self.summary()}."
        if run.condition:
            return self._describe_uncovered(run)
        if run.failure is not None:
            return self._describe_failure(run, run.failure)
        wrong = [comparison for comparison in run.comparisons if not comparison.ok]
        parts = [f"{sentence(self.subject)} does not agree with PyTorch: on {_inputs_of(run)}, output {wrong[0]}."]
        if len(wrong) > 1:
            verb = "does" if len(wrong) == 2 else "do"
            parts.append(f"{listed([repr(comparison.name) for comparison in wrong[1:]], 3)} {verb} too.")
        if self.difference is not None:
            which = "The first operator that differs is"
            if not self.difference.is_beyond:
                which = "No single operator exceeds the tolerance when given the same inputs; the one closest to it is"
            parts.append(f"{which} {self.difference}.")
        if run.kind in ("fresh", "sizes") and self.domains:
            drawn = listed([f"'{name}' as {domain}" for name, domain in self.domains], 5)
            parts.append(f"The random inputs follow the example: {drawn}.")
        parts.extend(f"{sentence(note)}." for note in self.notes)
        operator = self.difference.operator if self.difference else None
        parts.append(self._remedy(operator, of_values=all(each.reason is None for each in wrong)))
        return " ".join(parts)

    def _describe_failure(self, run: Run, failure: RuntimeFailure) -> str:
        """One paragraph about a file that a runtime does not load, or does not run."""
        said, name = str(failure).rstrip("."), self.runtime.partition(" ")[0]
        remedy = f"opbridge lint --target {name} lists everything that it does not support." if name in MEASURED else ""
        if run.label == LOADING and (remedy or failure.operator is None):
            return f"{sentence(said)}. {remedy}".strip()
        where = f"{sentence(self.subject)} fails in {self.runtime} on {_inputs_of(run)}"
        return f"{where}: {said}. {remedy or self._remedy(failure.operator, of_values=False)}"

    def _describe_uncovered(self, run: Run) -> str:
        """One paragraph about a size that the model takes and its capture does not."""
        wrong = [comparison for comparison in run.comparisons if not comparison.ok]
        how = f"the runtime raises: {run.failure}" if run.failure is not None else f"output {wrong[0]}"
        line = f" ({run.place})" if run.place else ""
        valid = f"valid only for {run.condition}{line}, but the model also accepts {run.label}; there, {how}."
        otherwise = "change the line so that it computes the same for all sizes, with torch.where or torch.cond"
        why = f" {sentence(run.no_loop)}" if run.no_loop else ""
        if run.stated:
            return (
                f"{run.stated}: {self.subject} does not support the requested dynamic shapes, because it is {valid} "
                f"Or {otherwise} instead of an `if`.{why}"
            )
        return (
            f"{sentence(self.subject)} does not support the requested dynamic shapes: it is {valid} State the "
            f"condition in dynamic_shapes, or {otherwise} instead of an `if`.{why}"
        )

    def to_json(self) -> dict[str, Any]:
        """As data for JSON; infinities and NaNs are strings."""
        data = {
            "ok": self.ok,
            "verdict": self.verdict,
            "subject": self.subject,
            "runtime": self.runtime,
            "summary": self.summary(),
            "outputs": [
                {**_comparison_json(report.worst), "name": report.name, "run": report.run, "wrong": list(report.wrong)}
                for report in self.outputs
            ],
            "runs": [
                {
                    "kind": run.kind,
                    "label": run.label,
                    "ok": run.ok,
                    "left_out": run.left_out,
                    "invented": run.invented,
                    "failure": dataclasses.asdict(run.failure) if run.failure else None,
                    "errors": [_error_json(comparison) for comparison in run.comparisons],
                }
                for run in self.runs
            ],
            "random": list(self.random),
            "uncompared": self.uncompared,
            "kept": list(self.kept),
            "notes": list(self.notes),
            "unrun": self.unrun or None,
            "branches": [
                {**dataclasses.asdict(branch), "operators": list(branch.operators), "runs": list(branch.runs)}
                for branch in self.branches
            ],
            "domains": dict(self.domains),
            "seconds": self.seconds,
            "first_difference": None,
        }
        if self.difference is not None:
            data["first_difference"] = {
                **dataclasses.asdict(self.difference),
                "inputs": list(self.difference.inputs),
                "unchecked": list(self.difference.unchecked),
                "comparison": _comparison_json(self.difference.comparison),
            }
        return data

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from opbridge.pages.notebook import of_verification

        return of_verification(self.to_json())

    def __str__(self) -> str:
        verdict = self.verdict if self.verdict == "verified" else self.verdict.upper()
        lines = [f"{verdict}: {self.subject}, {self.runtime}: {self.summary()}"]
        lines.extend(self._table())
        if not self.ok:
            lines.append(self.describe_mismatch())
        left_out = self.left_out
        lines.extend(f"left out: {run.label}: {run.left_out}" for run in left_out[:_MAX_LEFT_OUT])
        if len(left_out) > _MAX_LEFT_OUT:
            lines.append(f"left out: {counted(len(left_out) - _MAX_LEFT_OUT, 'run')} more")
        lines.extend(f"accepted: '{name}' {remark}" for name, remark in self._forgiven())
        lines.extend(f"branch: {branch}: {listed(list(branch.runs), 5) or 'not exercised'}" for branch in self.branches)
        if self.kept:
            lines.append(f"same as in the example in all runs: {listed(list(self.kept), 6)}")
        if self.ok:
            lines.extend(f"note: {note}" for note in self.notes)
        return "\n".join(lines)

    def _table(self) -> Iterator[str]:
        """The lines of the table of outputs; those that differ are first if not all are shown."""
        reports = sorted(self.outputs, key=lambda report: report.ok) if len(self.outputs) > _MAX_ROWS else self.outputs
        if not reports:
            return
        rows = [("output", "dtype", "shape", "absolute", "relative", "outside", "tolerance")]
        for report in reports[:_MAX_ROWS]:
            worst = report.worst
            if worst.reason is not None:
                errors = ("-", "-", "-", worst.reason)
            elif worst.random:
                errors = ("-", "-", "-", str(worst.tolerance))
            else:
                errors = (f"{worst.absolute:.1e}", f"{worst.relative:.1e}", str(worst.outside), str(worst.tolerance))
            rows.append((report.name, worst.dtype, "x".join(map(str, worst.shape)) or "scalar", *errors))
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        for row in rows:
            cells = [
                text.rjust(width) if heading in ("absolute", "relative", "outside") else text.ljust(width)
                for text, width, heading in zip(row, widths, rows[0], strict=True)
            ]
            yield "  ".join(cells).rstrip()
        hidden = len(reports) - _MAX_ROWS
        if hidden > 0:
            yield f"and {counted(hidden, 'output')} more"

    def _remedy(self, operator: str | None, *, of_values: bool) -> str:
        """What to do; tolerances are advice only where values differ, not for crashes, shapes and dtypes."""
        if operator is not None and operator.startswith("python::"):
            advice = f"Compare the symbolic function of {operator.removeprefix('python::')} with its forward"
        elif operator is not None and "::" in operator:
            advice = f'Register another translation (@opbridge.translation("{operator}"))'
        else:
            advice = "Check the inputs and the weights that the file was exported with"
        return f"{advice}, or pass rtol= and atol= if the difference is acceptable." if of_values else f"{advice}."


def _error_json(comparison: Comparison) -> dict[str, Any]:
    """The difference of one output in one run."""
    names = ("name", "ok", "absolute", "relative", "excess", "elements", "outside", "random", "reason", "spread")
    return {name: _finite(getattr(comparison, name)) for name in names}


def _comparison_json(comparison: Comparison) -> dict[str, Any]:
    tolerance = comparison.tolerance
    data = {
        **dataclasses.asdict(comparison),
        "ok": comparison.ok,
        "shape": list(comparison.shape),
        "actual_shape": list(comparison.actual_shape),
        "index": None if comparison.index is None else list(comparison.index),
        "tolerance": {"relative": tolerance.relative, "absolute": tolerance.absolute, "origin": tolerance.origin},
    }
    return {key: _finite(value) for key, value in data.items()}


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _inputs_of(run: Run) -> str:
    if run.kind == "example":
        return "the example inputs"
    if run.kind == "given":
        return f"the inputs given ({run.label})"
    if run.kind == "ends":
        return f"inputs at the {run.label}"
    if run.kind == "values":
        return f"inputs for which an output has numbers ({run.label})"
    if run.kind == "branches":
        return f"inputs that take another branch ({run.label})"
    return f"fresh inputs ({run.label})"
