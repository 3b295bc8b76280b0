"""What ends the process in ONNX Runtime on the CPU: sizes of 0 at which an operator aborts, or reads where it may not.

Found by the campaign `small_nodes` of `make attack`, which runs nodes of all standard operators with sizes of 0 and 1
and with numbers out of bounds, and reports what ends a process and is not here.
"""

from __future__ import annotations

from typing import Any

from opbridge.targets.facts import Elements, Filled, Pattern

__all__ = ["ENDING", "ENDING_NUMBERS", "ENDING_PATTERNS"]

_SOURCE = "measured: make attack (small_nodes) on onnxruntime 1.32.0"
_ABORTS = "ONNX Runtime aborts the process at a size of 0."
_CRASHES = "ONNX Runtime crashes at a size of 0, and the process with it."


def _filled(operator: str, input_: str, note: str, **more: Any) -> Filled:
    return Filled(operators=(operator,), input=input_, source=_SOURCE, severity="warning", note=note, **more)


ENDING: tuple[Filled, ...] = (
    _filled("LSTM", "X", _ABORTS, axes=(1,)),
    _filled("GRU", "X", _ABORTS),
    _filled("Unique", "X", _ABORTS, beside="axis"),
    _filled("ConvTranspose", "X", _CRASHES, axes=(2, 3), ranks=(5,)),
    _filled("InstanceNormalization", "input", _CRASHES, axes=(2, 3, 4), types=("float16",)),
    _filled("STFT", "window", _CRASHES),
)
"""Of which operators which dimensions end the process where they are 0."""

ENDING_NUMBERS: tuple[Elements, ...] = (
    Elements(
        operators=("STFT",),
        inputs=("frame_length",),
        excluded=(0,),
        source=_SOURCE,
        note="ONNX Runtime divides by it, which ends the process.",
    ),
)
"""Of which operators which numbers end the process."""

ENDING_PATTERNS: tuple[Pattern, ...] = (
    Pattern(
        rule="transposed-cast",
        source="measured: files of three nodes on onnxruntime 1.24.4, 1.27.0, 1.30.0, 1.31.1 and 1.32.0, "
        "and on 1.29.0 with a Cast in the file",
        note="Loading the model ends the process.",
    ),
)
"""Which forms end the process that loads the model."""
