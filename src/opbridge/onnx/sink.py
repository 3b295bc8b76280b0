"""Files that models are written to, and the errors where that fails."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import onnx_ir as ir

from opbridge.errors import SaveError

__all__ = ["Sink", "WritableFile", "read_weight", "readable_size", "write_failure"]

_T = TypeVar("_T")

_CAUSES = {
    errno.ENOSPC: ("the disk is full", "Free some space, or save to another disk"),
    errno.EDQUOT: ("the disk quota is exceeded", "Free some space, or save to another disk"),
    errno.EFBIG: (
        "the file exceeds the limit of the file system or of this process (ulimit -f)",
        "Raise the limit, or save to another disk",
    ),
    errno.EROFS: ("the disk is mounted read-only", "Save to another folder"),
    errno.EACCES: ("permission denied", "Use a writable folder, or change its permissions"),
    errno.EPERM: ("permission denied", "Use a writable folder, or change its permissions"),
    errno.ENAMETOOLONG: ("the name is too long for the disk", "Use a shorter name"),
    errno.ENOTDIR: ("a component of the path is a file, not a folder", "Use another path"),
}


class WritableFile(Protocol):
    """The methods of an open binary file that are used."""

    def write(self, data: memoryview, /) -> object: ...
    def close(self) -> None: ...
    def fileno(self) -> int: ...


class Sink:
    """A file that a model is written to.

    It has no `fileno`: onnx_ir would use it to write to the file directly, and the position would be wrong.

    Attributes:
        position: How many bytes have been written.
    """

    def __init__(self, file: WritableFile, target: Path | str) -> None:
        self._file = file
        self._target = target
        self.position = 0

    def write(self, data: Any) -> int:
        """Writes all bytes of an object with the buffer protocol, and returns their number.

        Raises:
            SaveError: The file cannot be written.
        """
        view = memoryview(data)
        try:
            self._file.write(view)
        except OSError as error:
            raise write_failure(self._target, error) from error
        self.position += view.nbytes
        return view.nbytes

    def write_tensor(self, name: str, tensor: ir.TensorProtocol) -> None:
        """Writes the raw data of a tensor, little-endian and in row-major order.

        Args:
            name: The name of the weight in messages.
            tensor: Any tensor of onnx_ir but one of strings.

        Raises:
            SaveError: The data cannot be read, or their size is not `tensor.nbytes`.
        """
        start = self.position
        read_weight(lambda: self._copy(tensor), name, tensor)
        if (count := self.position - start) != tensor.nbytes:
            raise SaveError(
                f"{self._target} was not written: the weight {name!r} should have {tensor.nbytes} bytes for its "
                f"shape {tensor.shape} and type {tensor.dtype.name}, but has {count}. Give it a tensor with "
                "consistent data."
            )

    def _copy(self, tensor: ir.TensorProtocol) -> None:
        if type(tensor) is ir.Tensor and isinstance(tensor.raw, np.ndarray):
            array = tensor.raw
            if array.flags.c_contiguous and array.nbytes == tensor.nbytes:
                self.write(array.reshape(-1).view(np.uint8))  # without the copy that tobytes() makes
                return
        to_file = getattr(tensor, "tofile", None)  # onnx_ir's tensors have it, its protocol does not
        if to_file is None:
            self.write(tensor.tobytes())
        else:
            to_file(self)


def read_weight(read: Callable[[], _T], name: str | None, tensor: ir.TensorProtocol) -> _T:
    """Calls `read`, which reads the data of a tensor.

    Args:
        read: The call, whose result is returned.
        name: The name of the weight in messages.
        tensor: The tensor, whose file is named where it is an `ir.ExternalTensor`.

    Raises:
        SaveError: `read` raises an OSError, or a ValueError as for a file outside of the model's folder.
    """
    try:
        return read()
    except (OSError, ValueError) as error:
        source = f" from {tensor.path}" if isinstance(tensor, ir.ExternalTensor) else ""
        raise SaveError(
            f"The model was not written: its weight {name!r} cannot be read{source} ({error}). Restore its file, "
            "or load the model again, then save it."
        ) from error


def write_failure(target: Path | str, error: OSError) -> SaveError:
    """The error for a file that could not be written: its cause, and what to do."""
    cause, remedy = _CAUSES.get(error.errno or 0, (str(error), "Correct this, or save to another folder"))
    return SaveError(f"{target} was not written: {cause}. The previous file is unchanged. {remedy}.")


def readable_size(size: int) -> str:
    """A number of bytes as gigabytes: "2.31 GB"."""
    return f"{size / 1e9:.2f} GB"
