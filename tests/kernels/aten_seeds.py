"""Calls of aten's operators, taken from PyTorch's own test database, to make nodes of."""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

Call = tuple[torch._ops.OpOverload, list[Any], dict[str, Any]]

_DTYPES = (torch.float32, torch.complex64, torch.int64, torch.bool)


class _Recorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls.append(_copied(function, args, kwargs or {}))
        return function(*args, **(kwargs or {}))


def _copied(function: Any, args: Any, kwargs: Any) -> Call:
    args, kwargs = pytree.tree_map_only(torch.Tensor, lambda each: each.detach().clone(), (list(args), dict(kwargs)))
    return function, args, kwargs


def recorded(*, every: int = 1, first: int = 0, per_operator: int = 3) -> dict[str, list[Call]]:
    """By operator, some calls that the samples of every n-th entry of the database lead to."""
    from torch.testing._internal.common_methods_invocations import op_db

    warnings.filterwarnings("ignore")
    found: dict[str, list[Call]] = {}
    for entry in op_db[first::every]:
        for sample in _samples(entry):
            for call in _calls(entry, sample):
                known = found.setdefault(str(call[0]), [])
                if len(known) < per_operator:
                    known.append(call)
    return found


def _samples(entry: Any) -> Iterator[Any]:
    for dtype in [each for each in _DTYPES if each in entry.dtypes][:2]:
        try:
            yield from itertools.islice(entry.sample_inputs("cpu", dtype), 3)
        except Exception:  # a few need a GPU, or a dtype of their own
            continue


def _calls(entry: Any, sample: Any) -> Iterator[Call]:
    """The operators that PyTorch ends up with, and the one by whose name the entry goes."""
    recorder = _Recorder()
    try:
        with recorder:
            entry.op(sample.input, *sample.args, **sample.kwargs)
    except Exception:  # what PyTorch refuses is no seed
        return
    yield from recorder.calls
    packet = getattr(torch.ops.aten, entry.aten_name or entry.name, None)
    args = [sample.input, *sample.args]
    for name in packet.overloads() if isinstance(packet, torch._ops.OpOverloadPacket) else ():
        overload = getattr(packet, name)
        call = _copied(overload, args, sample.kwargs)
        try:
            overload(*args, **sample.kwargs)
        except Exception:  # this overload takes other arguments
            continue
        yield call
        return


def saved(path: Path, **options: int) -> None:
    """Writes models of one node each, and the tensors to feed them, as `torch.load` reads them.

    Only operators that run without being named are among them.
    """
    from aten_calls import node_model, session_of

    from opbridge.errors import OpbridgeError
    from opbridge.onnx import serialize

    made = []
    for calls in recorded(**options).values():
        for target, args, kwargs in calls:
            given = pytree.tree_map_only(torch.Tensor, torch.Tensor.clone, (args, kwargs))
            try:
                with torch.no_grad():
                    model, fed = node_model(target, args, kwargs, target(*given[0], **given[1]))
                content = serialize.to_bytes(model), [each.contiguous().clone() for each in fed]
                session_of(model)
            except (OpbridgeError, RuntimeError, ValueError, TypeError):  # what no node holds, and what is refused
                continue
            if model.graph.outputs:
                made.append(content)
    torch.save(made, path)
    print(f"{len(made)} calls")


if __name__ == "__main__":
    saved(Path(sys.argv[1]), every=int(sys.argv[2]), first=int(sys.argv[3]))
