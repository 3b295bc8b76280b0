"""Running code of PyTorch's in float64 although its tensors are narrower, or with results rounded otherwise."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from opbridge.base.torch_private.narrow_images import as_defined

__all__ = ["in_float64", "rounded_otherwise", "widened"]

_WIDER = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}
_NARROWER = {torch.float64: torch.float32, torch.complex128: torch.complex64}


def widened(tensor: torch.Tensor) -> torch.Tensor:
    """A float or complex tensor in float64 or complex128; any other tensor itself."""
    wider = _WIDER.get(tensor.dtype)
    return tensor if wider is None else tensor.to(wider)


@contextlib.contextmanager
def in_float64() -> Iterator[None]:
    """Within this context, operators compute in float64, whatever the dtype of their arguments.

    1. Float arguments of an operator are converted to float64, and so is a dtype that it is given: `x.float()` and
       `torch.zeros(3, dtype=torch.float32)` give float64 tensors.
    2. Views are not converted, so that writes through them reach the tensor that they view; an operator that writes to
       a tensor keeps that tensor's dtype.
    3. An operator that does not take float64 computes in float32, and its results are converted.
    4. What PyTorch computes wrongly is computed as it is defined (`narrow_images`).

    Tensors that exist outside of the context are read, and written to only where the code itself does so.

    Raises:
        NotImplementedError: A tensor's bits are read as another dtype, which differ in float64.
    """
    with _InFloat64():
        yield


@contextlib.contextmanager
def rounded_otherwise(seed: int) -> Iterator[None]:
    """Within this context, operators whose rounding runtimes do not share with PyTorch are rounded otherwise.

    1. Sums of products, as where they are summed in another order: a result is as far from the one in float64 as
       PyTorch's own is, and lies, at random, on the same side of it or on the other.
    2. Other sums, where a few elements of a large one have all digits by chance: a result is larger or smaller by its
       last digit, or as it is, at random.
    3. Sigmoids, which PyTorch computes to the last digit also where they are small, and ONNX Runtime by a quotient of
       polynomials, with an error on the scale of 1: a result is larger or smaller by eps, or as it is, at random, and
       between 0 and 1.

    Sums that are exact stay as they are.

    Args:
        seed: The same seed gives the same results.
    """
    with _RoundedOtherwise(seed):
        yield


_aten = torch.ops.aten
_PRODUCTS = frozenset(
    {
        _aten.convolution.default,
        _aten.mm.default,
        _aten.bmm.default,
        _aten.addmm.default,
        _aten.baddbmm.default,
    }
)
_SUMS = frozenset({_aten.sum.default, _aten.sum.dim_IntList, _aten.mean.default, _aten.mean.dim, _aten.cumsum.default})
_SIGMOIDS = frozenset({_aten.sigmoid.default, _aten.sigmoid_.default, _aten.silu.default, _aten.silu_.default})


class _RoundedOtherwise(TorchDispatchMode):
    def __init__(self, seed: int) -> None:
        super().__init__()
        self._generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _SIGMOIDS and args[0].dtype in _WIDER and not args[0].is_complex():
            return self._sigmoid(func, args[0])
        result = func(*args, **kwargs)
        if func not in _PRODUCTS | _SUMS or result.dtype not in _WIDER or result.is_complex():
            return result
        wide_args, wide_kwargs = pytree.tree_map(_wide, (args, kwargs))
        exact = func(*wide_args, **wide_kwargs)
        if func in _SUMS:
            last_digits = (self._drawn(3, result) - 1) * torch.finfo(result.dtype).eps * result
            return torch.where((exact == result) | ~result.isfinite(), result, result + last_digits)
        is_other = self._drawn(2, result).to(torch.bool)
        return torch.where(is_other, 2 * exact - result, result).to(result.dtype)

    def _sigmoid(self, func: Any, x: torch.Tensor) -> torch.Tensor:
        off = (self._drawn(3, x) - 1) * torch.finfo(x.dtype).eps
        result = (x.double().sigmoid() + off).clamp(0, 1).to(x.dtype)
        if func in (_aten.silu.default, _aten.silu_.default):
            result = x * result
        return x.copy_(result) if func._schema.is_mutable else result

    def _drawn(self, count: int, like: torch.Tensor) -> torch.Tensor:
        """Integers from 0 up to a number, exclusive, in the shape and on the device of a tensor."""
        return torch.randint(count, tuple(like.shape), generator=self._generator).to(like.device)


class _InFloat64(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.ops.aten.view.dtype and (args[0].is_floating_point() or args[1].is_floating_point):
            raise NotImplementedError("a tensor's bits are read as another dtype")
        aliases = [argument.alias_info for argument in func._schema.arguments]
        if any(alias is not None and alias.is_write for alias in aliases):
            return _written(func, args, kwargs)
        if any(alias is not None for alias in aliases):
            return func(*args, **kwargs)
        wide_args, wide_kwargs = pytree.tree_map(_wide, (args, kwargs))
        try:
            result = as_defined(func, *wide_args, **wide_kwargs)
        except (RuntimeError, AssertionError, TypeError, ValueError) as error:
            narrow_args, narrow_kwargs = pytree.tree_map_only(torch.Tensor, _narrow, (args, kwargs))
            try:
                result = func(*narrow_args, **narrow_kwargs)
            except Exception:  # whatever it is, the error of the float64 call is the one to tell
                raise error from None
        return pytree.tree_map_only(torch.Tensor, widened, result)


def _written(func: Any, args: Any, kwargs: Any) -> Any:
    """Calls an operator that writes to some of its arguments, whose dtype the other ones get."""
    written = [
        value
        for value, argument in zip(args, func._schema.arguments, strict=False)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    written += [
        kwargs[argument.name]
        for argument in func._schema.arguments
        if argument.name in kwargs and argument.alias_info is not None and argument.alias_info.is_write
    ]
    targets = [tensor for tensor in pytree.tree_leaves(written) if isinstance(tensor, torch.Tensor)]
    kept = {id(tensor) for tensor in targets}
    is_wide = all(tensor.dtype not in _WIDER for tensor in targets)

    def converted(value: Any) -> Any:
        if id(value) in kept or not isinstance(value, torch.Tensor):
            return value
        return widened(value) if is_wide else _narrow(value)

    args, kwargs = pytree.tree_map(converted, (args, kwargs))
    return func(*args, **kwargs)


def _wide(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return widened(value)
    return _WIDER.get(value, value) if isinstance(value, torch.dtype) else value


def _narrow(tensor: torch.Tensor) -> torch.Tensor:
    narrower = _NARROWER.get(tensor.dtype)
    return tensor if narrower is None else tensor.to(narrower)
