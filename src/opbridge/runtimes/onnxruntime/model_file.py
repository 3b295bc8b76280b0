"""What an ONNX file says without being loaded, read from its bytes by hand: the onnx package may not be installed."""

from __future__ import annotations

import mmap
import os
from typing import Any

from opbridge.errors import ModelFileError, UsageError
from opbridge.kernels import aten as aten_kernel
from opbridge.onnx.wire import GRAPH, METADATA, OPSET, fields

__all__ = ["checked_model", "damage", "required_kernels"]

_HEADER_BYTES = 1 << 16


def checked_model(path_or_bytes: Any) -> tuple[str | bytes, str]:
    """The model as ONNX Runtime takes it, and its name in messages.

    Raises:
        ModelFileError: There is no such file, or it is empty or cannot be read.
        UsageError: The argument is neither a path nor bytes.
    """
    if isinstance(path_or_bytes, (bytes, bytearray, memoryview)):
        return bytes(path_or_bytes), "The model in memory"
    try:
        path = os.fsdecode(path_or_bytes)
    except TypeError:
        raise UsageError(
            f"A model is loaded from a path or from bytes, not from {type(path_or_bytes).__name__}; give an ONNX "
            "file, or its content."
        ) from None
    try:
        with open(path, "rb") as file:
            if not file.read(1):
                raise ModelFileError(f"{path} is empty, so it is no ONNX model. Export or copy it again.")
    except FileNotFoundError:
        raise ModelFileError(f"There is no file {path}. Export the model first, or correct the path.") from None
    except IsADirectoryError:
        raise ModelFileError(f"{path} is a folder. Name the ONNX file in it.") from None
    except (OSError, ValueError) as error:
        raise ModelFileError(f"{path} cannot be read ({error}). Look into that, or name another file.") from None
    return path, path


def required_kernels(model: str | bytes) -> list[str]:
    """The kernels that a model needs, as "mylib::foo": those that opbridge wrote into its metadata when it exported it.

    A model with the domain of `aten` nodes needs their kernel, whoever exported it. A damaged model needs none; ONNX
    Runtime reports the damage.

    Args:
        model: The path of the file, or its content.
    """
    try:
        if isinstance(model, bytes):
            return _required_kernels(model)
        with open(model, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return _required_kernels(content)
    except (ValueError, IndexError):
        return []


def _required_kernels(content: bytes | mmap.mmap) -> list[str]:
    names = _metadata(content, b"opbridge.kernels").split()
    if aten_kernel.NAME not in names:
        domain = aten_kernel.DOMAIN.encode()
        opset_imports = (
            fields(content, start, stop) for number, start, stop in fields(content, 0, len(content)) if number == OPSET
        )
        if any(content[begin:end] == domain for each in opset_imports for field, begin, end in each if field == 1):
            names.append(aten_kernel.NAME)
    return names


def _metadata(content: bytes | mmap.mmap, key: bytes) -> str:
    """The value of a key in a model's metadata; "" where the key is missing."""
    for number, start, stop in fields(content, 0, len(content)):
        if number == METADATA:
            entry = {field: content[begin:end] for field, begin, end in fields(content, start, stop)}
            if entry.get(1) == key:
                return entry.get(2, b"").decode(errors="replace")
    return ""


def damage(model: str | bytes, label: str) -> str:
    """One paragraph on why a model cannot be parsed, and what to do.

    Args:
        model: The path of the file, or its content.
        label: The model's name in messages.
    """
    if isinstance(model, bytes):
        content, size = model, len(model)
    else:
        with open(model, "rb") as file:
            content, size = file.read(_HEADER_BYTES), os.path.getsize(model)
    cause = "it is no ONNX file, or is damaged. Copy or export it again"
    if b"git-lfs" in content[:64]:
        cause = "it is a Git LFS pointer that stands in for the file. Fetch the file with git lfs pull"
    elif content.startswith(b"PK\x03\x04"):
        cause = "it is a zip archive, perhaps a checkpoint or a program that torch saved. Export that model to ONNX"
    elif missing := _missing_bytes(content, size):
        cause = f"it was cut off, and at least {missing:,} bytes are missing. Copy or export it again"
    return f"{label} cannot be read: {cause}."


def _missing_bytes(content: bytes, size: int) -> int | None:
    """How many bytes are missing at the end of a truncated model; None if it does not look like a truncated model."""
    try:
        for number, _, stop in fields(content, 0, size):
            if stop > size:
                return stop - size if number == GRAPH else None
    except (ValueError, IndexError):
        pass
    return None
