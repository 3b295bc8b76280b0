"""PyTorch tensors as onnx_ir tensors, without a copy."""

from __future__ import annotations

import math
import mmap
import threading
from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

import onnx_ir as ir

from opbridge.base.dtypes import onnx_dtype
from opbridge.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    import torch

__all__ = ["SAMPLED", "TorchTensor"]

SAMPLED = 64
"""How many elements a sample of a tensor has at most."""

# Tensors that are not contiguous or not in host memory are written through a buffer of this size.
_BUFFER_BYTES = 16 << 20

# Transposed matrices are written through two buffers. They fit into the processor's cache, unless rows are so long that
# only short pieces of memory could be read at a time then.
_TILE_BYTES, _MAX_TILE_BYTES, _MIN_PIECE_BYTES = 1 << 20, 4 << 20, 512


# Integers of the same width, for the types that NumPy does not have.
_BITS = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}


_of_thread = threading.local()


class SupportsWrite(Protocol):
    """An open binary file, or anything else with its `write`."""

    def write(self, data: memoryview, /) -> object:
        """Writes the bytes."""


class TorchTensor(ir.TensorProtocol):
    """An ONNX tensor that shares the memory of a PyTorch tensor.

    The data are read when they are requested, so that later changes of the PyTorch tensor are included. A complex
    tensor is a real one with a trailing dimension of 2, as by `torch.view_as_real`.

    Attributes:
        tensor: The PyTorch tensor.
        name: The name in the ONNX file.
        dtype: The ONNX data type; for a complex tensor that of its real and imaginary parts.
        shape: The shape in the ONNX file.
        doc_string: The description in the ONNX file.
        metadata_props: The metadata in the ONNX file.
        meta: What passes attach to the tensor; it is not written.
    """

    def __init__(self, tensor: torch.Tensor, name: str | None = None, doc_string: str | None = None) -> None:
        """Wraps a PyTorch tensor without copying it.

        Args:
            tensor: A strided tensor of any shape, device and dtype that ONNX has.
            name: The name in the ONNX file.
            doc_string: The description in the ONNX file.

        Raises:
            UsageError: The tensor is sparse, nested or quantized, or of a dtype that ONNX does not have.
        """
        import torch

        if tensor.layout != torch.strided or tensor.is_nested:
            kind = "nested" if tensor.is_nested else str(tensor.layout).removeprefix("torch.")
            raise UsageError(
                f"The weight {name!r} is a {kind} tensor, which is not supported in ONNX. Convert it to a dense "
                "tensor, with .to_dense() or torch.nested.to_padded_tensor()."
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
        """The raw data in row-major order: a view of the memory of a contiguous tensor on the host, else of a copy."""
        return _view(_on_host(self._detached()))

    def tobytes(self) -> bytes:
        """A copy of the raw data, as ONNX stores them."""
        return bytes(self.raw())

    def tofile(self, file: SupportsWrite) -> None:
        """Writes the raw data to a file.

        Contiguous memory on the host is written directly, other tensors through small buffers.

        Args:
            file: An object with `write`, which must not keep a reference to its argument.
        """
        import torch

        if _is_transposed(self.tensor):
            for tile in _tiles(self._detached()):
                file.write(tile)
            return
        buffer: torch.Tensor | None = None
        for part in _split(self._detached(), _BUFFER_BYTES):
            if _is_raw(part):
                file.write(_view(part))
                continue
            if buffer is None:
                # Mapped anonymous memory: buffers from the heap, one for each tensor, would fragment it.
                buffer = torch.frombuffer(mmap.mmap(-1, min(self.nbytes, _BUFFER_BYTES)), dtype=torch.uint8)
            copy = buffer[: part.numel() * part.element_size()].view(part.dtype).view(part.shape)
            file.write(_view(copy.copy_(part)))

    def numpy(self) -> np.ndarray:
        """A NumPy array that shares memory where possible; bfloat16 and float8 have the dtypes of ml_dtypes."""
        import torch

        tensor = _on_host(self._detached())
        if self.dtype.numpy().isbuiltin == 1:
            return tensor.numpy()
        # torch does not convert to the dtypes of ml_dtypes; the bits are converted as integers of the same width.
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

    def sample(self) -> bytes:
        """The raw data of a few elements: some of those that differ in the index of the longest dimension alone."""
        tensor = self._detached()
        if not tensor.numel():
            return b""
        size, stride = max(zip(tensor.shape, tensor.stride(), strict=True), default=(1, 1))
        step = -(-size // SAMPLED)
        return bytes(_view(_on_host(tensor.as_strided((-(-size // step),), (step * stride,)))))

    def identity(self) -> Hashable | None:
        """A key that is equal for tensors with the same raw data in the same memory; None if that is not known.

        It identifies tied parameters, and is valid as long as both tensors exist.
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
        # The storage of a fake tensor is on the meta device, whatever its device; wrapper subclasses have no storage.
        if storage.device.type == "meta" or (tensor.numel() and not storage.data_ptr()):
            raise UsageError(
                f"The weight {self.name!r} has no data in memory: it is a {type(self.tensor).__name__} on a meta "
                "or fake device, or a wrapper around other tensors. Load the weights "
                "(model.to_empty(device='cpu'), then load_state_dict), or unwrap the parameter, before exporting."
            )
        return tensor


def _is_raw(tensor: torch.Tensor) -> bool:
    """Whether the tensor's memory is its raw data in row-major order."""
    return tensor.is_contiguous() and tensor.device.type == "cpu" and not tensor.is_conj() and not tensor.is_neg()


def _is_transposed(tensor: torch.Tensor) -> bool:
    """Whether the tensor is a matrix whose columns, and not its rows, lie together in memory on the host."""
    if tensor.dim() != 2 or tensor.device.type != "cpu" or tensor.is_conj() or tensor.is_neg() or not tensor.numel():
        return False
    return tensor.stride(0) == 1 and tensor.stride(1) >= tensor.shape[0] > 1 and tensor.element_size() in _BITS


def _tiles(tensor: torch.Tensor) -> Iterator[memoryview]:
    """The raw data of a transposed matrix, part by part, each in the same buffer.

    A copy of a few rows reads short pieces of memory that lie far apart, number by number, and takes ten times as long
    as a copy of the whole matrix, for which PyTorch has a function that copies block by block. So the columns that
    become those rows are collected first, and are transposed as a whole then.
    """
    import numpy as np
    import torch

    length, size = tensor.shape[1], tensor.element_size()
    bits = getattr(torch, _BITS[size])
    matrix = tensor.t().view(bits)
    limit = max(_TILE_BYTES, min(_MAX_TILE_BYTES, length * _MIN_PIECE_BYTES))
    rows = min(max(1, limit // (length * size)), tensor.shape[0])
    collected, transposed = (buffer.view(bits) for buffer in _tile_buffers(rows * length * size))
    for part in matrix.split(rows, dim=1):
        columns = collected[: part.numel()].view(part.shape)
        np.copyto(columns.numpy(), part.numpy())
        tile = transposed[: part.numel()].view(part.shape[1], length)
        yield _view(tile.copy_(columns.t()))


def _tile_buffers(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Two buffers of `size` bytes, the same for all tensors that a thread writes: new memory takes time to map."""
    import torch

    pair = getattr(_of_thread, "buffers", None)
    if pair is None or pair[0].numel() < size:
        pair = tuple(torch.frombuffer(mmap.mmap(-1, max(size, 2 * _TILE_BYTES)), dtype=torch.uint8) for _ in range(2))
        if size <= _MAX_TILE_BYTES:
            _of_thread.buffers = pair
    return pair[0][:size], pair[1][:size]


def _split(tensor: torch.Tensor, limit: int) -> Iterator[torch.Tensor]:
    """Parts of a tensor in row-major order, each of which is raw data as it is or of at most `limit` bytes."""
    size = tensor.numel() * tensor.element_size()
    if size <= limit or _is_raw(tensor):
        yield tensor
    elif rows := limit // (size // tensor.shape[0]):
        yield from tensor.split(rows)
    else:
        for row in tensor:
            yield from _split(row, limit)


def _on_host(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor on the host, with lazy conjugation and negation resolved, and a complex one as pairs of reals."""
    import torch

    tensor = tensor.cpu().resolve_conj().resolve_neg()
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def _view(tensor: torch.Tensor) -> memoryview:
    """The bytes of a tensor in row-major order."""
    import torch

    # as_strided, because a tensor of one element is contiguous with any stride.
    row = tensor.contiguous().as_strided((tensor.numel(),), (1,))
    return memoryview(row.view(torch.uint8).numpy())
