"""A runtime, measured: every case tried on it, and the facts that follow, in the target's file."""

from __future__ import annotations

import dataclasses
import datetime
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from opbridge.coverage.engine.running import Progress, done, processes
from opbridge.coverage.measuring import cases, kernel_lists
from opbridge.coverage.measuring.learning import Example, examples_of, learn, outer_examples
from opbridge.coverage.measuring.work import NEARLY, RIGHT, CaseTask, CaseVerdict, CaseWork
from opbridge.coverage.measuring.writing import written
from opbridge.errors import OpbridgeError, SaveError, UsageError
from opbridge.onnx import reading
from opbridge.rules import of_facts
from opbridge.rules.lint import look
from opbridge.rules.looking import Looked
from opbridge.runtimes import known
from opbridge.runtimes.sessions import open_runtime
from opbridge.targets.measured import BY_PATTERNS, BY_SIZES, MEASURED, TARGETS, path_of
from opbridge.targets.reading import published_target

__all__ = ["Measured", "measure", "tried"]


_PROBES = {
    "functions": """<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
    probe (float[2, 3] x) => (float[2, 3] y) { y = local.twice (x) }
    <domain: "local", opset_import: ["" : 17]>
    twice (a) => (b) { b = Add (a, a) }"""
}
"""By a kind of facts, the model that such a target refuses, with one input of 2 x 3 and twice that as its output."""

_LARGEST = 1e6
"""Beyond it, numbers are masks."""

_ENDED = ("crash", "timeout", "memory")


@dataclass(frozen=True)
class Measured:
    """What was found.

    Attributes:
        runtime: The runtime.
        version: Its version.
        path: The file of facts that was written.
        counts: How many cases had each outcome.
        facts: How many facts were learnt.
        unexplained: The cases that fail and that no fact tells of, each with what the runtime said.
        seconds: How long it took.
    """

    runtime: str
    version: str
    path: Path
    counts: Mapping[str, int]
    facts: int
    unexplained: Mapping[str, str]
    seconds: float

    @property
    def document(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "runtime": self.runtime,
            "version": self.version,
            "path": str(self.path),
            "counts": dict(self.counts),
            "facts": self.facts,
            "unexplained": dict(self.unexplained),
            "seconds": self.seconds,
        }


def measure(
    name: str,
    *,
    output: Path | None = None,
    jobs: int | None = None,
    ray: str | None = None,
    progress: Progress | None = None,
) -> Measured:
    """Runs ONNX's node tests and forms of them on an installed runtime, and writes the facts that follow.

    Args:
        name: The target, or its runtime: "openvino", "web", "mnn", "ncnn", "tensorrt-rtx", "cuda".
        output: The file to write; None: the one that lint reads, in the installed package.
        jobs: How many processes.
        ray: The address of a Ray cluster to use instead.
        progress: Called after each case.

    Raises:
        UsageError: There is no such runtime, or it is not installed.
        SaveError: The file cannot be written.
    """
    if name not in MEASURED:
        raise UsageError(f"'{name}' cannot be measured; expected one of {', '.join(MEASURED)}.")
    runtime = known.installed(name)
    path = output or path_of(name)
    _write(path, None)
    if name in kernel_lists.LISTED:
        text, listed, count, took = kernel_lists.measured(name)
        _write(path, text)
        return Measured(name, runtime.version(), path, listed, count, {}, took)
    options: dict[str, Any] = {"jobs": jobs, "ray": ray, "progress": progress}
    verdicts, seconds = tried(name, list(cases.forms()), path=path, **options)
    for choose in (_alone, _on_other_values):
        found, more = tried(name, list(choose(verdicts)), **options)
        verdicts, seconds = {**verdicts, **found}, seconds + more
    newest = _newest_opset(verdicts)
    examples, said = _examples(verdicts, newest)
    runs = {**examples["right"], **examples["nearly"]}
    failing = {**examples["failing"], **examples["nearly"]}
    facts = learn(runs, examples["failing"], said)
    for fact in facts:
        if fact.operator in BY_SIZES.get(name, ()) and any(said[each].startswith("not built") for each in fact.cases):
            fact.certain = False
    for fact in learn(examples["right"], examples["nearly"], said):
        facts.append(dataclasses.replace(fact, small=True))
    explained = {case for fact in facts if fact.certain for case in fact.cases}
    text = written(
        TARGETS[name],
        runtime.version(),
        f"measured: ONNX's node tests of onnx {onnx.__version__} on {known.label(name)}, {datetime.date.today()}",
        facts,
        said,
        taken=sorted({each.operator for nodes in runs.values() for each in nodes}),
        newest=newest,
        contradicted=_contradicted(name, runtime.version(), verdicts),
        severity="warning" if name in BY_PATTERNS else "error",
        kinds=[kind for kind, text in _PROBES.items() if not _runs(name, text)],
    )
    _write(path, text)
    counts = Counter(each.outcome for each in verdicts.values())
    return Measured(
        name,
        runtime.version(),
        path,
        counts,
        len(facts),
        {case: said[case] for case in failing if case not in explained},
        seconds,
    )


