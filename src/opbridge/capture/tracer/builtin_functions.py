"""Python's own functions of numbers, which fix a dynamic size: `len`, `max`, `min`, `sum`, `divmod` and some of
`math`'s keep it dynamic.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import math
import operator
import sys
from collections.abc import Callable, Iterator
from types import GeneratorType, ModuleType
from typing import Any

import numpy
import torch

from opbridge.base.attributes import replacing
from opbridge.base.torch_private import torch_extremes, torch_sizes
from opbridge.capture.tracer.filling import filled_list
from opbridge.capture.tracer.loop_filled_lists import gathered, gathered_numbers
from opbridge.capture.tracer.model_functions import OTHER_PACKAGES
from opbridge.capture.tracer.number_calls import length, with_keys
from opbridge.capture.tracer.symbolic_list import sequence_of

__all__ = ["following_sizes"]

# `len` returns an int, and `max` asks which size is larger, so that torch has to fix the sizes or a condition on them.
# `len` is called too often to be replaced everywhere.
_NUMBERS = (torch.SymInt, torch.SymFloat)


@contextlib.contextmanager
def following_sizes(module: torch.nn.Module | None) -> Iterator[None]:
    """Within this context, these functions take symbolic sizes, and `max` and `min` tensors without values.

    Args:
        module: The model: `len` does so in the packages that its submodules are defined in. None: no size is symbolic.
    """
    changed: list[dict[str, Any]] = []
    if module is not None:
        packages = {type(each).__module__.partition(".")[0] for each in module.modules()} - OTHER_PACKAGES
        below = tuple(f"{each}." for each in packages)
        for path, loaded in list(sys.modules.items()):
            # Of thousands of modules, before each run of the model.
            if not (path.startswith(below) or path in packages):
                continue
            if isinstance(loaded, ModuleType) and "len" not in vars(loaded):
                changed.append(vars(loaded))
                vars(loaded)["len"] = length
    try:
        with replacing(*_REPLACED):
            yield
    finally:
        for names in changed:
            del names["len"]


def _extreme(python: Callable[..., Any], of_sizes: Callable[..., Any], is_better: Callable[..., Any]) -> Any:
    """`max` or `min`: of sizes, a size; of tensors and numbers, the tensor that Python's comparisons choose."""

    @functools.wraps(python)
    def extreme(*values: Any, **settings: Any) -> Any:
        if len(values) == 1 and isinstance(values[0], Iterator):  # which would be used up
            values = (filled_list(values[0]),)
        if len(values) == 1 and not settings and (scalars := _scalars(values[0])) is not None:
            return _chosen(scalars, python.__name__ == "max")
        if len(values) == 1 and not settings and (integers := _integers(values[0])) is not None:
            return getattr(integers, python.__name__)().item()
        if len(values) == 1 and settings.keys() == {"key"}:
            if (found := with_keys(values[0], settings["key"])) is not None:
                form, keys = found
                return form[(keys.argmax() if python.__name__ == "max" else keys.argmin()).item()]
        given = values[0] if len(values) == 1 and isinstance(values[0], (list, tuple)) else values
        if settings or not given:
            return python(*values, **settings)
        if any(isinstance(each, _NUMBERS) for each in given):
            if all(isinstance(each, (int, float, *_NUMBERS)) for each in given):
                return torch_extremes.simplified(functools.reduce(of_sizes, given))
        elif any(isinstance(each, torch.Tensor) for each in given) and all(map(_is_scalar, given)):
            return functools.reduce(chosen, given)
        return python(*values)

    def chosen(best: Any, each: Any) -> Any:
        if isinstance(best, torch.Tensor) or isinstance(each, torch.Tensor):
            return torch.where(is_better(each, best), each, best)
        return python(best, each)

    return extreme


def _scalars(value: Any) -> torch.Tensor | None:
    """The tensors of a list of a symbolic length, where they have no dimensions, as one; None for any other value."""
    sequence = sequence_of(value)
    return sequence.stacked(0) if sequence is not None and sequence.rank() == 0 else None


def _chosen(rows: torch.Tensor, is_max: bool) -> torch.Tensor:
    """What Python's comparisons choose, by which nan is chosen as the first one alone."""
    first = rows[0]
    if rows.dtype.is_floating_point:
        rows = torch.where(rows.isnan() & ~first.isnan(), first, rows)
    found = rows.amax(0) if is_max else rows.amin(0)
    return torch.where(first.isnan(), first, found) if rows.dtype.is_floating_point else found


def _integers(value: Any) -> torch.Tensor | None:
    """The integers of a list whose length is symbolic or has grown in a loop, as a tensor; None for any other value."""
    if (sequence := sequence_of(value)) is not None:
        return sequence.integers()
    if type(value) not in (list, tuple) or any(isinstance(each, torch.Tensor) for each in value):
        return None
    found = gathered_numbers(value)
    return None if found is None or found.dtype.is_floating_point else found


_sum = sum


