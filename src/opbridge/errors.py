"""The errors that opbridge raises on purpose.

Each one is a paragraph for a person: what happened, to which operator, on which line of the model, and what to do
next. The command line prints it and ends with `exit_status`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

__all__ = [
    "BuildError",
    "CaptureError",
    "ConversionError",
    "FixError",
    "KernelError",
    "MissingOperators",
    "ModelFileError",
    "OpbridgeError",
    "PrecisionError",
    "RequirementError",
    "RunError",
    "SaveError",
    "TargetError",
    "TranslationError",
    "TranslationFault",
    "UsageError",
    "VerificationError",
    "printable",
]


class OpbridgeError(Exception):
    """The base of every error that opbridge raises on purpose.

    Attributes:
        exit_status: What the command line exits with: 1 when the answer is no, 2 when the question was wrong, 3 for a
            fault of opbridge's own.
        report: The page that shows what was found out before the error; None: none was asked for.
    """

    exit_status = 2
    report: Path | None = None

    def __str__(self) -> str:
        """The message, in which what controls a terminal is escaped: names come from files that others made."""
        return printable(super().__str__())


def printable(text: str) -> str:
    r"""A text with control characters as escapes: "\x1b[2J". Line breaks and tabs stay.

    So do not those that change the order in which text is shown, with which one name can look like another, and bytes
    of file names that are no UTF-8.
    """
    return text if text.isascii() and text.isprintable() else _CONTROL.sub(_escaped, text)


# C0 but for tabs and line breaks, DEL and C1; marks and overrides of the direction, line and paragraph separators;
# surrogates.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


class UsageError(OpbridgeError):
    """An argument that cannot be used: a wrong kind of input, an opset out of range, an unknown route."""


class RequirementError(OpbridgeError, ImportError):
    """A package that is needed is not installed, or its release is too old or too new.

    It is an ImportError too, for code that goes on without what it cannot import.

    Attributes:
        name: The first package of those that the message names.
    """


class CaptureError(OpbridgeError):
    """torch.export could not capture the model; the message names the model's line and what to write instead."""

    exit_status = 1


class TranslationError(OpbridgeError):
    """A translation was called and could not build its nodes."""

    exit_status = 1


class ConversionError(OpbridgeError):
    """A model cannot be put at an opset, or its results would change there.

    Attributes:
        refusals: The nodes that have no form at that opset.
        comparison: How the models compare, where they were run.
    """

    exit_status = 1

    def __init__(self, message: str, refusals: Sequence[Any] = (), comparison: Any = None) -> None:
        self.refusals, self.comparison = list(refusals), comparison
        super().__init__(message)


class SaveError(OpbridgeError):
    """The file could not be written; what stood at the path before is still there."""


class ModelFileError(OpbridgeError):
    """An ONNX file that does not exist, is damaged, or that the runtime refuses to load."""


class RunError(OpbridgeError):
    """A run in a process of its own failed, ended that process, or was over its limits."""


class BuildError(OpbridgeError):
    """A kernel does not compile, or there is no compiler; the message is the compiler's."""

    exit_status = 1


class KernelError(OpbridgeError):
    """A library of kernels cannot be used: it is none, its schema and functions disagree, or its name is taken."""

    exit_status = 1


class _Plan(Protocol):
    """As much of `opbridge.Plan` as its error needs: errors are beneath everything, and import nothing."""

    rows: list[Any]

    @property
    def missing(self) -> list[Any]: ...

    def describe_missing(self) -> str: ...


class _PlanWithFaults(_Plan, Protocol):
    @property
    def faults(self) -> Any: ...

    def describe_faults(self) -> str: ...


class _Verification(Protocol):
    """As much of `opbridge.Verification` as its error needs."""

    def describe_mismatch(self) -> str: ...


class MissingOperators(OpbridgeError):
    """Operators of the model have no route.

    Attributes:
        plan: The whole plan, in which the missing operators stand beside those that have a route.
    """

    exit_status = 1

    def __init__(self, plan: _Plan) -> None:
        self.plan = plan
        super().__init__(plan.describe_missing())


class TranslationFault(OpbridgeError):
    """Translations of opbridge's own, or of torchlib, raised something that they may not: a bug.

    The first exception is the cause of this one.

    Attributes:
        plan: The whole plan; `plan.faults` are the translations, with the exceptions.
    """

    exit_status = 3

    def __init__(self, plan: _PlanWithFaults) -> None:
        self.plan = plan
        super().__init__(plan.describe_faults())


class FixError(OpbridgeError):
    """A model that was repaired was not shown to give what it gave before; nothing was written."""

    exit_status = 1


class PrecisionError(OpbridgeError):
    """A model cannot be cast to float16 or bfloat16, or its results would be too far from float32's.

    Attributes:
        result: The model with its comparison, where it came to one.
    """

    exit_status = 1

    def __init__(self, message: str, result: Any = None) -> None:
        self.result = result
        super().__init__(message)


class _Findings(Protocol):
    """As much of `opbridge.rules.Findings` as its error needs."""

    def document(self) -> dict[str, Any]: ...


class TargetError(OpbridgeError):
    """The target does not take the exported model, and no repair mends that.

    Attributes:
        findings: All that was found, warnings among them.
        file: Where the exported model was kept, `NAME.failed.onnx`; None where it was not meant for a file.
    """

    exit_status = 1

    def __init__(self, message: str, findings: _Findings, file: Path | None = None) -> None:
        self.findings, self.file = findings, file
        super().__init__(message)


class VerificationError(OpbridgeError):
    """The exported model and PyTorch do not agree.

    Attributes:
        verification: Every comparison that was made, and the first operator that differs.
        file: Where the exported model was kept, `NAME.failed.onnx`; None where it was not meant for a file.
    """

    exit_status = 1

    def __init__(self, verification: _Verification, file: Path | None = None, kept: str = "") -> None:
        """Args:
        verification: The comparison.
        file: Where the exported model was kept.
        kept: What stands on the disk now, as a sentence.
        """
        self.verification, self.file = verification, file
        text = verification.describe_mismatch()
        super().__init__(f"{text} {kept}" if kept else text)