def tried(
    name: str,
    wanted: Sequence[tuple[str, str]],
    *,
    path: Path | None = None,
    jobs: int | None = None,
    ray: str | None = None,
    progress: Progress | None = None,
) -> tuple[dict[tuple[str, str], CaseVerdict], float]:
    """What becomes of cases on a runtime, by their names and forms; those that there are not are left out.

    One that ends its process is tried again in a process of its own.

    Args:
        name: The runtime, which is installed.
        wanted: The names of tests, with forms.
        path: The file beside which an interrupted run is kept; None: it is not.
        jobs: How many processes.
        ray: The address of a Ray cluster to use instead.
        progress: Called after each case.
    """
    tasks = [CaseTask(*each) for each in wanted]
    head = {"runtime": known.label(name), "onnx": onnx.__version__}
    options: dict[str, Any] = {"jobs": processes(jobs), "ray": ray}
    with done(CaseWork(name), tasks, head, path, progress=progress, **options) as run:
        verdicts = dict(run.verdicts)
        ended = [task for task, each in verdicts.items() if each is not None and each.outcome in _ENDED]
        if ended:
            with done(CaseWork(name, alone=True), ended, head, None, progress=None, **options) as again:
                verdicts.update(again.verdicts)
        found = {(task.name, task.form): each for task, each in verdicts.items() if each is not None}
        return dict(sorted(found.items())), run.seconds


def _alone(verdicts: Mapping[tuple[str, str], CaseVerdict]) -> Iterator[tuple[str, str]]:
    """The nodes to try alone: those of tests of several nodes that fail, one of each form of node.

    Which node of a test is the one that it fails for is then known, and not guessed.
    """
    seen: set[Example] = set()
    for (name, form), verdict in verdicts.items():
        case = cases.case(name, form)
        if form or verdict.outcome in RIGHT or case is None or len(case.model.graph.node) == 1:
            continue
        for at, example in outer_examples(_read(case)):
            if example not in seen and example.operator != "Constant":
                seen.add(example)
                yield name, f"node {at}"


def _on_other_values(verdicts: Mapping[tuple[str, str], CaseVerdict]) -> Iterator[tuple[str, str]]:
    """The nodes to try alone on other values: those of operators that failed on such, one of each form of node."""
    wrong = {_operator(name) for (name, form), each in verdicts.items() if form == "values" and each.outcome == "wrong"}
    seen: set[Example] = set()
    for name, form in verdicts:
        case = cases.case(name, form)
        if form or case is None or len(case.model.graph.node) == 1:
            continue
        if not wrong.isdisjoint(each.op_type for each in case.model.graph.node):
            for at, example in outer_examples(_read(case)):
                if example.operator in wrong and example not in seen:
                    seen.add(example)
                    yield name, f"node {at} values"


def _operator(name: str) -> str:
    case = cases.case(name, "")
    assert case is not None
    return str(case.model.graph.node[0].op_type)


def _read(case: cases.Case) -> ir.Model:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return reading.load(case.model.SerializeToString())


