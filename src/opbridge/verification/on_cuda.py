"""What a verification on CUDA says beside the comparison: which nodes run on the CPU, and what is copied."""

from __future__ import annotations

import dataclasses
import time

from opbridge.errors import ModelFileError, OpbridgeError
from opbridge.runtimes import known
from opbridge.runtimes.placement.placement import placement
from opbridge.verification.report import Verification

__all__ = ["is_asked", "loaded_only", "with_placement"]


def is_asked(runtime: str) -> bool:
    """Whether a runtime is CUDA, on whichever device."""
    return known.split(runtime)[0] in known.ON_DEVICE


def loaded_only(subject: str, model: str | bytes, runtime: str, why: str, start: float) -> Verification:
    """The verification of a file on a machine that cannot run it on CUDA: ONNX Runtime loads it.

    Args:
        subject: The file's name in messages.
        model: The path of the file, or its content.
        runtime: The runtime.
        why: Why it cannot run here.
        start: The `time.perf_counter` at which the verification began.

    Raises:
        ModelFileError: ONNX Runtime refuses the file.
        OpbridgeError: It cannot be loaded without a GPU on this machine.
    """
    notes = tuple(placement(model).notes())
    seconds = time.perf_counter() - start
    return Verification(subject, known.label(runtime), (), notes=notes, seconds=seconds, unrun=why, stage="loaded")


def with_placement(found: Verification, model: str | bytes) -> Verification:
    """A verification with notes on where the nodes ran."""
    try:
        notes = placement(model).notes()
    except ModelFileError:  # refused, as its runs say
        return found
    except OpbridgeError as error:
        notes = [f"where the nodes run could not be asked: {error}"]
    return dataclasses.replace(found, notes=(*notes, *found.notes))
