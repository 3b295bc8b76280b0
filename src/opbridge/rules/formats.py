"""Findings in the forms that other programs read: SARIF, and the annotations of a code host."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from opbridge.base.version import __version__
from opbridge.rules.findings import Finding, Findings
from opbridge.rules.lint import catalogue

__all__ = ["github_annotations", "sarif"]

_PLACE = re.compile(r"(?P<file>.+):(?P<line>\d+)$")


def sarif(findings: Findings) -> dict[str, Any]:
    """The findings as a log in SARIF 2.1.0 (OASIS), with the lines of the model's code as locations."""
    named = {each.rule for each in findings}
    rules = [each for each in catalogue() if each.identifier in named]
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "opbridge",
                        "version": __version__,
                        "rules": [
                            {
                                "id": each.identifier,
                                "shortDescription": {"text": each.title},
                                "fullDescription": {"text": each.why},
                                "help": {"text": each.remedy},
                            }
                            for each in rules
                        ],
                    }
                },
                "results": [_result(each, findings.model) for each in findings],
            }
        ],
    }


def _result(finding: Finding, model: str) -> dict[str, Any]:
    file, line = _place(finding)
    physical: dict[str, Any] = {"artifactLocation": {"uri": file or model}}
    if line:
        physical["region"] = {"startLine": line}
    location: dict[str, Any] = {"physicalLocation": physical}
    if finding.node:
        location["logicalLocations"] = [{"name": finding.node, "kind": finding.operator}]
    return {
        "ruleId": finding.rule,
        "level": finding.severity,
        "message": {"text": f"{finding.message} {finding.remedy}"},
        "locations": [location],
    }


def github_annotations(findings: Findings) -> Iterator[str]:
    """The findings as workflow commands of GitHub Actions, one line each, which it shows at the lines of the code."""
    for finding in findings:
        file, line = _place(finding)
        where = [f"file={_property(file or findings.model)}"] + ([f"line={line}"] if line else [])
        settings = ",".join([*where, f"title={_property(finding.rule)}"])
        yield f"::{finding.severity} {settings}::{_data(f'{finding.message} {finding.remedy}')}"


def _place(finding: Finding) -> tuple[str, int]:
    found = _PLACE.match(finding.place)
    return (found["file"], int(found["line"])) if found else ("", 0)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
