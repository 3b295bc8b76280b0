"""ONNX Runtime's execution provider for CUDA: what is installed, its options, and its errors in plain words."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
from collections.abc import Sequence
from typing import Any

import onnxruntime

from opbridge.errors import UsageError
from opbridge.runtimes.cuda_stand_in.libraries import LIBRARIES_GIVEN
from opbridge.runtimes.onnxruntime import cuda_driver
from opbridge.runtimes.onnxruntime.kernel_table import CPU
from opbridge.runtimes.onnxruntime.onnxruntime_private import cuda_version

__all__ = [
    "CUDA",
    "INSTALL",
    "check_opened",
    "explained",
    "has_provider",
    "is_fatal",
    "is_named",
    "obstacle",
    "prepare",
    "providers",
]
__all__ += ["with_explanation"]

CUDA = "CUDAExecutionProvider"

INSTALL = "pip uninstall -y onnxruntime && pip install 'onnxruntime-gpu[cuda,cudnn]'"
"""Both packages have the same files, so that one has to go."""

# On this the results of a float32 model depend: by default, products and convolutions are rounded to TF32's 10 bits.
_IN_FLOAT32 = {"use_tf32": "0"}

_MEMORY = re.compile(
    r"Failed to allocate memory for requested buffer of size (?P<size>\d+)|out of memory|CUDA_ERROR_OUT_OF_MEMORY"
    r"|CUDNN_STATUS_ALLOC_FAILED|CUBLAS_STATUS_ALLOC_FAILED",
    re.I,
)
_FAILURE = re.compile(r"(?:CUDA|CUBLAS|CUDNN|CURAND|CUFFT) failure \d+: [^;\n]*[^;\s]")
_ARCHITECTURE = re.compile(r"no kernel image is available|CUDA failure 209\b")
_ENDED = re.compile(r"CUDA (?:failure|error) (?P<number>7[01]\d)\b|illegal memory access|unspecified launch failure")


def has_provider() -> bool:
    """Whether the installed ONNX Runtime is a build with the provider."""
    return CUDA in onnxruntime.get_available_providers()


def obstacle(device: int = 0) -> str:
    """Why the provider cannot run on a device of this machine, as the end of a sentence; "" where it can."""
    return cuda_driver.problem(device, cuda_version())


def providers(device: int = 0) -> list[Any]:
    """The execution providers of a session on a device: what CUDA has no kernel for runs on the CPU."""
    return [(CUDA, {"device_id": str(device), **_IN_FLOAT32}), CPU]


def is_named(given: Sequence[Any]) -> bool:
    """Whether CUDA is among execution providers, as ONNX Runtime takes them."""
    return any((each[0] if isinstance(each, tuple) else each) == CUDA for each in given)


def prepare(given: Sequence[Any]) -> None:
    """Checks that the devices of execution providers are there, and loads CUDA's libraries from Python's packages.

    Raises:
        UsageError: A device is not there, or cannot be used.
    """
    for each in given:
        if isinstance(each, tuple) and each[0] == CUDA:
            _refuse(obstacle(_number(each[1].get("device_id", 0))))
        elif each == CUDA:
            _refuse(obstacle())
    _preload()


@functools.cache
def _preload() -> None:
    """Has ONNX Runtime look for the libraries; what it does not find, a session then lacks."""
    preload = getattr(onnxruntime, "preload_dlls", None)
    if preload is not None and not os.environ.get(LIBRARIES_GIVEN):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(OSError, RuntimeError):
            preload()


def check_opened(session: Any, given: Sequence[Any]) -> None:
    """Checks that a session has the provider where it was asked for: ONNX Runtime leaves out one that it cannot load.

    Raises:
        UsageError: It does not have it.
    """
    if is_named(given) and CUDA not in session.get_providers():
        _refuse(
            f"the libraries of CUDA {cuda_version()} or cuDNN 9 cannot be loaded. Install them with: pip install "
            "'onnxruntime-gpu[cuda,cudnn]'"
        )


def _refuse(why: str) -> None:
    if why:
        raise UsageError(f"ONNX Runtime cannot run models on CUDA: {why}.")


def _number(device_id: Any) -> int:
    try:
        return int(device_id)
    except (TypeError, ValueError):
        raise UsageError(f"device_id={device_id!r} is invalid; expected the number of a GPU, from 0.") from None


def explained(message: str) -> str:
    """What an error of the provider means, as a sentence with what to do; "" for any other error."""
    if found := _MEMORY.search(message):
        size = f" for a buffer of {int(found['size']):,} B" if found["size"] else ""
        return (
            f"The memory of the GPU is not enough{size}. Use smaller inputs, end other processes on that GPU, or run "
            "the model on the CPU."
        )
    if _ARCHITECTURE.search(message):
        return (
            "The installed onnxruntime-gpu has no code for the architecture of this GPU. Install another release of "
            "onnxruntime-gpu, or run the model on the CPU."
        )
    if is_fatal(message):
        return (
            "A kernel failed on the GPU, after which CUDA refuses all work of the process. Correct the inputs, and run "
            "the model with isolated=True, where the next run starts a new process."
        )
    if found := _FAILURE.search(message):
        return (
            f"A library of CUDA failed on the GPU ({found[0]}). Check with nvidia-smi that the GPU is free and the "
            "driver works, or run the model on the CPU."
        )
    return ""


def with_explanation(message: str) -> str:
    """An error's text, after what it means where that is known."""
    words = explained(message)
    return f"{words} ONNX Runtime reports: {message}" if words else message


def is_fatal(message: str) -> bool:
    """Whether an error leaves the process unable to use CUDA again."""
    return _ENDED.search(message) is not None
