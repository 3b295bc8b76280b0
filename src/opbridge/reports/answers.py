"""What stands on top of a report: does it run, is it right, what does it need, how long did it take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from opbridge.base.wording import counted, duration, listed

__all__ = ["NOT_DONE", "answers", "verdict"]

NOT_DONE = {"check": "captured", "export": "exported", "verify": "compared", "lint": "checked", "fix": "repaired"}
"""What an error has kept each command from."""

_MOST_NAMED = 4


def verdict(document: Mapping[str, Any]) -> dict[str, str]:
    """One line for the whole: its state ("good", "bad" or "warn"), a headline, and a sentence.

    Args:
        document: The report, without its verdict.
    """
    kind, error = document["kind"], document["error"]
    found, plan, findings = document["verification"], document["plan"], document["findings"]
    missing = [row for row in plan["operators"] if row["route"] is None] if plan else []
    if missing:
        names = listed([row["operator"] for row in missing], _MOST_NAMED)
        verb = "has" if len(missing) == 1 else "have"
        return _said("bad", f"{counted(len(missing), 'operator')} {verb} no route to ONNX", f"Missing: {names}.")
    if found is not None and not found["ok"]:
        return _said("bad", "The model does not agree with PyTorch", found["summary"])
    if findings is not None and not findings["ok"]:
        wanted = ", ".join(findings["targets"]) or "ONNX"
        return _said("bad", f"{_of(findings)} for {wanted}", _fixed(document))
    if error is not None:
        return _said("bad", f"The model was not {NOT_DONE[kind]}", error["message"])
    if kind == "verify":
        return _said("good", "The file agrees with PyTorch", found["summary"])
    if kind in ("lint", "fix"):
        wanted = ", ".join(findings["targets"]) or "ONNX"
        state = "warn" if findings["findings"] else "good"
        headline = f"{_of(findings)} for {wanted}" if findings["findings"] else f"{wanted} supports the model"
        return _said(state, headline, _fixed(document))
    if kind == "check":
        return _said("good", "Every operator has a route to ONNX", _routes(plan))
    if found is not None:
        return _said("good", "The exported model agrees with PyTorch", found["summary"])
    return _said("warn", "The model was exported but not compared with PyTorch", document["unverified"])


def _said(state: str, headline: str, line: str) -> dict[str, str]:
    return {"state": state, "headline": headline, "line": line}


def _of(findings: Mapping[str, Any]) -> str:
    counts = {each: sum(row["severity"] == each for row in findings["findings"]) for each in ("error", "warning")}
    return " and ".join(counted(count, name) for name, count in counts.items() if count) or "Nothing found"


def _fixed(document: Mapping[str, Any]) -> str:
    fixed = document["fixed"]
    if fixed is None:
        return ""
    if not fixed["changes"]:
        return "No repair was made."
    runs = counted(fixed["runs"], "run")
    return f"{counted(len(fixed['changes']), 'repair')}; the results are unchanged on {runs}."


def _routes(plan: Mapping[str, Any]) -> str:
    routes = ", ".join(f"{count} {route}" for route, count in plan["routes"].items())
    nodes = sum(row["count"] for row in plan["operators"])
    return (
        f"{counted(len(plan['operators']), 'operator')}, {counted(nodes, 'call')}: {routes or 'nothing to translate'}."
    )


def answers(document: Mapping[str, Any]) -> list[dict[str, str]]:
    """The questions that the report answers: {question, state, answer, detail}."""
    return [
        {"question": question, "state": state, "answer": answer, "detail": detail}
        for question, state, answer, detail in _answers(document)
    ]


def _answers(document: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    plan, found, findings = document["plan"], document["verification"], document["findings"]
    if plan is not None or found is not None:
        yield "Does it run?", *_runs(document)
        yield "Is it correct?", *_right(document)
    if findings is not None:
        yield _taken(findings)
        if findings["findings"]:
            yield "What was found?", *_rules(findings)
    if document["fixed"] is not None:
        fixed = document["fixed"]
        left = "results unchanged" if fixed["runs"] else "nothing was changed"
        yield "What was repaired?", "good", str(len(fixed["changes"])), f"{left}; {len(fixed['undone'])} undone"
    if plan is not None:
        yield "What does it need?", *_needs(document)
    elif graph := document["graph"]:
        count = len({node[0] for node in graph["nodes"]})
        yield "What is in it?", "plain", counted(len(graph["nodes"]), "node"), f"of {counted(count, 'ONNX operator')}"
    if document["stages"]:
        seconds = sum(each["seconds"] for each in document["stages"])
        slowest = max(document["stages"], key=lambda each: each["seconds"])
        share = f"{slowest['name']} took {slowest['seconds'] / seconds:.0%} of it" if seconds else ""
        yield "How long did it take?", "plain", duration(seconds), share


def _rules(findings: Mapping[str, Any]) -> tuple[str, str, str]:
    counts = Counter(each["rule"] for each in findings["findings"])
    said = listed([f"{rule} {count}" for rule, count in counts.most_common()], _MOST_NAMED)
    return "plain", counted(len(counts), "rule"), said


def _runs(document: Mapping[str, Any]) -> tuple[str, str, str]:
    plan, found = document["plan"], document["verification"]
    if plan is not None and not plan["ok"]:
        count = sum(row["route"] is None for row in plan["operators"])
        return "bad", "No", f"{counted(count, 'operator')} without a route"
    if found is not None:
        failed = next((run for run in found["runs"] if run["failure"]), None)
        if failed is not None:
            return "bad", "No", f"{found['runtime']} fails to run it ({failed['label']})"
        opset = f", opset {plan['opset']}" if plan else ""
        return "good", "Yes", f"in {found['runtime']}{opset}"
    if document["error"] is not None and plan is None:
        return "bad", "No", "the model was not captured"
    if document["kind"] == "check":
        return "plain", "Planned", f"every operator has a route, opset {plan['opset']}; export runs it"
    return "warn", "Not tried", document["unverified"] or "it was not compared with PyTorch"


def _right(document: Mapping[str, Any]) -> tuple[str, str, str]:
    found = document["verification"]
    if found is None:
        return "plain", "Not known", "it was not compared with PyTorch"
    compared = [each for each in found["outputs"] if not each["random"] and each["reason"] is None]
    runs = sum(run["left_out"] is None for run in found["runs"])
    if not found["ok"]:
        wrong = sum(bool(each["wrong"]) for each in found["outputs"])
        verb = "differs" if wrong == 1 else "differ"
        return "bad", "No", f"{wrong} of {counted(len(found['outputs']), 'output')} {verb}"
    if not compared:
        return "warn", "As far as tested", "the outputs are random: shapes and dtypes agree"
    worst = max(_as_float(each["excess"]) for each in compared)
    what = f"{counted(len(found['outputs']), 'output')} on {counted(runs, 'run')}"
    return "good", "Yes", f"{what}; {_share(worst)}"


def _share(excess: float) -> str:
    if excess == 0:
        return "exactly equal"
    share = f"{excess:.2g}" if excess > 1 else f"{excess:.2%}" if excess >= 0.0001 else "under 0.01%"
    return f"the largest error is {share} of the tolerance"


def _as_float(value: Any) -> float:
    return float(value)


def _taken(findings: Mapping[str, Any]) -> tuple[str, str, str, str]:
    wanted = ", ".join(findings["targets"]) or "ONNX"
    rows: Sequence[Mapping[str, Any]] = findings["findings"]
    if not findings["ok"]:
        return "Does the target support it?", "bad", "No", f"{_of(findings)} for {wanted}"
    if rows:
        return "Does the target support it?", "warn", "Yes, with warnings", f"{_of(findings)} for {wanted}"
    return "Does the target support it?", "good", "Yes", wanted


def _needs(document: Mapping[str, Any]) -> tuple[str, str, str]:
    plan = document["plan"]
    routes = plan["routes"]
    if "aten" in routes:
        return "warn", "libtorch", f"{counted(routes['aten'], 'operator')} run by PyTorch, beside ONNX Runtime"
    if "fallthrough" in routes:
        return "warn", "Your own kernels", f"for {counted(routes['fallthrough'], 'operator')}"
    if plan["kernels"]:
        return "plain", "Kernels", listed(plan["kernels"], _MOST_NAMED)
    if "missing" in routes:
        return "bad", "Translations", f"for {counted(routes['missing'], 'operator')}"
    return "good", "Nothing else", "standard ONNX operators: any runtime of this opset"
