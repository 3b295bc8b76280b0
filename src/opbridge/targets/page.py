"""Operators against targets, as a page."""

from __future__ import annotations

from collections import Counter
from typing import Any

from opbridge.targets import table

__all__ = ["document"]

STATES = [["yes", "good"], ["partly", "warn"], ["no", "bad"], ["not known", "none"]]

_KNOWN_FROM = {"m": "measured with ONNX's node tests", "p": "published", "a": "asked of what is installed"}


def document() -> dict[str, Any]:
    """What the page shows: a row for each operator of ONNX, a column for each target."""
    targets = table.compared()
    facts = [_facts(each.document()["facts"]) for each in targets]
    rows = []
    columns: list[Counter[str]] = [Counter() for _ in targets]
    for operator, *cells in table.rows(targets):
        found = []
        for position, text in enumerate(cells):
            state, _, letters = text.partition(" ")
            state = state or "not known"
            columns[position][state] += 1
            how = " and ".join(_KNOWN_FROM[letter] for letter in letters)
            found.append({"s": state, "p": how, "t": facts[position].get(operator, []) if state != "yes" else []})
        rows.append({"n": operator, "g": operator[:1], "c": found})
    return {
        "kind": "targets",
        "title": "Supported ONNX operators by target",
        "what": "operator",
        "groups": "letter",
        "states": STATES,
        "columns": [
            {
                "name": each.name,
                "release": each.version,
                "title": each.title,
                "share": (counts["yes"] + counts["partly"]) / len(rows),
                "line": f"{counts['yes']} of {len(rows)} supported, {counts['partly']} partly",
                "counts": {name: counts[name] for name, _ in STATES if counts[name]},
                "versions": {each.name: each.version},
                "file": "",
            }
            for each, counts in zip(targets, columns, strict=True)
        ],
        "rows": rows,
    }


def _facts(facts: list[dict[str, Any]]) -> dict[str, list[dict[str, str]]]:
    """What is known of each operator, with where that is known from."""
    found: dict[str, list[dict[str, str]]] = {}
    for each in facts:
        if each["kind"] == "only":
            continue
        plain = ("kind", "operators", "source", "severity", "note", "since", "until")
        said = ", ".join(f"{name}: {_text(value)}" for name, value in each.items() if name not in plain and value)
        text = ". ".join(filter(None, (each["note"].rstrip("."), said, each["source"])))
        for operator in each["operators"]:
            found.setdefault(operator, []).append({"l": each["kind"], "s": each["severity"], "m": text, "o": ""})
    return found


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple, set, frozenset)) else str(value)
