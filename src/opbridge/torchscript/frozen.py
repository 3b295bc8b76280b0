"""The values that a trace made constants.

During a trace, Python runs once, on the example inputs. Values of tensors that Python reads become constants of the
graph, and torch emits a TracerWarning for each. This module collects these warnings instead of printing them, each with
the model's line.
"""

from __future__ import annotations

import contextlib
import os
import re
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from opbridge.base.sources import Source, innermost
from opbridge.base.torch_private import torchscript_export

__all__ = ["Frozen", "collecting"]

_TORCH = os.path.join(os.path.dirname(torch.__file__), "")
_ONNX = os.path.join(_TORCH, "onnx", "")
_BEGINS = torchscript_export.__file__
"""The file that calls the model: the frames of the model are inside of its frame."""

# Patterns of torch's warnings, and what they mean. The first match is used.
_MEANINGS = (
    (
        r"Converting a tensor to a Python boolean",
        "a condition on the values of a tensor is evaluated here with the example's values",
    ),
    (r"Converting a tensor to a Python (integer|index)", "a tensor becomes a Python int, with the example's value"),
    (r"Converting a tensor to a Python float", "a tensor becomes a Python float, with the example's value"),
    (r"Converting a tensor to a Python (number|complex)", "a tensor becomes a Python number, with the example's value"),
    (r"Converting a tensor to a Python list", "a tensor becomes a Python list, with the example's values"),
    (r"Converting a tensor to a NumPy array", "a tensor becomes a NumPy array, with the example's values"),
    (r"Iterating over a tensor", "a Python loop over a tensor runs as often as in the example"),
    (r"Using len to get tensor shape", "len() returns the size in the example"),
    (r"(torch\.\w+) results are registered as constants", "\\1 makes its argument a constant"),
)

# A warning of torch's that accompanies a TracerWarning for the same line.
_FOLLOWS = "To copy construct from a tensor"


@dataclass
class Frozen:
    """The collected warnings.

    Attributes:
        places: What was frozen and where, without repeats, in order.
        remarks: Other warnings of the exporter.
    """

    places: dict[tuple[str, Source | None], None] = field(default_factory=dict)
    remarks: dict[str, None] = field(default_factory=dict)

    def notes(self) -> Iterator[str]:
        """Notes for the plan: one for each frozen value, then the exporter's remarks."""
        for meaning, source in self.places:
            if source is None:
                yield f"constant in the trace: {meaning}"
                continue
            code = f" (`{source.code}`)" if source.code else ""
            yield f"constant in the trace at {source}, in {source.function}{code}: {meaning}"
        for remark in self.remarks:
            yield f"torch.onnx reports: {remark}"


@contextlib.contextmanager
def collecting() -> Iterator[Frozen]:
    """Collects torch's warnings while a model is traced and converted; all other warnings are shown as usual."""
    frozen = Frozen()
    with warnings.catch_warnings():
        passed_on = warnings.showwarning

        def show(
            message: Any, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
        ) -> None:
            if issubclass(category, torch.jit.TracerWarning):
                frozen.places[_meaning(str(message)), _line()] = None
            elif str(message).startswith(_FOLLOWS):
                pass
            elif filename.startswith(_ONNX):
                if not issubclass(category, DeprecationWarning | FutureWarning):
                    frozen.remarks[" ".join(str(message).split())] = None
            elif not (filename.startswith(_TORCH) and issubclass(category, DeprecationWarning | FutureWarning)):
                passed_on(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        # Every occurrence counts, in torch's own modules too: values that are read there are frozen as well.
        warnings.simplefilter("always", torch.jit.TracerWarning)
        yield frozen


def _meaning(message: str) -> str:
    for said, meaning in _MEANINGS:
        found = re.search(said, message)
        if found:
            return found.expand(meaning)
    return message.partition(". ")[0].strip()


def _line() -> Source | None:
    """The line of the model that is being executed; None where no line of the model is on the stack."""
    frames = [frame for frame in traceback.extract_stack() if frame.filename != warnings.__file__]
    # Frames outside of the one that started the trace are those of opbridge's caller, not of the model.
    begin = max((at for at, frame in enumerate(frames) if frame.filename == _BEGINS), default=-1)
    return next(iter(innermost("".join(traceback.format_list(frames[begin + 1 :])))), None)
