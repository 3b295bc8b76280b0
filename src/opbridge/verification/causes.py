"""Why an output differs: the operator of the model that does, and how it is searched for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import onnx_ir as ir
import torch

from opbridge.capture import capture as capture_model
from opbridge.errors import CaptureError
from opbridge.request.verification_config import VerificationConfig
from opbridge.verification.difference import Search
from opbridge.verification.first_difference import first_difference

if TYPE_CHECKING:
    from opbridge.capture import Capture

__all__ = ["Mismatch", "search_difference"]

_MAX_FROZEN = 3
"""How many of the values that a trace froze are named."""


@dataclass
class Mismatch:
    """The first run that differs.

    Attributes:
        run: Its position among the runs.
        args: Its positional inputs.
        kwargs: Its keyword inputs.
        expected: PyTorch's outputs.
    """

    run: int
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    expected: list[torch.Tensor]


def search_difference(
    load: Callable[[], ir.Model],
    model: Any,
    capture: Capture | None,
    mismatch: Mismatch,
    wrong: Mapping[int, torch.Tensor] | None,
    options: VerificationConfig,
    *,
    check_weights: bool,
) -> Search:
    """Searches for the first operator that differs.

    Args:
        load: Loads the ONNX model.
        model: The PyTorch model.
        capture: The capture that the file was made from, where it is known; else the model is captured again.
        mismatch: The run that differs.
        wrong: PyTorch's values of the outputs that differ, by position; None: all outputs, whether they do or not.
        options: The tolerances.
        check_weights: Whether the weights of the file are compared with those of the model first.
    """
    if capture is not None and capture.mode == "trace":
        frozen = [note for note in capture.notes if note.startswith("constant in the trace")]
        said = f"possibly caused by a constant in the trace: {'; '.join(frozen[:_MAX_FROZEN])}" if frozen else ""
        more = f"; and {len(frozen) - _MAX_FROZEN} more notes of the plan" if len(frozen) > _MAX_FROZEN else ""
        return Search(
            None, 0, f"the first operator that differs cannot be located for capture='trace'; {said}{more}".rstrip("; ")
        )
    try:
        # A new capture has the static sizes of these inputs.
        capture = capture or capture_model(model, mismatch.args, mismatch.kwargs)
        return first_difference(
            load(),
            capture,
            mismatch.args,
            mismatch.kwargs,
            outputs=wrong,
            check_weights=check_weights,
            rtol=options.rtol,
            atol=options.atol,
            isolated=options.isolated,
        )
    except CaptureError as error:
        return Search(None, 0, f"the model cannot be captured again ({error})")
