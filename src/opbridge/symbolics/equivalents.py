"""Operators that have another name in TorchScript's trace than in torch.export's capture.

A symbolic function that is registered for the name in a trace is used for the operator in the capture:

    aten::conv1d, conv2d, conv3d, conv_transpose*   aten::_convolution
    the same with padding given as a string         aten::_convolution_mode
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["arguments_in_trace", "name_in_trace"]

_CONVOLUTIONS = {f"aten::conv{dims}d": dims for dims in (1, 2, 3)}
_TRANSPOSED = {
    "aten::conv_transpose1d": 1,
    "aten::conv_transpose2d.input": 2,
    "aten::conv_transpose3d.input": 3,
}
# benchmark, deterministic, cudnn_enabled, allow_tf32
_SWITCHES = [False, False, True, True]


def name_in_trace(operator: str) -> str | None:
    """The name of the operator that replaces this one in a trace, or None."""
    if operator in _CONVOLUTIONS or operator in _TRANSPOSED:
        return "aten::_convolution"
    return "aten::_convolution_mode" if operator.removesuffix(".padding") in _CONVOLUTIONS else None


def arguments_in_trace(operator: str, given: Sequence[Any]) -> list[Any]:
    """The arguments of that operator, from those of this one in the order of its schema."""
    if operator in _TRANSPOSED:
        data, weight, bias, stride, padding, output_padding, groups, dilation = given
        transposed = True
    else:
        data, weight, bias, stride, padding, dilation, groups = given
        transposed, output_padding = False, [0]
    if isinstance(padding, str):
        return [data, weight, bias, stride, padding, dilation, groups]
    dims = (_CONVOLUTIONS | _TRANSPOSED)[operator]
    sizes = [_each(value, dims) for value in (stride, padding, dilation)]
    return [data, weight, bias, *sizes, transposed, _each(output_padding, dims), groups, *_SWITCHES]


def _each(value: Sequence[Any], dims: int) -> list[Any]:
    """A list with one number for each dimension."""
    return list(value) * dims if len(value) == 1 else list(value)
