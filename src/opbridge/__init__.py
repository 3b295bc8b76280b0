"""Exports PyTorch models to ONNX and verifies the files against PyTorch.

plan = opbridge.check(model, args)                     # every operator, its route, what is missing and where
program = opbridge.export(model, args, "model.onnx")   # export, and compare with PyTorch
opbridge.session("model.onnx")                         # run it; torch is not needed for this
opbridge.verify("model.onnx", model, args)             # compare a file with PyTorch again
opbridge.lint("model.onnx", "tensorrt:10.15")          # what a target does not support in an ONNX file
opbridge.profile("model.onnx", model, args)            # where its time goes, beside PyTorch's

@opbridge.translation("mylib::foo")                    # register a translation for an operator
def foo(x, y, alpha: float = 1.0): ...

ops = opbridge.load("my_add.cpp")                      # a custom operator from one C++ file
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from opbridge.base.version import __version__ as __version__

if sys.version_info < (3, 11):  # noqa: UP036 - where pip was not asked; this file is one that Python 3.7 can read
    raise ImportError("opbridge needs Python 3.11 or newer, and this is Python " + sys.version.split()[0] + ".")

if TYPE_CHECKING:
    from opbridge.base.requirements import Use
    from opbridge.conversion import Conversion, convert
    from opbridge.errors import (
        BuildError,
        CaptureError,
        ConversionError,
        FixError,
        KernelError,
        MissingOperators,
        ModelFileError,
        OpbridgeError,
        PrecisionError,
        RequirementError,
        RunError,
        SaveError,
        TargetError,
        TranslationError,
        TranslationFault,
        UsageError,
        VerificationError,
    )
    from opbridge.extraction import Extracted, extract
    from opbridge.fixing.fix import Fixed, fix
    from opbridge.graph.decisions import Decision
    from opbridge.kernels.build import build
    from opbridge.kernels.load import load
    from opbridge.parts.data import ExportedParts
    from opbridge.parts.parts import Parts
    from opbridge.pipeline import check, export
    from opbridge.plan.data import Plan
    from opbridge.plan.inventory import inventory
    from opbridge.plan.rows import PlanRow
    from opbridge.precision import Narrowed, cast
    from opbridge.profiling import Profile, profile
    from opbridge.program import Program, session
    from opbridge.recording.groups import CallGroup
    from opbridge.recording.recorder import Recording, record
    from opbridge.rules.findings import Finding, Findings
    from opbridge.rules.lint import lint
    from opbridge.runtimes.limits import Limits
    from opbridge.symbolics.autograd_functions import shape_of
    from opbridge.symbolics.registered import override, symbolic
    from opbridge.symbolics.registering import register_symbolics
    from opbridge.translations.catalogue import translation_table
    from opbridge.translations.registry import translation
    from opbridge.verification import Verification, verify
    from opbridge.verification.bisection import Bisection, FileComparison, bisect, compare

# Where each public name is defined. Nothing is imported before it is used: `import opbridge` stays quick, and the parts
# that run a model do not need torch.
_HOMES = {
    "Bisection": "verification.bisection",
    "BuildError": "errors",
    "CallGroup": "recording.groups",
    "CaptureError": "errors",
    "Conversion": "conversion",
    "ConversionError": "errors",
    "Decision": "graph.decisions",
    "ExportedParts": "parts.data",
    "Extracted": "extraction",
    "FileComparison": "verification.bisection",
    "Finding": "rules.findings",
    "Findings": "rules.findings",
    "FixError": "errors",
    "Fixed": "fixing.fix",
    "KernelError": "errors",
    "Limits": "runtimes.limits",
    "MissingOperators": "errors",
    "ModelFileError": "errors",
    "Narrowed": "precision",
    "OpbridgeError": "errors",
    "Parts": "parts.parts",
    "Plan": "plan.data",
    "PlanRow": "plan.rows",
    "PrecisionError": "errors",
    "Profile": "profiling",
    "Program": "program",
    "Recording": "recording.recorder",
    "RequirementError": "errors",
    "RunError": "errors",
    "SaveError": "errors",
    "TargetError": "errors",
    "TranslationError": "errors",
    "TranslationFault": "errors",
    "UsageError": "errors",
    "Verification": "verification",
    "VerificationError": "errors",
    "bisect": "verification.bisection",
    "build": "kernels.build",
    "cast": "precision",
    "check": "pipeline",
    "compare": "verification.bisection",
    "convert": "conversion",
    "export": "pipeline",
    "extract": "extraction",
    "fix": "fixing.fix",
    "inventory": "plan.inventory",
    "lint": "rules.lint",
    "load": "kernels.load",
    "record": "recording.recorder",
    "register_symbolics": "symbolics.registering",
    "session": "program",
    "shape_of": "symbolics.autograd_functions",
    "symbolic": "symbolics.registered",
    "override": "symbolics.registered",
    "profile": "profiling",
    "translation": "translations.registry",
    "translation_table": "translations.catalogue",
    "verify": "verification",
}

# The packages that a name needs, by its home: none, those that run a model or work on ONNX files, and else all.
_USES: dict[str, Use | None] = {
    "conversion": "files",
    "errors": None,
    "extraction": "files",
    "fixing.fix": "files",
    "kernels.build": None,
    "precision": "files",
    "profiling": "files",
    "program": "run",
    "rules.findings": "files",
    "rules.lint": "files",
    "runtimes.limits": None,
    "translations.registry": "files",
}

__all__ = [
    "Bisection",
    "BuildError",
    "CallGroup",
    "CaptureError",
    "Conversion",
    "ConversionError",
    "Decision",
    "ExportedParts",
    "Extracted",
    "FileComparison",
    "Finding",
    "Findings",
    "FixError",
    "Fixed",
    "KernelError",
    "Limits",
    "MissingOperators",
    "ModelFileError",
    "Narrowed",
    "OpbridgeError",
    "Parts",
    "Plan",
    "PlanRow",
    "PrecisionError",
    "Profile",
    "Program",
    "Recording",
    "RequirementError",
    "RunError",
    "SaveError",
    "TargetError",
    "TranslationError",
    "TranslationFault",
    "UsageError",
    "Verification",
    "VerificationError",
    "bisect",
    "build",
    "cast",
    "check",
    "compare",
    "convert",
    "export",
    "extract",
    "fix",
    "inventory",
    "lint",
    "load",
    "override",
    "profile",
    "record",
    "register_symbolics",
    "session",
    "shape_of",
    "symbolic",
    "translation",
    "translation_table",
    "verify",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'opbridge' has no attribute '{name}'")
    use = _USES.get(home, "export")
    if use is not None:
        from opbridge.base.requirements import require

        require(use)
    value = getattr(importlib.import_module(f"opbridge.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
