"""A session's run on PyTorch's tensors, where they are: on the CPU or on the session's GPU, without copies."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opbridge.errors import RunError, UsageError
from opbridge.runtimes.onnxruntime.cuda_provider import CUDA
from opbridge.runtimes.onnxruntime.onnxruntime_private import ERRORS

if TYPE_CHECKING:
    import torch

__all__ = ["are_given", "run"]


def are_given(feeds: Any) -> bool:
    """Whether inputs are PyTorch's tensors. Where torch is not imported, there are none."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(feeds, Mapping) and any(isinstance(x, torch.Tensor) for x in feeds.values())


def run(
    session: Any, output_names: Sequence[str] | None, feeds: Mapping[str, Any], run_options: Any = None
) -> list[torch.Tensor]:
    """Runs a model on tensors.

    ONNX Runtime reads inputs where they are, of which those that are not contiguous are copied on their device. It
    works in a stream of its own: the work that the current stream of the device has is waited for first, and the
    outputs are complete when this returns.

    Args:
        session: An onnxruntime.InferenceSession.
        output_names: The outputs to compute; None: all of them.
        feeds: A tensor for each input, on the CPU or on the GPU of the session.
        run_options: An onnxruntime.RunOptions, or None.

    Returns:
        The outputs: on the GPU where an input is, else on the CPU.

    Raises:
        UsageError: A value is no tensor, has another dtype than the input, or is on another device than the session.
        RunError: An output is no tensor.
        Exception: Whatever ONNX Runtime raises.
    """
    import torch

    own = _device_of(session)
    types = {each.name: each.type for each in session.get_inputs()}
    binding, kept = session.io_binding(), []
    place = torch.device("cpu")
    for name, value in feeds.items():
        tensor = _checked(name, value, types, own)
        kept.append(tensor)
        if tensor.is_cuda:
            place = tensor.device
        if tensor.numel():
            number = tensor.device.index or 0
            shape, kind = list(tensor.shape), _element_type(tensor.dtype)
            binding.bind_input(name, tensor.device.type, number, kind, shape, tensor.data_ptr())
        else:
            binding.bind_ortvalue_input(name, _empty(tensor))
    names = [each.name for each in session.get_outputs()] if output_names is None else list(output_names)
    for name in names:
        binding.bind_output(name, place.type, place.index or 0)
    if place.type == "cuda":
        torch.cuda.current_stream(place).synchronize()
    session.run_with_iobinding(binding, run_options)
    return [_to_torch(name, each) for name, each in zip(names, binding.get_outputs(), strict=True)]


def _device_of(session: Any) -> str:
    """The device of a session, as PyTorch names it."""
    options = session.get_provider_options().get(CUDA)
    return "cpu" if options is None else f"cuda:{options.get('device_id', 0)}"


def _checked(name: str, value: Any, types: Mapping[str, str], own: str) -> torch.Tensor:
    """An input as a contiguous tensor without gradient.

    Raises:
        UsageError: It is none of the session's.
    """
    import torch

    from opbridge.runtimes.described import type_named  # which imports onnx, and a session does not need it

    if not isinstance(value, torch.Tensor):
        raise UsageError(
            f"The input '{name}' is a {type(value).__name__}, and another input is a torch.Tensor. Pass all inputs as "
            "tensors, or all as NumPy arrays."
        )
    if name not in types:
        raise UsageError(f"Unknown input '{name}'. The inputs of the model are: {', '.join(types)}.")
    if str(value.device) not in ("cpu", own):
        advice = f"opbridge.session(..., runtime='{value.device}')" if value.is_cuda else "opbridge.session(...)"
        raise UsageError(
            f"The input '{name}' is on the device {value.device}, but the session runs on {own}. Create the session "
            f"with {advice}, or move the tensor with .to('{own}')."
        )
    given = str(value.dtype).removeprefix("torch.")
    if type_named(types[name]) not in (given, given.replace("_", "")):  # float8_e5m2 is float8e5m2 in ONNX
        raise UsageError(
            f"The input '{name}' has the type {types[name]}, but {value.dtype} was given. Convert the tensor."
        )
    return value.detach().resolve_conj().resolve_neg().contiguous()


def _element_type(dtype: torch.dtype) -> int:
    from opbridge.base.dtypes import onnx_dtype

    return int(onnx_dtype(dtype))


def _empty(tensor: torch.Tensor) -> Any:
    import onnxruntime

    return onnxruntime.OrtValue.ortvalue_from_shape_and_type(list(tensor.shape), _element_type(tensor.dtype))


def _to_torch(name: str, value: Any) -> torch.Tensor:
    """An output as a tensor with the same memory.

    Raises:
        RunError: It is none.
    """
    import torch

    if not value.is_tensor() or value.data_type() == "tensor(string)":
        raise RunError(f"The output '{name}' is no tensor of numbers. Run the session on NumPy arrays.")
    from opbridge.base.dtypes import torch_dtype

    dtype = torch_dtype(value.element_type())
    if 0 in value.shape():
        return torch.empty(value.shape(), dtype=dtype, device="cpu" if value.device_name() == "cpu" else "cuda")
    refused: tuple[type[Exception], ...] = (TypeError, *ERRORS)
    try:
        return torch.from_dlpack(value).view(dtype)  # ONNX Runtime 1.31 hands booleans over as uint8
    except refused as error:
        raise RunError(
            f"The output '{name}' ({value.data_type()}) cannot become a tensor of PyTorch: {error}"
        ) from error
