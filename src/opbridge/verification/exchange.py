"""The conversion of tensors between PyTorch and the runtimes, in every dtype that both have."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import torch

from opbridge.base.dtypes import onnx_dtype, torch_dtype
from opbridge.errors import UsageError
from opbridge.runtimes.tensors import dtype_named

__all__ = ["dtype_of", "of_array", "quantized_as", "run", "runtime_form", "to_runtime"]

_DTYPE_NAMES = {"float": "FLOAT", "double": "DOUBLE"}


def runtime_form(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor as a runtime takes it: on the CPU, dense, contiguous, a complex one with a trailing dimension of 2."""
    tensor = tensor.detach().cpu()
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    tensor = tensor.resolve_neg()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    return tensor.contiguous()


def dtype_of(type_name: str) -> torch.dtype | None:
    """The dtype of a type of ONNX Runtime, "tensor(float16)"; None for sequences and dtypes that torch lacks."""
    if not type_name.startswith("tensor("):
        return None
    name = type_name.removeprefix("tensor(").removesuffix(")")
    try:
        return torch_dtype(ir.DataType[_DTYPE_NAMES.get(name, name.upper())])
    except (KeyError, UsageError):
        return None


def quantized_as(own: torch.Tensor, actual: torch.Tensor) -> torch.Tensor:
    """A value of the file in the type that PyTorch quantises to.

    The file may quantise to uint8 where PyTorch does to int8, with a zero point 128 higher, and it may have the numbers
    in float32. Values that are no numbers of PyTorch's type stay as they are.
    """
    if (own.dtype, actual.dtype) == (torch.int8, torch.uint8):
        return (actual.to(torch.int16) - 128).to(torch.int8)
    if own.dtype in (torch.int8, torch.uint8, torch.int16) and actual.dtype == torch.float32:
        converted = actual.to(torch.int32).to(own.dtype)
        return converted if torch.equal(converted.to(torch.float32), actual) else actual
    return actual


def run(session: Any, feeds: Mapping[str, torch.Tensor], outputs: Sequence[str] | None = None) -> list[torch.Tensor]:
    """Runs a model on tensors.

    Args:
        session: A session of any runtime, all of whose outputs are tensors.
        feeds: A tensor for each input.
        outputs: The names of the outputs to compute; None: all of them.

    Returns:
        The outputs, on the CPU. Complex ones are real, with a trailing dimension of 2.

    Raises:
        Exception: Whatever the runtime raises; those errors have no other common base class.
    """
    if not hasattr(session, "run_with_ort_values"):
        arrays = session.run(outputs, {name: _to_array(tensor) for name, tensor in feeds.items()})
        return [of_array(each) for each in arrays]
    values = {name: to_runtime(tensor) for name, tensor in feeds.items()}
    return [_to_torch(value) for value in session.run_with_ort_values(outputs, values)]


def to_runtime(tensor: torch.Tensor) -> Any:
    """A tensor as ONNX Runtime takes it, in an OrtValue on the CPU."""
    tensor = runtime_form(tensor)
    try:
        return onnxruntime.OrtValue.ortvalue_from_numpy(tensor.numpy())
    except TypeError:  # bfloat16 and the float8 dtypes, which NumPy does not have
        bits = tensor.view(torch.uint16 if tensor.itemsize == 2 else torch.uint8)
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits.numpy(), int(onnx_dtype(tensor.dtype)))


def _to_array(tensor: torch.Tensor) -> np.ndarray:
    """A tensor as runtimes other than ONNX Runtime take it: of bfloat16 and float8 with the types of ml_dtypes."""
    tensor = runtime_form(tensor)
    try:
        return tensor.numpy()
    except TypeError:
        bits = tensor.view(torch.uint16 if tensor.itemsize == 2 else torch.uint8).numpy()
        return bits.view(dtype_named(str(tensor.dtype).removeprefix("torch.")))


def of_array(array: np.ndarray) -> torch.Tensor:
    """An array as a tensor of its own, also of the types of ml_dtypes."""
    array = np.array(array)  # a copy that may be written to
    if array.dtype.kind in "biufc":
        return torch.from_numpy(array)
    wanted: torch.dtype = getattr(torch, array.dtype.name)
    bits = torch.from_numpy(array.view(np.uint16 if array.itemsize == 2 else np.uint8))
    return bits.view(wanted)


def _to_torch(value: Any) -> torch.Tensor:
    tensor = torch.empty(value.shape(), dtype=torch_dtype(ir.DataType(value.element_type())))
    if tensor.nbytes:
        ctypes.memmove(tensor.data_ptr(), value.data_ptr(), tensor.nbytes)
    return tensor
