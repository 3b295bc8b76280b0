"""Weights where they are: PyTorch tensors as onnx_ir tensors, without copying them."""

from __future__ import annotations

import math
import mmap
from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

import onnx_ir as ir

from opbridge.base.dtypes import onnx_dtype
from opbridge.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    import torch

__all__ = ["TorchTensor"]

# What is not contiguous, or not in the host's memory, is copied through a buffer of this size while it is written.
_BUFFER_BYTES = 16 << 20


class SupportsWrite(Protocol):
    """A file, as far as it is needed here."""

    def write(self, data: memoryview, /) -> object:
        """Takes the bytes."""


class TorchTensor(ir.TensorProtocol):
    """An ONNX tensor over a PyTorch tensor's own memory.

    Nothing is read or copied until the bytes are asked for, so changes made to the PyTorch tensor until then are seen.
    A complex tensor appears as a real one with a trailing dimension of 2, as `torch.view_as_real` gives it.

    Attributes:
        tensor: The PyTorch tensor, as it was given.
        name: The name in the ONNX file.
        dtype: The ONNX data type; that of the parts for a complex tensor.
        shape: The shape in the ONNX file.
    """

    def __init__(self, tensor: torch.Tensor, name: str | None = None, doc_string: str | None = None) -> None:
        """Wraps a tensor.

        Args:
            tensor: A strided tensor of any shape and device.
            name: The name in the ONNX file.
            doc_string: A text to go with it.

        Raises:
            UsageError: The tensor is sparse, nested or quantized, or of a dtype that ONNX has not.
        """
        import torch

        if tensor.layout != torch.strided or tensor.is_nested:
            kind = "nested" if tensor.is_nested else str(tensor.layout).removeprefix("torch.")
            raise UsageError(
                f"The weight {name!r} is a {kind} tensor, which ONNX cannot hold. Give the model a dense one, with "
                ".to_dense() or torch.nested.to_padded_tensor()."
            )
        self.tensor = tensor
        self.name = name
        self.doc_string = doc_string
        self.metadata_props: dict[str, str] = {}
        self.meta: dict[str, Any] = {}
        pair = (2,) if tensor.is_complex() else ()
        self.dtype = onnx_dtype(tensor.dtype.to_real() if pair else tensor.dtype)
        self.shape = ir.Shape((*tensor.shape, *pair), frozen=True)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape.numpy())

    @property
    def nbytes(self) -> int:
        """The number of bytes in the ONNX file."""
        return int(self.tensor.numel() * self.tensor.element_size())

    def raw(self) -> memoryview:
        """The bytes, in order; a view of the tensor's memory if it is contiguous and on the host, else of one copy."""
        return _view(_on_host(self._detached()))

    def tobytes(self) -> bytes:
        """A copy of the bytes, as ONNX stores them."""
        return bytes(self.raw())

    def tofile(self, file: SupportsWrite) -> None:
        """Writes the bytes to a file, or to anything with `write`, which must not keep what it is given.

        What is contiguous and on the host is written from where it is, anything else by way of a small buffer.
        """
        import torch

        buffer: torch.Tensor | None = None
        for part in _split(self._detached(), _BUFFER_BYTES):
            if _in_place(part):
                file.write(_view(part))
                continue
            if buffer is None:
                # From the system and not from the heap, where buffers for tensor after tensor would leave gaps.
                buffer = torch.frombuffer(mmap.mmap(-1, min(self.nbytes, _BUFFER_BYTES)), dtype=torch.uint8)
            copy = buffer[: part.numel() * part.element_size()].view(part.dtype).view(part.shape)
            file.write(_view(copy.copy_(part)))

    def numpy(self) -> np.ndarray:
        """The numbers, sharing memory where they can; bfloat16 and float8 in the dtypes of ml_dtypes."""
        import torch

        tensor = _on_host(self._detached())
        if self.dtype.numpy().isbuiltin == 1:
            return tensor.numpy()
        # A NumPy dtype of ml_dtypes: numpy() does not know it, an integer of the same width carries its bits.
        bits = torch.uint8 if tensor.element_size() == 1 else torch.int16
        return tensor.view(bits).numpy().view(self.dtype.numpy())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        if dtype is not None and dtype != array.dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack__(self, *, stream: Any = None) -> Any:
        return _on_host(self._detached()).__dlpack__(stream=stream)

    def __dlpack_device__(self) -> Any:
        return _on_host(self._detached()).__dlpack_device__()

    def __repr__(self) -> str:
        return f"TorchTensor<{self.dtype},{self.shape}>(name={self.name!r})"

    def identity(self) -> Hashable | None:
        """Equal for two tensors that show the same bytes of the same memory in the same order; None if that is unknown.

        Tied parameters are found by it. It holds as long as both tensors live.
        """
        tensor = self._detached()
        if tensor.is_conj() or tensor.is_neg() or not tensor.numel():
            return None
        where = (str(tensor.device), tensor.data_ptr(), self.nbytes)
        if tensor.is_contiguous():
            return where
        return (*where, tuple(tensor.shape), tensor.stride())

    def _detached(self) -> torch.Tensor:
        tensor = self.tensor.detach()
        storage = tensor.untyped_storage()
        # Fake tensors claim a real device, but their storage does not; tensor subclasses that wrap others have none.
        if storage.device.type == "meta" or (tensor.numel() and not storage.data_ptr()):
            raise UsageError(
                f"The weight {self.name!r} has no numbers in memory: it is a {type(self.tensor).__name__} on a meta or "
                "fake device, or a wrapper around other tensors. Load the weights (model.to_empty(device='cpu'), then "
                "load_state_dict), or unwrap the parameter, before exporting."
            )
        return tensor


def _in_place(tensor: torch.Tensor) -> bool:
    """Whether the memory holds the tensor's bytes as they are to be written."""
    return tensor.is_contiguous() and tensor.device.type == "cpu" and not tensor.is_conj() and not tensor.is_neg()


def _split(tensor: torch.Tensor, limit: int) -> Iterator[torch.Tensor]:
    """Parts of a tensor that follow one another in row-major order, each in place or of at most `limit` bytes."""
    size = tensor.numel() * tensor.element_size()
    if size <= limit or _in_place(tensor):
        yield tensor
    elif rows := limit // (size // tensor.shape[0]):
        yield from tensor.split(rows)
    else:
        for row in tensor:
            yield from _split(row, limit)


def _on_host(tensor: torch.Tensor) -> torch.Tensor:
    """The numbers as they are, on the host: conjugation and negation carried out, complex ones as pairs."""
    import torch

    tensor = tensor.cpu().resolve_conj().resolve_neg()
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def _view(tensor: torch.Tensor) -> memoryview:
    import torch

    # as_strided, because a tensor with one element may be contiguous with any stride.
    row = tensor.contiguous().as_strided((tensor.numel(),), (1,))
    return memoryview(row.view(torch.uint8).numpy())
