"""Rules: what targets do not take of a model, found with the line of its code, and what to do about it.

In: any ONNX file, and the names of targets. Out: `Findings`. A rule is a small class; those that read a target's facts
know nothing of any target. Imports `targets`, `onnx`, `base`, and what reads a file of `runtimes`.
"""

from opbridge.rules.findings import Finding, Findings
from opbridge.rules.formats import github_annotations, sarif
from opbridge.rules.lint import catalogue, lint
from opbridge.rules.rule import Rule

__all__ = ["Finding", "Findings", "Rule", "catalogue", "github_annotations", "lint", "sarif"]
