"""Calls of aten's operators that PyTorch's own test database leads to, kept in a file for each release of torch."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from attack.overloads import name_of

__all__ = ["recorded"]

Call = tuple[list[Any], dict[str, Any]]

_DTYPES = (torch.float32, torch.complex64, torch.int64, torch.bool)
_PLAIN = (int, float, bool, complex, str, type(None), torch.dtype, torch.layout, torch.device)
_FORMAT = "memory_format "
"""What a memory format, which torch.save does not take, is written as."""
_MOST = 12
_MOST_NUMBERS = 2000


def recorded(file: Path, names: set[str]) -> dict[str, list[Call]]:
    """By overload, calls of those that are named; made once, and read from the file from then on."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        beside = file.with_name(f"{file.name}.part")
        torch.save(_record(names), beside)
        beside.replace(file)
    found: dict[str, list[Call]] = torch.load(file, weights_only=False)
    return {name: list(map(_restored, calls)) for name, calls in found.items() if name in names}


def _restored(call: Call) -> Call:
    def value_of(each: Any) -> Any:
        return (
            getattr(torch, each.removeprefix(_FORMAT)) if isinstance(each, str) and each.startswith(_FORMAT) else each
        )

    return [value_of(each) for each in call[0]], {name: value_of(each) for name, each in call[1].items()}


class _Recorder(TorchDispatchMode):
    def __init__(self, keep: Any) -> None:
        super().__init__()
        self._keep = keep

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._keep(function, args, kwargs or {})
        return function(*args, **(kwargs or {}))


def _record(names: set[str]) -> dict[str, list[Call]]:
    from torch.testing._internal.common_methods_invocations import op_db

    warnings.filterwarnings("ignore")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    found: dict[str, list[Call]] = {}

    def keep(function: Any, args: Any, kwargs: Any) -> None:
        name = name_of(function)
        known = found.setdefault(name, []) if name in names else []
        if name not in names or len(known) >= _MOST:
            return
        if (call := _copied(args, kwargs)) is not None:
            known.append(call)

    for entry in op_db:
        for sample in _samples(entry):
            _keep_calls(entry, sample, keep)
    return found


def _keep_calls(entry: Any, sample: Any, keep: Any) -> None:
    """The operators that PyTorch ends up with, and those by whose name the entry goes."""
    try:
        with _Recorder(keep):
            entry.op(sample.input, *sample.args, **sample.kwargs)
    except Exception:  # what PyTorch refuses is no sample
        return
    args = [sample.input, *sample.args]
    for which in {entry.aten_name, entry.name.rpartition(".")[2]} - {None}:
        packet = getattr(torch.ops.aten, which, None)
        for overload in packet.overloads() if isinstance(packet, torch._ops.OpOverloadPacket) else ():
            target = getattr(packet, overload)
            if target._schema.is_mutable:
                continue
            try:
                target(*args, **sample.kwargs)
            except Exception:  # this overload takes other arguments
                continue
            keep(target, args, sample.kwargs)


def _samples(entry: Any) -> Iterator[Any]:
    for dtype in [each for each in _DTYPES if each in entry.dtypes][:3]:
        try:
            yield from itertools.islice(entry.sample_inputs("cpu", dtype), 6)
        except Exception:  # a few need a GPU, or a dtype of their own
            continue


class _NoNodeTakes(Exception):
    """A call with a value that no node is given."""


def _copied(args: Any, kwargs: Any) -> Call | None:
    """A call in tensors of its own; None where one is large, or a value is none that a node is given."""
    try:
        return [_plain(each) for each in args], {name: _plain(each) for name, each in kwargs.items()}
    except _NoNodeTakes:
        return None


def _plain(value: Any) -> Any:
    if type(value) in _PLAIN:
        return value
    if isinstance(value, torch.memory_format):
        return f"{_FORMAT}{str(value).removeprefix('torch.')}"
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout != torch.strided or value.is_quantized:
        raise _NoNodeTakes
    if value.numel() > _MOST_NUMBERS or value.device.type != "cpu":
        raise _NoNodeTakes
    return value.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
