"""Why a model could not be captured: the user's line, what stops the capture there, and what to write instead."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Sequence
from types import FrameType

import numpy
import torch

from opbridge.base import sources
from opbridge.base.sources import Source, innermost, noted_sources, raised_at
from opbridge.capture.advice_rules import RULES
from opbridge.capture.device_errors import device_advice
from opbridge.capture.stated_sizes import Dimension, statement, statement_of_multiples
from opbridge.errors import CaptureError, KernelError

__all__ = [
    "advise",
    "advise_branch",
    "advise_eager",
    "advise_others",
    "advise_shapes",
    "model_line",
    "reason",
    "with_line",
]


def advise(error: BaseException, *, mode: bool = False) -> str:
    """A paragraph about a failure of the capture, and the line of the model that it happened on.

    Args:
        error: What torch raised.
        mode: Whether the model is in training mode, and can be captured in evaluation mode.
    """
    source, caller = _origin(error)
    what, instead = _matched(error, source)
    if mode:
        instead = f"This applies to training mode only. For inference, call model.eval() first. For training: {instead}"
    via = f", called at {caller}," if caller else ","
    where = f"at {source}, in {source.function}{via} " if source else ""
    return _with_code(f"The model cannot be captured: {where}{what}. {instead}", source)


def advise_eager(error: BaseException, inputs: str) -> str:
    """A paragraph about a model that fails in eager mode too."""
    source, _ = _origin(error)
    where = f" at {source}, in {source.function}" if source else ""
    message = _first_line(error).rstrip(".")
    instead = device_advice(error) or f"Correct the example inputs ({inputs}) or the model."
    return _with_code(
        f"The model itself fails on these inputs in plain PyTorch, without an export{where}: "
        f"{type(error).__name__}{': ' if message else ''}{message}. {instead}",
        source,
    )


def advise_shapes(
    error: BaseException, demands: Sequence[tuple[str, Source | None]], dimensions: Sequence[Dimension] = ()
) -> str:
    """A paragraph about dynamic shapes that the model does not allow; what to write instead comes first.

    Args:
        error: What torch raised.
        demands: The conditions of the model on its sizes, from `size_constraints.constrain_sizes`.
        dimensions: The dynamic dimensions of the inputs.
    """
    needed = "; ".join(f"{text} ({source})" if source else text for text, source in demands[:4])
    stated = statement([text for text, _ in demands[:4]], dimensions)
    if not stated and (stated := statement_of_multiples([text for text, _ in demands], dimensions)):
        text, source = demands[0]  # the others say the same of other multiples
        needed = f"{text} ({source})" if source else text
    suggested = re.search(r"Suggested fixes:\n(.*?)(\n\s*\n|$)", str(error), re.DOTALL)
    lines = suggested[1].splitlines() if suggested else []
    fixes = "; ".join(line.strip() for line in lines if line.strip())
    if not needed:
        bullets = re.findall(r"^\s*- (.*)$", str(error), re.MULTILINE)
        needed = _readable_sizes(bullets[0] if bullets else _first_line(error)).rstrip(".")
    number = any(re.search(r"^\S+ == \d+$", text) for text, _ in demands)
    source = next((source for _, source in demands if source), None)
    instead = _instead(source.code if source else "") if number else ""
    hint = f" ({instead})" if instead else ""
    otherwise = f"change the line so that it works for any size{hint}."
    if stated:
        return _with_code(
            f"{stated}: the model does not support the dynamic shapes that were given, because "
            f"it requires {needed}. Or {otherwise}",
            source,
        )
    remedy = (
        f"State this in dynamic_shapes ({fixes.replace(', max=oo', '')})"
        if fixes
        else "Leave the dimension out of dynamic_shapes, or use Dim.AUTO"
    )
    return _with_code(
        f"The model does not support the dynamic shapes that were given: it requires {needed}. {remedy}, or "
        f"{otherwise}",
        source,
    )


def _instead(line: str) -> str:
    """What to write in the place of a line that fixes a size."""
    if re.search(r"\bfor\b.*\bin\b", line):
        return (
            "a Python loop runs as often as in the example: use operators on the whole tensor; torch.vmap(f)(x) if "
            "the iterations are independent; torch.while_loop if an iteration depends on the previous one"
        )
    if re.search(r"\.(unbind|split|chunk|tolist)\(|\b(list|tuple|zip|enumerate)\(|\*\w+\s*(,.*)?=", line):
        return "as many tensors as in the example: use operators on the whole tensor instead"
    if re.search(r"\bnp\.|\bnumpy\.", line):
        return "use torch's functions of x.shape[0], or those of math, instead of NumPy's"
    if re.search(r"\bif\b|==|\.squeeze\(", line):
        return ""
    return "use x.shape[0] itself, without converting it to a plain number, for example by operator.index"


def advise_others(error: BaseException, demands: Sequence[tuple[str, Source | None]]) -> str:
    """A paragraph about additional inputs for which a capture is not valid."""
    needed = "; ".join(f"{text} ({source})" if source else text for text, source in demands[:4]) or _first_line(error)
    return (
        f"The capture is not valid for all of the additional inputs in dynamic_shapes: it requires {needed}. Leave "
        "the others out, or change the model so that it supports them."
    )


def with_line(error: CaptureError | KernelError) -> str:
    """What an error of opbridge's says, with the line of the model that it was raised at in its first sentence."""
    said, line = str(error), raised_at(error)
    if line is None or str(line) in said:
        return said
    first = re.search(r"(?<=[^.])\.(?= [A-Z]|$)", said.partition("\n")[0])
    at = len(said) if first is None else first.start()
    return f"{said[:at]} (at {line}){said[at:]}"


