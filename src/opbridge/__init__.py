"""Carries any PyTorch operator to ONNX and proves that it runs.

plan = opbridge.check(model, args)                     # every operator, its route, what is missing and where
program = opbridge.export(model, args, "model.onnx")   # export, and compare with PyTorch
opbridge.session("model.onnx")                         # run it; torch is not needed for this
opbridge.verify("model.onnx", model, args)             # compare a file with PyTorch again

@opbridge.translation("mylib::foo")                    # teach it an operator
def foo(x, y, alpha: float = 1.0): ...
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from opbridge.errors import (
        CaptureError,
        MissingOperators,
        ModelFileError,
        OpbridgeError,
        SaveError,
        TranslationError,
        UsageError,
        VerificationError,
    )
    from opbridge.pipeline import check, export
    from opbridge.plan import Plan, PlanRow
    from opbridge.program import Program, session
    from opbridge.registry import translation, translation_table
    from opbridge.symbolics.functions import shape_of
    from opbridge.symbolics.registered import symbolic
    from opbridge.symbolics.registering import register_symbolics
    from opbridge.verification import Verification, verify

# Where each public name is defined. Nothing is imported before it is used: `import opbridge` stays quick, and the parts
# that run a model do not need torch.
_HOMES = {
    "CaptureError": "errors",
    "MissingOperators": "errors",
    "ModelFileError": "errors",
    "OpbridgeError": "errors",
    "Plan": "plan",
    "PlanRow": "plan",
    "Program": "program",
    "SaveError": "errors",
    "TranslationError": "errors",
    "UsageError": "errors",
    "Verification": "verification",
    "VerificationError": "errors",
    "check": "pipeline",
    "export": "pipeline",
    "register_symbolics": "symbolics.registering",
    "session": "program",
    "shape_of": "symbolics.functions",
    "symbolic": "symbolics.registered",
    "translation": "registry",
    "translation_table": "registry",
    "verify": "verification",
}

__all__ = [
    "CaptureError",
    "MissingOperators",
    "ModelFileError",
    "OpbridgeError",
    "Plan",
    "PlanRow",
    "Program",
    "SaveError",
    "TranslationError",
    "UsageError",
    "Verification",
    "VerificationError",
    "check",
    "export",
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
    value = getattr(importlib.import_module(f"opbridge.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
