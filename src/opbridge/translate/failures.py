"""Why a node was not built, in words: it cannot be translated, or its translation is at fault."""

from __future__ import annotations

import inspect
import os
from typing import Any

import onnxscript

from opbridge.base.sources import PACKAGE_FOLDER, raised_in
from opbridge.nodes import operator_nodes
from opbridge.plan.faults import Fault
from opbridge.plan.rows import Step

__all__ = ["fault", "is_users", "reason"]

_TRANSLATIONS = (
    os.path.join(PACKAGE_FOLDER, "translations"),
    os.path.join(os.path.dirname(onnxscript.__file__), "function_libs"),
)


def is_users(step: Step) -> bool:
    """Whether a step's translation is the user's."""
    return step.translation is not None and step.translation.origin == "user"


def reason(step: Step, raised_by: Step, error: BaseException) -> str:
    """Why an operator cannot be translated.

    Args:
        step: The operator's step.
        raised_by: The step that failed: the same, or one of the operators that it was decomposed into.
        error: What was raised. The words of a symbolic function name it already.
    """
    text = _first_line(error)
    if raised_by.translation is not None and raised_by.translation.form == "symbolic":
        return text
    if is_users(raised_by):
        place = raised_in(error, *_files(raised_by))
        kind = "" if isinstance(error, NotImplementedError) else f"{type(error).__name__}: "
        return _sentence(f"Its {_described(raised_by)} failed at {place}, in {place.function}: {kind}{text}")
    return _sentence(f"Its {_described(step)} failed: {text}")


def fault(operator: str, step: Step, raised_by: Step, error: BaseException) -> Fault:
    """The fault of a translation of opbridge's own, or of torchlib's.

    Args:
        operator: The operator that was translated.
        step: Its step.
        raised_by: The step that failed: the same, or one of the operators that it was decomposed into.
        error: What was raised.
    """
    what = _describe(raised_by)
    if raised_by is not step:
        what = f"{_describe(step)}, by the {what}"
    return Fault(operator, what, raised_in(error, *_TRANSLATIONS), error)


def _described(step: Step) -> str:
    """What failed, as the subject of a sentence."""
    said = _describe(step)
    return f"{said}," if ", " in said else said


def _describe(step: Step) -> str:
    if step.translation is not None:
        return step.translation.describe()
    if step.graph is None and step.route in operator_nodes.ROUTES:
        return f"{step.route} node"
    return "decomposition" if step.graph is not None else "control flow"


def _files(step: Step) -> list[str]:
    """The file of a user's translation."""
    function: Any = step.translation.function if step.translation is not None else None
    function = inspect.unwrap(getattr(function, "func", None) or getattr(function, "function", None) or function)
    code = getattr(function, "__code__", None)
    return [code.co_filename] if code is not None else []


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{text[0] if text else type(error).__name__}"
