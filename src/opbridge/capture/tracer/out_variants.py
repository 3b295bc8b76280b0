"""Operators that write their results to tensors that are there (`torch.add(x, y, out=z)`).

1. The operator without `out` is recorded, and a copy of each result into its tensor.
2. A tensor of another shape is resized, as torch resizes it: it is then the result itself.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from opbridge.base.torch_private import torch_sizes
from opbridge.capture.tracer.recording import Recording

__all__ = ["functional_form", "record"]

_aten = torch.ops.aten


@functools.cache
def functional_form(function: Any) -> Any:
    """The overload that returns what an operator writes to its `out` arguments; None for any other operator."""
    given = [each for each in function._schema.arguments if not each.is_out]
    written = len(function._schema.arguments) - len(given)
    if not written:
        return None
    wanted = {each.name: str(each.type) for each in given}
    for name in function._overloadpacket.overloads():
        other = getattr(function._overloadpacket, name)
        arguments = other._schema.arguments
        known = {each.name: str(each.type) for each in arguments}
        if (
            not other._schema.is_mutable
            and len(other._schema.returns) == written
            and wanted.items() <= known.items()
            and all(each.name in wanted or each.has_default_value() for each in arguments)
        ):
            return other
    return None


def record(recorder: Recording, function: Any, args: Any, kwargs: Any) -> Any:
    """Records an operator with `out` arguments, for which there is a `functional_form`."""
    functional = functional_form(function)
    names = [each.name for each in function._schema.arguments if each.is_out]
    outs = [kwargs[name] for name in names]
    settings = {name: value for name, value in kwargs.items() if name not in names}
    if any(each.name == "dtype" for each in functional._schema.arguments) and settings.get("dtype") is None:
        settings["dtype"] = outs[0].dtype
    found = recorder.record(functional, args, settings)
    results = [found] if len(outs) == 1 else list(found)
    for out, result in zip(outs, results, strict=True):
        _write(recorder, out, result)
    return outs[0] if len(outs) == 1 else tuple(outs)


def _write(recorder: Recording, out: torch.Tensor, result: torch.Tensor) -> None:
    fake = recorder.tracked(out).fake
    if len(fake.shape) == len(result.shape) and all(map(torch_sizes.is_equal, fake.shape, result.shape)):
        recorder.record(_aten.copy_.default, (out, result), {})
        return
    if fake.dtype != result.dtype:
        result = recorder.record(_aten.to.dtype, (result, fake.dtype), {})
    with recorder.fake_mode:
        if torch_sizes.unknown_symbols([size for size in result.shape if isinstance(size, torch.SymInt)]):
            fake.set_(result.new_empty(result.shape))  # resize_ asks how large it is
        else:
            fake.resize_(result.shape)
    recorder.track(fake, recorder.tracked(result).node)
