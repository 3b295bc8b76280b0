"""Why a model could not be captured: the user's line, what stands in the way there, and what to write instead."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType

import numpy
import torch

from opbridge.base import sources
from opbridge.base.sources import Source, innermost

__all__ = [
    "advise",
    "advise_eager",
    "advise_others",
    "advise_shapes",
    "is_data_dependent",
    "is_final",
    "is_shape_violation",
    "model_line",
    "reason",
]

_KEEP_TENSOR = (
    "Keep it a tensor (one of no dimensions acts like a number, and a Python list to index becomes a tensor as well); "
    "where it is a size, state its range with torch._check."
)


@dataclass(frozen=True)
class _Rule:
    """One kind of failure.

    Attributes:
        said: What torch's error matches, as "Type: message". Its named groups go into the two texts.
        line: What the user's line matches.
        what: What stands in the way; a clause.
        instead: What to write instead; sentences.
    """

    said: str
    line: str
    what: str
    instead: str


_DATA_DEPENDENT = r"data-dependent|DataDependentOutputException"
_SHAPE_VIOLATION = (
    r"Constraints violated|Specializations unexpectedly|conflicts between user-specified|ConstraintViolationError"
)
_ANY = ""

# The first one that matches is taken.
_RULES = (
    _Rule(
        _DATA_DEPENDENT,
        r"^while\b",
        "a Python while loop runs as long as the values of a tensor say",
        "Use torch.while_loop(condition, body, (x,)), or a fixed number of passes with torch.where.",
    ),
    _Rule(
        _DATA_DEPENDENT,
        r"^for\b.*\brange\(",
        "the number of passes of a Python loop depends on the values of a tensor",
        "Loop to a fixed maximum and mask with torch.where, or replace the loop by operators on whole tensors.",
    ),
    _Rule(
        _DATA_DEPENDENT,
        r"^assert\b",
        "an assert looks at the values of a tensor",
        "Skip it while exporting: `if not torch.compiler.is_exporting():` above it.",
    ),
    _Rule(
        _DATA_DEPENDENT,
        r"\bif\b.*(\.shape\b|\.size\(|\blen\(|\.numel\()",
        "a Python `if` depends on a size that only the data decides (as after nonzero, unique or a boolean mask)",
        "State what holds with torch._check before the line, or keep the size fixed: torch.where with a mask in place "
        "of a selection.",
    ),
    _Rule(
        _DATA_DEPENDENT,
        r"\b(if|elif)\b",
        "a Python `if` depends on the values of a tensor, and a graph has both branches or none",
        "Use torch.where(condition, a, b), or torch.cond(condition, f, g, (x,)) where only one branch is to run.",
    ),
    _Rule(
        _DATA_DEPENDENT,
        r"\bbool\(|\b(and|or|not)\b|\ballclose\(|\bequal\(",
        "the values of a tensor are turned into a Python bool",
        "Keep it a tensor: &, |, ~, torch.all, (a == b).all(), and torch.where or torch.cond to choose.",
    ),
    _Rule(_DATA_DEPENDENT, _ANY, "Python needs a number here that only the values of a tensor decide", _KEEP_TENSOR),
    _Rule(
        r"UnsupportedOperatorException: (?P<namespace>\w+)\.(?P<name>\w+)",
        _ANY,
        "the operator {namespace}::{name} has no fake (meta) implementation, so that the shape of its output is "
        "unknown until it has run",
        'Give it one: @torch.library.register_fake("{namespace}::{name}") above a function of the same arguments that '
        "returns an empty tensor of the right shape and dtype, such as torch.empty_like(x).",
    ),
    _Rule(
        r"\.numpy\(\) is not supported|numpy\.ndarray|__array__",
        _ANY,
        "a tensor becomes a NumPy array, which no graph can hold",
        "Use the torch function in its place, or make the NumPy code an operator with torch.library.custom_op and give "
        "it a register_fake.",
    ),
    _Rule(
        r"ufunc does not support argument \d of type Sym",
        _ANY,
        "a NumPy function is applied to a size that is dynamic",
        "Use Python's arithmetic (x.shape[0] ** 0.5) or torch in its place.",
    ),
    _Rule(
        r"data is not allocated yet",
        r"\b(tensor|as_tensor|array)\(",
        "a tensor is built from the values of other tensors",
        "Use torch.stack or torch.cat in place of torch.tensor.",
    ),
    _Rule(
        r"data pointer|data is not allocated yet",
        _ANY,
        "native code (a C++ extension, a Triton or CUDA kernel) reads the tensor's memory, which a trace cannot follow",
        "Make it an operator with torch.library.custom_op and give it a register_fake.",
    ),
    _Rule(
        r"Found <class '(?P<name>[\w.]*Cache)'> in output",
        _ANY,
        "the model returns a {name}, which torch does not know as a container of tensors",
        "Switch the cache off (use_cache=False among the inputs, or model.config.use_cache = False).",
    ),
    _Rule(
        r"Found <class '(?P<name>[^']+)'> in output|unrecognized type (?P<variable>\S+) at output",
        _ANY,
        "the model returns a {name}, which torch does not know as a container of tensors",
        "Return tensors in a tuple, list, dict or dataclass.",
    ),
    _Rule(
        r"format string passed to FakeTensor",
        _ANY,
        "the value of a tensor is formatted into text",
        "Skip it while exporting: `if not torch.compiler.is_exporting():` above it.",
    ),
    _Rule(
        r"(must be|found element of type|but got|not) .*\bSym(Int|Float|Bool)\b",
        _ANY,
        "an operator wants a plain Python number here, and this one is computed from a tensor or a dynamic size",
        "Give it a constant, or an operator that takes a tensor in that place.",
    ),
    _Rule(
        r"size of tensor .*\(.*[a-z]\d+.*\) must match",
        _ANY,
        "a dimension of size 1 in the example is dynamic, and is broadcast here, which a dynamic dimension never is",
        "Leave it out of dynamic_shapes, or give an example in which the two sizes are equal.",
    ),
    _Rule(
        r"convert all Tensors to FakeTensors",
        _ANY,
        "a tensor takes part that is no input, parameter or buffer of the model",
        "Register it with register_buffer, or make it an input.",
    ),
    _Rule(
        r"Must provide a tree_name",
        _ANY,
        "this release of torch takes no dynamic shapes for inputs that arrive in **kwargs",
        "Give forward a parameter of that name, or use a newer torch (2.15 takes them).",
    ),
)


def advise(error: BaseException, *, mode: bool = False) -> str:
    """A paragraph about a failure of torch.export, and the line of the model that it happened on.

    Args:
        error: What torch.export raised.
        mode: Whether that is so in training mode only, in which the model is.
    """
    source, caller = _origin(error)
    what, instead = _matched(error, source)
    if mode:
        instead = f"That is so in training mode only: for inference call model.eval() first. For training: {instead}"
    via = f", called at {caller}," if caller else ","
    where = f"at {source}, in {source.function}{via} " if source else ""
    return _with_code(f"The model cannot be captured: {where}{what}. {instead}", source)


def advise_eager(error: BaseException, inputs: str) -> str:
    """A paragraph about a model that fails without any export."""
    source, _ = _origin(error)
    where = f" at {source}, in {source.function}" if source else ""
    said = _first_line(error)
    return _with_code(
        f"The model itself fails on these inputs in plain PyTorch, without an export{where}: "
        f"{type(error).__name__}{': ' if said else ''}{said}. Correct the example inputs ({inputs}) or the model.",
        source,
    )


def advise_shapes(error: BaseException, demands: Sequence[tuple[str, Source | None]]) -> str:
    """A paragraph about dynamic shapes that the model does not allow.

    Args:
        error: What torch.export raised.
        demands: What the model needs of its sizes, from `capture_sizes.settle_sizes`.
    """
    told = "; ".join(f"{text} ({source})" if source else text for text, source in demands[:4])
    suggested = re.search(r"Suggested fixes:\n(.*?)(\n\s*\n|$)", str(error), re.DOTALL)
    fixes = "; ".join(line.strip() for line in suggested[1].splitlines() if line.strip()) if suggested else ""
    if not told:
        bullets = re.findall(r"^\s*- (.*)$", str(error), re.MULTILINE)
        told = _readable_sizes(bullets[0] if bullets else _first_line(error)).rstrip(".")
    remedy = (
        f"Say so in dynamic_shapes, as torch.export suggests ({fixes.replace(', max=oo', '')})"
        if fixes
        else "Leave the dimension out of dynamic_shapes, or let torch decide with Dim.AUTO"
    )
    number = any(re.search(r"^\S+ == \d+$", text) for text, _ in demands)
    hint = " (x.shape[0] itself, not len(x), int(...) or a Python loop over it)" if number else ""
    return _with_code(
        f"The model does not allow the dynamic shapes that it was given: it needs {told}. {remedy}; or change the line "
        f"so that any size will do{hint}.",
        next((source for _, source in demands if source), None),
    )


def advise_others(error: BaseException, demands: Sequence[tuple[str, Source | None]]) -> str:
    """A paragraph about further inputs that a capture does not take."""
    said = "; ".join(f"{text} ({source})" if source else text for text, source in demands[:4]) or _first_line(error)
    return (
        f"The capture does not take all of the additional inputs that dynamic_shapes holds: it needs {said}. Leave out "
        "those that it does not take, or change the model so that it takes them."
    )


def reason(error: BaseException) -> str:
    """The same as `advise` in a clause, for a note."""
    source, _ = _origin(error)
    what, _ = _matched(error, source)
    return f"at {source}, {what}" if source else what


def is_data_dependent(error: BaseException) -> bool:
    """Whether Python asked for what only the data decides."""
    return re.search(_DATA_DEPENDENT, _said(error)) is not None


def is_final(error: BaseException) -> bool:
    """Whether the strict mode fails on the same."""
    return re.search(r"UnsupportedOperatorException|Found <class '(?!numpy)", _said(error)) is not None


def is_shape_violation(error: BaseException) -> bool:
    """Whether the model and the dynamic shapes contradict each other."""
    return re.search(_SHAPE_VIOLATION, _said(error)) is not None


def model_line(frame: FrameType | None = None) -> str:
    """The innermost line of the model that is running now, as a traceback shows it; empty where none is."""
    frame = frame or sys._getframe(1)
    # Beyond the capture is whoever called it, who is not the model.
    while frame is not None and not (frame.f_code.co_name == "_export" and _is_ours(frame.f_code.co_filename)):
        if _is_model(frame.f_code.co_filename):
            summary = traceback.FrameSummary(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
            return "".join(traceback.format_list([summary]))
        frame = frame.f_back
    return ""


def _matched(error: BaseException, source: Source | None) -> tuple[str, str]:
    said, line = _said(error), source.code if source else ""
    for rule in _RULES:
        found = re.search(rule.said, said)
        if found and re.search(rule.line, line):
            groups = {name: text or "class" for name, text in found.groupdict().items()}
            return rule.what.format(**groups), rule.instead.format(**groups)
    return (
        f"torch.export says: {_first_line(error).rstrip('.')}",
        "Its whole error is the cause of this one, and torch.export.draft_export lists every obstacle at once.",
    )


def _origin(error: BaseException) -> tuple[Source | None, Source | None]:
    """The innermost line of the model, and, where that is a library's, the line of the user that led there."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_model(frame.filename)]
    if not frames:
        return None, None
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


def _said(error: BaseException) -> str:
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
