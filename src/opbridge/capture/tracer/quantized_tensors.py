"""torch's quantised tensors, which have no form without values: recorded as tensors of integers.

A model of torch.ao.quantization's eager mode, converted, hands quantised tensors from one layer to the next. While it
is captured, these are tensors of integers beside their scale and zero point:

    1. What quantises a floating tensor, and what dequantises one, is an operator of `quantized_decomposed`.
    2. A layer with packed weights dequantises these and its input, computes in floating numbers, and quantises the
       result. That is the form that runtimes look for, and make one layer of integers of.
    3. An operator that moves elements moves the integers.
    4. Other operators are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from opbridge.base.torch_private import torch_quantized
from opbridge.base.torch_private.torch_quantized import Weight, is_packed
from opbridge.capture.tracer.quantized_operators import FIXED, KEEPING_SCALE, MOVING
from opbridge.errors import CaptureError

__all__ = ["QuantizedTensor", "call", "takes"]

_aten = torch.ops.aten
_operators = torch_quantized.operators

_KINDS = {
    torch.quint8: (torch.uint8, 0, 255),
    torch.qint8: (torch.int8, -128, 127),
    torch.qint32: (torch.int32, -(2**31), 2**31 - 1),
}

_SMALLEST_SCALE = torch.finfo(torch.float32).tiny


class QuantizedTensor(torch.Tensor):
    """A quantised tensor while a model is captured.

    Attributes:
        values: The integers.
        scale: The scale: a number or a tensor.
        zero_point: The zero point: a number or a tensor.
        axis: The axis of the channels that have a scale each; None where there is one scale.
        kind: The dtype, such as torch.quint8.
    """

    values: torch.Tensor
    scale: Any
    zero_point: Any
    axis: int | None
    kind: torch.dtype

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(
        cls, values: torch.Tensor, scale: Any, zero_point: Any, kind: torch.dtype, axis: int | None = None
    ) -> QuantizedTensor:
        made = torch.Tensor._make_wrapper_subclass(
            cls, values.shape, strides=values.stride(), dtype=values.dtype, device=values.device
        )
        made.values, made.scale, made.zero_point, made.kind, made.axis = values, scale, zero_point, kind, axis
        return made

    @property
    def is_quantized(self) -> bool:
        return True

    def __tensor_flatten__(self) -> tuple[list[str], Any]:
        return ["values"], (self.scale, self.zero_point, self.kind, self.axis)

    @staticmethod
    def __tensor_unflatten__(inner: dict[str, torch.Tensor], context: Any, size: Any, stride: Any) -> QuantizedTensor:
        return QuantizedTensor(inner["values"], *context)

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return call(function, args, kwargs or {})

    def in_floats(self) -> torch.Tensor:
        """The floating numbers that it stands for."""
        return _dequantized(Weight(self.values, self.scale, self.zero_point, self.axis, self.kind, None))

    def like(self, values: torch.Tensor) -> QuantizedTensor:
        """Other integers with the same scale and zero point."""
        return QuantizedTensor(values, self.scale, self.zero_point, self.kind, self.axis)

    def quantized_like(self, numbers: torch.Tensor) -> QuantizedTensor:
        """Floating numbers, quantised with the same scale and zero point."""
        return _quantized(numbers, self.scale, self.zero_point, self.kind, self.axis)


def takes(function: Any) -> bool:
    """Whether an operator makes quantised tensors, or computes with packed weights."""
    return function.namespace == "quantized" or function in _CREATING


def call(function: Any, args: Any, kwargs: Any) -> Any:
    """The result of an operator that takes or makes quantised tensors, by operators on tensors of integers.

    Raises:
        CaptureError: It is not one of those that are known here.
    """
    name = function._schema.name
    short = name.partition("::")[2]
    given = _by_name(function, args, kwargs)
    if function.namespace == "quantized":
        made = _call_quantized(short, given)
    elif function in _CREATING:
        made = _CREATING[function](given)
    else:
        made = _call_aten(function, short, args, kwargs)
    if made is NotImplemented:
        raise CaptureError(
            f"The operator {name} is not supported on quantized tensors. Dequantize its input, or quantize the "
            "model with torchao's prepare_pt2e and convert_pt2e."
        )
    return made


def _by_name(function: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """All arguments of an operator."""
    declared = function._schema.arguments
    given = {argument.name: value for argument, value in zip(declared, args, strict=False)} | dict(kwargs)
    return {argument.name: given.get(argument.name, argument.default_value) for argument in declared}


# Quantising and dequantising


def _number(value: Any) -> Any:
    """A scale or a zero point as a number, where it is known at export."""
    if not isinstance(value, torch.Tensor):
        return value
    item = value.item()
    return item if isinstance(item, (int, float)) else value


def _quantized(
    numbers: torch.Tensor, scale: Any, zero_point: Any, kind: Any, axis: int | None = None
) -> QuantizedTensor:
    dtype, low, high = _KINDS[kind]
    if axis is not None:
        values = _operators.quantize_per_channel(numbers, scale, zero_point, axis, low, high, dtype)
    elif isinstance(scale, torch.Tensor) or isinstance(zero_point, torch.Tensor):
        scale, zero_point = torch.as_tensor(scale), torch.as_tensor(zero_point)
        values = _operators.quantize_per_tensor.tensor(numbers, scale, zero_point, low, high, dtype)
    else:
        values = _operators.quantize_per_tensor(numbers, scale, zero_point, low, high, dtype)
    return QuantizedTensor(values, scale, zero_point, kind, axis)


def _dequantized(weight: Weight) -> torch.Tensor:
    values, scale, zero_point, axis, kind, _ = weight
    if scale is None:
        return values.float()
    dtype, low, high = _KINDS[kind]
    if axis is not None:
        return _operators.dequantize_per_channel(values, scale, zero_point, axis, low, high, dtype)
    if isinstance(scale, torch.Tensor) or isinstance(zero_point, torch.Tensor):
        return _operators.dequantize_per_tensor.tensor(values, scale, zero_point, low, high, dtype)
    return _operators.dequantize_per_tensor(values, scale, zero_point, low, high, dtype)


def _rounded_dynamically(x: torch.Tensor, reduce_range: bool) -> torch.Tensor:
    """A floating tensor, quantised by its own range and dequantised again."""
    largest = 127 if reduce_range else 255
    scale, zero_point = _operators.choose_qparams.tensor(x, 0, largest, _SMALLEST_SCALE, torch.uint8)
    values = _operators.quantize_per_tensor.tensor(x, scale, zero_point, 0, 255, torch.uint8)
    return _operators.dequantize_per_tensor.tensor(values, scale, zero_point, 0, 255, torch.uint8)


def _quantize_per_tensor(given: dict[str, Any]) -> Any:
    scale, zero_point = _number(given["scale"]), _number(given["zero_point"])
    return _quantized(given["self"], scale, zero_point, given["dtype"])


def _quantize_per_channel(given: dict[str, Any]) -> Any:
    return _quantized(given["self"], given["scales"], given["zero_points"], given["dtype"], given["axis"])


def _refuse_recurrent(given: dict[str, Any]) -> Any:
    raise CaptureError(
        "Eager-mode quantized LSTM and GRU are not supported. Leave nn.LSTM and nn.GRU out of the layers that are "
        "passed to quantize_dynamic."
    )


_CREATING: dict[Any, Callable[[dict[str, Any]], Any]] = {
    _aten.quantize_per_tensor.default: _quantize_per_tensor,
    _aten.quantize_per_tensor.tensor_qparams: _quantize_per_tensor,
    _aten.quantize_per_channel.default: _quantize_per_channel,
    _aten.quantized_lstm.input: _refuse_recurrent,
    _aten.quantized_lstm.data: _refuse_recurrent,
    _aten.quantized_gru.input: _refuse_recurrent,
    _aten.quantized_gru.data: _refuse_recurrent,
}


# Operators of the namespace quantized


def _batch_norm(given: dict[str, Any]) -> torch.Tensor:
    x = _floats(given["qx"])
    return F.batch_norm(x, given["mean"], given["var"], given["weight"], given["bias"], False, 0.0, given["eps"])


def _floats(value: Any) -> Any:
    """Quantised tensors among the arguments as floating ones."""
    if isinstance(value, QuantizedTensor):
        return value.in_floats()
    return [_floats(each) for each in value] if isinstance(value, (list, tuple)) else value


def _pair(operation: Callable[..., torch.Tensor]) -> Callable[[dict[str, Any]], torch.Tensor]:
    return lambda given: operation(_floats(given["qa"]), _floats(given["qb"]))


# What is computed in floating numbers, and quantised by the scale and the zero point that are given.
_COMPUTED: dict[str, Callable[[dict[str, Any]], torch.Tensor]] = {
    "add": _pair(torch.add),
    "mul": _pair(torch.mul),
    "matmul": _pair(torch.matmul),
    "batch_norm": _batch_norm,
    "batch_norm1d": _batch_norm,
    "batch_norm2d": _batch_norm,
    "batch_norm3d": _batch_norm,
    "celu": lambda given: F.celu(_floats(given["self"]), float(given["alpha"])),
    "elu": lambda given: _aten.elu(_floats(given["self"]), given["alpha"], given["scale"], given["input_scale"]),
    "group_norm": lambda given: F.group_norm(
        _floats(given["input"]), given["num_groups"], given["weight"], given["bias"], given["eps"]
    ),
    "hardswish": lambda given: F.hardswish(_floats(given["input"])),
    "instance_norm": lambda given: F.instance_norm(
        _floats(given["input"]), None, None, given["weight"], given["bias"], True, 0.1, given["eps"]
    ),
    "layer_norm": lambda given: F.layer_norm(
        _floats(given["input"]), given["normalized_shape"], given["weight"], given["bias"], given["eps"]
    ),
    "leaky_relu": lambda given: F.leaky_relu(_floats(given["qx"]), float(given["negative_slope"])),
    "prelu": lambda given: F.prelu(_floats(given["qx"]), _floats(given["weight"])),
    "sigmoid": lambda given: torch.sigmoid(_floats(given["qx"])),
    "softmax": lambda given: torch.softmax(_floats(given["qx"]), given["dim"]),
}


def _call_quantized(short: str, given: dict[str, Any]) -> Any:
    packed = next((value for value in given.values() if is_packed(value)), None)
    base = short if short in _COMPUTED else short.removesuffix("_relu")
    if packed is not None:
        return _call_packed(short, given, packed)
    if base == "cat":
        return _concatenated(given["qx"], given["dim"], given["scale"], given["zero_point"], short != base)
    if base in ("add_scalar", "mul_scalar") or (base in ("add", "mul") and "b" in given):
        return _with_number(base, given, short != base)
    if short in ("relu6", "clamp", "max_pool1d", "max_pool2d"):
        return _same_scale(short, given)
    compute = _COMPUTED.get(base)
    if compute is None:
        return NotImplemented
    numbers = compute(given)
    tensor = next(value for value in given.values() if isinstance(value, QuantizedTensor))
    return _result(F.relu(numbers) if short != base else numbers, given, tensor.kind)


def _result(numbers: torch.Tensor, given: dict[str, Any], kind: torch.dtype) -> QuantizedTensor:
    """A result, quantised by the scale and the zero point among the arguments."""
    # They are called output_scale, Y_scale_i and, where that is no parameter of the operator itself, scale.
    scale = next(given[name] for name in ("output_scale", "Y_scale_i", "scale") if name in given)
    zero_point = next(value for name, value in given.items() if "zero_point" in name)
    return _quantized(numbers, _number(scale), _number(zero_point), kind)


def _concatenated(tensors: Any, dim: int, scale: Any, zero_point: Any, is_relu: bool) -> QuantizedTensor:
    first = tensors[0]
    numbers = torch.cat(_floats(tensors), dim)
    scale = first.scale if scale is None else _number(scale)
    zero_point = first.zero_point if zero_point is None else _number(zero_point)
    return _quantized(F.relu(numbers) if is_relu else numbers, scale, zero_point, first.kind)


def _with_number(base: str, given: dict[str, Any], is_relu: bool) -> Any:
    """A sum or a product with a number, which changes the zero point or the scale and leaves the integers."""
    tensor, number = given["qa"], _number(given["b"])
    _, low, high = _KINDS[tensor.kind]
    if any(isinstance(each, torch.Tensor) for each in (tensor.scale, tensor.zero_point, number)):
        return NotImplemented
    if base.startswith("mul"):
        if number <= 0:
            return NotImplemented
        made = QuantizedTensor(tensor.values, tensor.scale * number, tensor.zero_point, tensor.kind)
    else:
        zero_point = tensor.zero_point - round(number / tensor.scale)
        if not low <= zero_point <= high:
            return NotImplemented
        made = QuantizedTensor(tensor.values, tensor.scale, zero_point, tensor.kind)
    return made.quantized_like(F.relu(made.in_floats())) if is_relu else made


def _same_scale(short: str, given: dict[str, Any]) -> QuantizedTensor:
    tensor = given["qx"]
    x = tensor.in_floats()
    if short == "relu6":
        x = F.relu6(x)
    elif short == "clamp":
        x = torch.clamp(x, given["min"], given["max"])
    else:
        pool = F.max_pool1d if short == "max_pool1d" else F.max_pool2d
        sizes = (given["kernel_size"], given["stride"] or None, given["padding"], given["dilation"])
        x = pool(x, *sizes, ceil_mode=given["ceil_mode"])
    return tensor.quantized_like(x)


def _call_packed(short: str, given: dict[str, Any], packed: Any) -> Any:
    """A linear layer or a convolution."""
    x = next(value for value in given.values() if isinstance(value, torch.Tensor))
    parts = short.split("_")
    if parts[0] == "linear":
        if set(parts[1:]) - {"relu", "dynamic", "fp16"}:
            return NotImplemented
        is_half = "fp16" in parts
        numbers = _linear(_input(x, given, parts, is_half), packed)
    elif parts[0].startswith("conv"):
        if set(parts[1:]) - {"relu", "dynamic", "add", "transpose1d", "transpose2d", "transpose3d"}:
            return NotImplemented
        numbers = _convolution(_input(x, given, parts, False), packed)
    else:
        return NotImplemented
    if "add" in parts:
        numbers = numbers + _floats(given["qaccum"])
    if "relu" in parts:
        numbers = F.relu(numbers)
    if "dynamic" in parts:
        return numbers
    return _result(numbers, given, x.kind) if isinstance(x, QuantizedTensor) else NotImplemented


def _input(x: torch.Tensor, given: dict[str, Any], parts: list[str], is_half: bool) -> torch.Tensor:
    if "dynamic" in parts and not is_half:
        return _rounded_dynamically(x, bool(given.get("reduce_range")))
    return _floats(x)


def _linear(x: torch.Tensor, packed: Any) -> torch.Tensor:
    weight = torch_quantized.linear(packed)
    return F.linear(x, _dequantized(weight), weight.bias)


def _convolution(x: torch.Tensor, packed: Any) -> torch.Tensor:
    rank = x.dim() - 2
    layer = torch_quantized.convolution(packed, rank)
    weight, bias = _dequantized(layer.weight), layer.weight.bias
    if layer.is_transposed:
        transposed = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[rank - 1]
        sizes = (layer.stride, layer.padding, layer.output_padding, layer.groups, layer.dilation)
        return transposed(x, weight, bias, *sizes)
    convolve = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
    return convolve(x, weight, bias, layer.stride, layer.padding, layer.dilation, layer.groups)


# Operators of PyTorch's own on quantised tensors


def _call_aten(function: Any, short: str, args: Any, kwargs: Any) -> Any:
    base = short.removesuffix("_") if function._schema.is_mutable else short
    if base == "cat":
        given = _by_name(function, args, kwargs)
        return _concatenated(given["tensors"], given["dim"], None, None, False)
    tensor = args[0]
    if not isinstance(tensor, QuantizedTensor):
        return NotImplemented
    if base in _READING:
        return _READING[base](tensor)
    if base == "dequantize":
        return tensor.in_floats()
    if tensor.axis is not None and base not in ("clone", "detach", "contiguous", "alias"):
        return NotImplemented
    if base in MOVING:
        moved = function(tensor.values, *args[1:], **kwargs)
        return [tensor.like(each) for each in moved] if isinstance(moved, (list, tuple)) else tensor.like(moved)
    if base in FIXED:
        scale, zero_points = FIXED[base]
        return _quantized(getattr(_aten, base)(tensor.in_floats()), scale, zero_points[tensor.kind], tensor.kind)
    if base not in KEEPING_SCALE:
        return NotImplemented
    packet = getattr(_aten, base)
    made = tensor.quantized_like(packet(tensor.in_floats(), *args[1:], **kwargs))
    if not function._schema.is_mutable:
        return made
    tensor.values = made.values
    return tensor


_READING: dict[str, Callable[[QuantizedTensor], Any]] = {
    "int_repr": lambda tensor: tensor.values,
    "q_scale": lambda tensor: tensor.scale,
    "q_zero_point": lambda tensor: tensor.zero_point,
    "q_per_channel_scales": lambda tensor: tensor.scale,
    "q_per_channel_zero_points": lambda tensor: tensor.zero_point,
    "q_per_channel_axis": lambda tensor: tensor.axis,
}