def _examples(
    verdicts: Mapping[tuple[str, str], CaseVerdict], newest: int | None
) -> tuple[dict[str, dict[str, list[Example]]], dict[str, str]]:
    """The nodes of the cases that are "right", that are "nearly", and that are "failing", and what was said.

    A case of an opset that the runtime does not take tells nothing of its operators. A node that was put at another
    opset may mean something else there: it tells something where it is right only.
    """
    found: dict[str, dict[str, list[Example]]] = {"right": {}, "nearly": {}, "failing": {}}
    said: dict[str, str] = {}
    for (name, form), verdict in verdicts.items():
        if verdict.outcome == "sweep error":
            continue
        case = cases.case(name, form)
        assert case is not None
        if newest is not None and case.opset > newest:
            continue
        is_right = verdict.outcome in (*RIGHT, *NEARLY)
        if form.startswith("opset ") and not is_right:
            continue
        if form.startswith("node ") and verdict.outcome in ("wrong", "nearly") and _is_special(case):
            continue
        label = f"{name} ({form})" if form else name
        nodes = examples_of(_read(case))
        if form.startswith("without ") and not is_right:
            nodes = [_of_default(each, form.removeprefix("without ")) for each in nodes]
        found["right" if verdict.outcome in RIGHT else "nearly" if is_right else "failing"][label] = nodes
        if verdict.outcome not in RIGHT:
            said[label] = f"{verdict.outcome}: {verdict.message}"
    _drop_right_by_chance(found)
    return found, said


def _drop_right_by_chance(found: dict[str, dict[str, list[Example]]]) -> None:
    """Takes nodes that fail on other values out of the cases that are right on theirs."""
    wrong = {each for label, nodes in found["failing"].items() if label.endswith("values)") for each in nodes}
    for outcome in ("right", "nearly"):
        left = {label: [each for each in nodes if each not in wrong] for label, nodes in found[outcome].items()}
        found[outcome] = {label: nodes for label, nodes in left.items() if nodes}


def _is_special(case: cases.Case) -> bool:
    """Whether a case has numbers that say little of other ones, as tests compute them: infinities and masks."""
    arrays = [each for each in (*case.inputs, *(case.expected or ())) if isinstance(each, np.ndarray)]
    numbers = [each.astype(np.float64) for each in arrays if each.dtype.name in ("float16", "float32", "float64")]
    return any(bool((~(np.abs(each) < _LARGEST)).any()) for each in numbers)


def _of_default(node: Example, attribute: str) -> Example:
    """A node that was left an attribute of which it has the default: that it fails without says no more than that it
    does with this value, which the test's other inputs may not be for."""
    if not any(each.startswith(f"{attribute} = ") for each in node.conditions):
        return node
    return dataclasses.replace(node, conditions=node.conditions - {f"no attribute {attribute}"})


def _contradicted(name: str, version: str, verdicts: Mapping[tuple[str, str], CaseVerdict]) -> dict[str, list[str]]:
    """By the kind of a published fact, the operators of which it says what a right case shows to be wrong."""
    try:
        target = published_target(name, version)
    except UsageError:  # nothing is published, or of newer versions only
        return {}
    found: dict[str, set[str]] = defaultdict(set)
    kinds = {rule.identifier: rule.kind.__name__.lower() for rule in of_facts.RULES}
    rules = frozenset(kinds) - {"missing-operator"}
    for (case_name, form), verdict in verdicts.items():
        if verdict.outcome in RIGHT:
            case = cases.case(case_name, form)
            assert case is not None
            for finding, _ in look(Looked(reading.load(case.model.SerializeToString())), [target], rules):
                if finding.severity == "error":
                    found[kinds[finding.rule]].add(finding.operator)
    return {kind: sorted(operators) for kind, operators in sorted(found.items())}


def _newest_opset(verdicts: Mapping[tuple[str, str], CaseVerdict]) -> int | None:
    """The newest opset of which a case is right, where there are newer ones and none of them is; None: all are."""
    by_opset: dict[int, set[bool]] = defaultdict(set)
    for (name, form), verdict in verdicts.items():
        if verdict.outcome == "sweep error":
            continue
        case = cases.case(name, form)
        assert case is not None
        by_opset[case.opset].add(verdict.outcome in RIGHT)
    taken = [opset for opset, outcomes in by_opset.items() if True in outcomes]
    newest = max(taken, default=0)
    return newest if newest and newest < max(by_opset) else None


def _runs(name: str, text: str) -> bool:
    """Whether a runtime takes a probe and gives what it should."""
    x = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    try:
        with open_runtime(name, onnx.parser.parse_model(text).SerializeToString()) as session:
            return name in known.BUILDERS or bool(np.allclose(session.run(None, {"x": x})[0], 2 * x))
    except OpbridgeError:
        return False


def _write(path: Path, text: str | None) -> None:
    """Writes a file; without a text, only its folder is made.

    Raises:
        SaveError: That cannot be done.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if text is not None:
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SaveError(f"{path} is not writable ({error}). Give another file with -o.") from error