def advise_branch(error: Exception, condition: BaseException) -> str | None:
    """A paragraph about a line that stops the capture of a branch; None where the line is not known.

    Args:
        error: What stops the capture.
        condition: What was raised for the data-dependent condition, of which all branches are captured.
    """
    line, asked = raised_at(error) or _origin(error)[0], _origin(condition)[0]
    if line is None:
        return None
    said = with_line(error) if isinstance(error, CaptureError) else advise(error)
    if asked is None or str(asked) == str(line):
        return said
    return f"{said}\nThe line runs in a branch of the data-dependent condition at {asked}."


def reason(error: BaseException) -> str:
    """The same as `advise` in a clause, for a note."""
    source, _ = _origin(error)
    what, _ = _matched(error, source)
    return f"at {source}, {what}" if source else what


def model_line(frame: FrameType | None = None) -> str:
    """The innermost line of the model that is running now, as a traceback shows it; empty where none is."""
    frame = frame or sys._getframe(1)
    # Frames outside of the capture are those of its caller, not of the model.
    while frame is not None and not (frame.f_code.co_name == "capture_once" and _is_ours(frame.f_code.co_filename)):
        if _is_model(frame.f_code.co_filename):
            summary = traceback.FrameSummary(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
            return "".join(traceback.format_list([summary]))
        frame = frame.f_back
    return ""


def _matched(error: BaseException, source: Source | None) -> tuple[str, str]:
    message, line = _error_text(error), source.code if source else ""
    for rule in RULES:
        found = re.search(rule.pattern, message)
        if found and re.search(rule.line, line):
            groups = {name: text or "class" for name, text in found.groupdict().items()}
            groups["short"] = str(groups.get("name")).rpartition(".")[2]
            return rule.what.format(**groups), rule.instead.format(**groups)
    said = _first_line(error).rstrip(".") or f"{type(error).__name__}, without a message"
    return (
        f"PyTorch reports: {said}",
        "The full error of PyTorch is the cause of this one; torch.export.draft_export lists all problems at once.",
    )


def _origin(error: BaseException) -> tuple[Source | None, Source | None]:
    """The innermost line of the model, and, where that is a library's, the line of the user that led there."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_model(frame.filename)]
    if not frames:
        return next(iter(noted_sources(error)), None), None
    own = [frame for frame in frames if not _is_library(frame.filename)]
    caller = own[-1] if own and _is_library(frames[-1].filename) else None
    return _source(frames[-1]), _source(caller)


def _source(frame: traceback.FrameSummary | None) -> Source | None:
    return next(iter(innermost("".join(traceback.format_list([frame])))), None) if frame else None


def _is_library(file: str) -> bool:
    return f"{os.sep}site-packages{os.sep}" in file or f"{os.sep}dist-packages{os.sep}" in file


def _is_ours(file: str) -> bool:
    return os.path.dirname(file) == os.path.dirname(__file__)


def _is_model(file: str) -> bool:
    """Whether a line of this file may be the model's: not torch's, NumPy's, Python's or ours."""
    if file.startswith("<") or file.startswith(_FOREIGN):
        return False
    return _is_library(file) or not file.startswith(_STANDARD)


_FOREIGN = (
    *(os.path.join(os.path.dirname(package.__file__ or ""), "") for package in (torch, numpy)),
    sources.PACKAGE_FOLDER,
)
_STANDARD = tuple({os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "platstdlib")})


def _error_text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _first_line(error: BaseException) -> str:
    """The first line of a message that says anything, without the address of a manual."""
    lines = (line.strip() for line in str(error).splitlines())
    line = next((line for line in lines if line), "")
    line = re.sub(r"\s*(For more information|See https?:|https?://).*$", "", line)
    if len(line) > 200:
        line = re.split(r"(?<=[a-z)\]'])\. (?=[A-Z])", line)[0]
    return line if len(line) <= 300 else f"{line[:300].rstrip()} ..."


def _readable_sizes(text: str) -> str:
    text = re.sub(r"\bL\['(\w+)'\]", r"\1", text.partition(" If you're using")[0])
    return text.replace(".size()[", ".shape[")


def _with_code(paragraph: str, source: Source | None) -> str:
    return f"{paragraph}\n    {source.code}" if source and source.code else paragraph