def _total(values: Any, *start: Any, **settings: Any) -> Any:
    """`sum`: of a list of a symbolic length, or one that has grown in a loop, one number or tensor."""
    if isinstance(values, GeneratorType):  # which would be used up
        values = filled_list(values)
    first = settings.get("start", (*start, 0)[0])
    integers = _integers(values)
    if integers is not None:
        return first + integers.sum().item()
    rows = _rows(values)
    if rows is None:
        return _sum(values, *start, **settings)
    return first + rows.sum(0, dtype=torch.result_type(rows, 0))


def _rows(values: Any) -> torch.Tensor | None:
    """The rows of a tensor, or the tensors of a list, of which the number is symbolic; None for any other value."""
    if (sequence := sequence_of(values)) is not None:
        return sequence.stacked(0)
    if isinstance(values, torch.Tensor):
        return values if values.dim() and isinstance(values.shape[0], torch.SymInt) else None
    found = gathered(values, None)
    return None if found is None else torch.cat(found[0])


def _is_scalar(value: Any) -> bool:
    return value.numel() == 1 if isinstance(value, torch.Tensor) else isinstance(value, (int, float))


_pow = math.pow


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(base, _NUMBERS) or isinstance(exponent, _NUMBERS):
        return torch.sym_float(base) ** exponent
    return _pow(base, exponent)


_divmod = divmod


def _parts(number: Any, divisor: Any) -> Any:
    if isinstance(number, _NUMBERS) or isinstance(divisor, _NUMBERS):
        return number // divisor, number % divisor
    return _divmod(number, divisor)


def _rounded(number: torch.SymInt, ndigits: int | None = None) -> Any:
    """`round` of a symbolic integer, which torch takes for one that is rounded, whatever the place."""
    if ndigits is None or ndigits >= 0:
        return number
    unit = 10**-ndigits
    rest = number % unit
    below = (number - rest) // unit
    twice = rest * 2
    is_above = (twice > unit) | ((twice == unit) & (below % 2 == 1))
    return (below + torch.sym_ite(is_above, 1, 0)) * unit


_sqrt = math.sqrt


def _square_root(number: Any) -> Any:
    return torch.sym_sqrt(number) if isinstance(number, _NUMBERS) else _sqrt(number)


_log = math.log


def _logarithm(number: Any, *base: Any) -> Any:
    """`math.log`; torch has a logarithm of base 2 for symbolic numbers."""
    if not isinstance(number, _NUMBERS):
        return _log(number, *base)
    return torch_sizes.logarithm2(number) / (math.log2(*base) if base else math.log2(math.e))


_exp = math.exp


def _exponential(number: Any) -> Any:
    return math.e**number if isinstance(number, _NUMBERS) else _exp(number)


_log2 = math.log2


def _logarithm2(number: Any) -> Any:
    return torch_sizes.logarithm2(number) if isinstance(number, _NUMBERS) else _log2(number)


_log10 = math.log10


def _logarithm10(number: Any) -> Any:
    return _logarithm(number, 10) if isinstance(number, _NUMBERS) else _log10(number)


_copysign = math.copysign


def _with_sign(number: Any, sign: Any) -> Any:
    """`math.copysign`: the sign of a size is a condition at most."""
    if not isinstance(number, _NUMBERS) and not isinstance(sign, _NUMBERS):
        return _copysign(number, sign)
    return abs(torch.sym_float(number)) * (1 if sign >= 0 else -1)


_isnan = math.isnan


def _is_nan(number: Any) -> bool:
    return not isinstance(number, _NUMBERS) and _isnan(number)


def _of_numpy(name: str, of_numbers: Callable[[Any], Any]) -> tuple[Any, str, Callable[..., Any]]:
    """A function of NumPy's, which takes a symbolic number too."""
    original = getattr(numpy, name)
    return numpy, name, _NumpyFunction(original, of_numbers)


class _NumpyFunction:
    """A function of NumPy's with its attributes; of a symbolic number it is another function."""

    def __init__(self, original: Any, of_numbers: Callable[[Any], Any]) -> None:
        self._original, self._of_numbers = original, of_numbers

    def __call__(self, *args: Any, **settings: Any) -> Any:
        if len(args) == 1 and isinstance(args[0], _NUMBERS) and not settings:
            return self._of_numbers(args[0])
        return self._original(*args, **settings)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


_REPLACED: tuple[tuple[Any, str, Callable[..., Any]], ...] = (
    (builtins, "max", _extreme(max, torch.sym_max, operator.gt)),
    (builtins, "min", _extreme(min, torch.sym_min, operator.lt)),
    (builtins, "sum", _total),
    (builtins, "divmod", _parts),
    (torch.SymInt, "__round__", _rounded),
    (math, "pow", _power),
    (math, "sqrt", _square_root),
    (math, "log", _logarithm),
    (math, "log2", _logarithm2),
    (math, "log10", _logarithm10),
    (math, "exp", _exponential),
    (math, "copysign", _with_sign),
    (math, "isnan", _is_nan),
    _of_numpy("sqrt", _square_root),
    _of_numpy("log", _logarithm),
    _of_numpy("log2", _logarithm2),
    _of_numpy("log10", _logarithm10),
    _of_numpy("exp", _exponential),
    _of_numpy("ceil", math.ceil),
    _of_numpy("floor", math.floor),
)
