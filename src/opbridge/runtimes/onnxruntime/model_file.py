"""What an ONNX file says without being loaded, read from its bytes by hand: the onnx package may not be installed."""

from __future__ import annotations

import itertools
import mmap
import os
from collections.abc import Callable, Iterator
from typing import Any

from opbridge.base import files
from opbridge.errors import ModelFileError, UsageError
from opbridge.kernels import aten as aten_kernel
from opbridge.onnx.wire import GRAPH, METADATA, OPSET, fields

__all__ = ["checked_model", "damage", "read_by_hand", "required_kernels"]

_HEADER_BYTES = 1 << 16

_LARGEST_BYTES = 2**31 - 1
"""Protobuf reads no larger message."""

# A model has some dozens of fields beside those of its graph, and an entry of the metadata two. What has more is left
# to ONNX Runtime, so that nobody waits for millions of empty ones to be read by hand.
_MOST_FIELDS, _MOST_FIELDS_OF_ENTRY = 1 << 16, 16


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
            f"Expected the path or the content (bytes) of an ONNX file, got {type(path_or_bytes).__name__}."
        ) from None
    if os.path.isdir(path):
        raise ModelFileError(f"{path} is a folder. Give the path of the ONNX file in it.")
    if why := files.problem(path, _LARGEST_BYTES):
        raise ModelFileError(f"{path} cannot be read as an ONNX file: {why}. Give another file.")
    try:
        with open(path, "rb") as file:
            if not file.read(1):
                raise ModelFileError(f"{path} is empty and not an ONNX model. Export or copy it again.")
    except FileNotFoundError:
        raise ModelFileError(f"The file {path} does not exist. Export the model first, or correct the path.") from None
    except (OSError, ValueError) as error:
        raise ModelFileError(f"{path} cannot be read ({error}). Correct this, or give another file.") from None
    return path, path


def required_kernels(model: str | bytes) -> list[str]:
    """The kernels that a model needs, as "mylib::foo": those that opbridge wrote into its metadata when it exported it.

    A model with the domain of `aten` nodes needs their kernel, whoever exported it. A damaged model needs none; ONNX
    Runtime reports the damage.

    Args:
        model: The path of the file, or its content.
    """
    return read_by_hand(model, _required_kernels)


def read_by_hand(model: str | bytes, read: Callable[[bytes | mmap.mmap], list[str]]) -> list[str]:
    """What a function finds in the bytes of a model; of a damaged one nothing, as ONNX Runtime reports the damage.

    Args:
        model: The path of the file, or its content.
        read: Reads the bytes; it raises a ValueError or an IndexError where they are no model.
    """
    try:
        if isinstance(model, bytes):
            return read(model)
        with open(model, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return read(content)
    except (ValueError, IndexError):
        return []


def _required_kernels(content: bytes | mmap.mmap) -> list[str]:
    named: str | None = None
    calls_torch = False
    for count, (number, start, stop) in enumerate(fields(content, 0, len(content))):
        if count == _MOST_FIELDS:
            raise ValueError("too many fields")
        if number in (METADATA, OPSET):
            entry = dict(_entry(content, start, stop))
            if number == OPSET:
                calls_torch = calls_torch or entry.get(1) == aten_kernel.DOMAIN.encode()
            elif named is None and entry.get(1) == b"opbridge.kernels":
                named = entry.get(2, b"").decode(errors="replace")
    # Each as "domain::name": anything else in the metadata is none that opbridge wrote.
    names = [name for name in dict.fromkeys((named or "").split()) if "::" in name]
    return [*names, aten_kernel.NAME] if calls_torch and aten_kernel.NAME not in names else names


def _entry(content: bytes | mmap.mmap, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
    """The numbers and the contents of a message's fields."""
    for number, begin, end in itertools.islice(fields(content, start, stop), _MOST_FIELDS_OF_ENTRY):
        yield number, content[begin:end]


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
    cause = "it is not an ONNX file or is damaged. Copy or export it again"
    if b"git-lfs" in content[:64]:
        cause = "it is a Git LFS pointer instead of the file. Fetch the file with git lfs pull"
    elif content.startswith(b"PK\x03\x04"):
        cause = "it is a zip archive, possibly a PyTorch checkpoint. Export that model to ONNX"
    elif missing := _missing_bytes(content, size):
        cause = f"it is truncated; at least {missing:,} bytes are missing. Copy or export it again"
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
