"""Eager PyTorch: the time of each operator, by module and source line."""

from __future__ import annotations

import contextlib
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any

import torch
from torch.nn.modules import module as hooks
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from opbridge.base.sources import of_code
from opbridge.errors import UsageError
from opbridge.profiling.data import TorchCall, TorchTimes
from opbridge.verification.eager import Eager, explain

__all__ = ["torch_times"]

_Key = tuple[str, str, str]


def torch_times(
    model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], runs: int, warmup: int, threads: int, seconds: float
) -> TorchTimes:
    """Times eager PyTorch.

    1. Some runs are timed as they are, then some in which each operator is timed by itself.
    2. An operator belongs to the innermost module that is running, and to the innermost line of the stack that lies
       outside of torch.
    3. Of each operator at each line, the time of a run is the median of all runs.
    4. On a GPU, each operator is waited for.

    Args:
        model: A module, a function or an ExportedProgram.
        args: The positional inputs.
        kwargs: The keyword inputs.
        runs: How many runs are timed.
        warmup: How many runs precede them.
        threads: The number of threads of an operator.
        seconds: After so many seconds no further run is begun, but for the first three.

    Raises:
        UsageError: The model does not run.
    """
    eager = Eager(model, prints=False)
    device = _device(model, (args, kwargs))
    names = _names(model)
    plain: list[float] = []
    whole: list[float] = []
    found: list[dict[_Key, list[float]]] = []

    @contextlib.contextmanager
    def watched(times: list[float], within: Callable[[], Any]) -> Iterator[None]:
        _wait(device)
        with within():
            start = time.perf_counter()
            yield
            _wait(device)
            times.append(1e3 * (time.perf_counter() - start))

    def repeat(times: list[float], within: Callable[[], Any]) -> None:
        deadline = time.perf_counter() + seconds
        for number in range(warmup + runs):
            if number >= warmup + 3 and time.perf_counter() > deadline:
                break
            eager.run(args, kwargs, 0, lambda: watched(times, within))
        del times[:warmup]

    @contextlib.contextmanager
    def by_operator() -> Iterator[None]:
        timer = _Timer(names, device)
        with timer, _modules(timer):
            yield
        found.append(timer.found)

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        repeat(plain, contextlib.nullcontext)
        repeat(whole, by_operator)
    except Exception as error:  # the model is the user's
        raise UsageError(f"The model does not run in PyTorch on these inputs: {explain(error)}.") from error
    finally:
        torch.set_num_threads(before)
    calls = []
    measured = found[warmup:]
    for key in dict.fromkeys(key for run in measured for key in run):
        each = [run.get(key, [0, 0.0]) for run in measured]
        operator, module, line = key
        count, spent = statistics.median(one[0] for one in each), statistics.median(one[1] for one in each)
        calls.append(TorchCall(operator, module, line, count, 1e3 * spent))
    numbers = (len(whole), statistics.median(plain), min(plain), statistics.median(whole))
    return TorchTimes(str(torch.__version__), str(device), threads, *numbers, tuple(calls))


class _Timer(TorchDispatchMode):
    """Times each operator within it.

    Attributes:
        found: The calls and the seconds of each operator, by itself, its module and its line.
        modules: The paths of the modules that are running.
    """

    def __init__(self, names: Mapping[int, str], device: torch.device) -> None:
        super().__init__()
        self.found: dict[_Key, list[float]] = defaultdict(lambda: [0, 0.0])
        self.modules: list[str] = []
        self.names = names
        self._device = device

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        _wait(self._device)
        start = time.perf_counter()
        result = func(*args, **(kwargs or {}))
        _wait(self._device)
        spent = time.perf_counter() - start
        found = self.found[_name(func), self.modules[-1] if self.modules else "", _line()]
        found[0] += 1
        found[1] += spent
        return result


def _name(func: Any) -> str:
    """An operator as opbridge names it: "aten::add.Tensor", "aten::relu"."""
    return str(func).removesuffix(".default").replace(".", "::", 1)


def _line() -> str:
    """The innermost line of the stack outside of torch and opbridge."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        found = of_code(frame.f_code, frame.f_lineno)
        if found is not None:
            return str(found)
        frame = frame.f_back
    return ""


@contextlib.contextmanager
def _modules(timer: _Timer) -> Iterator[None]:
    """Within this context, the timer knows which module is running."""

    def enter(module: torch.nn.Module, _: Any) -> None:
        timer.modules.append(timer.names.get(id(module), timer.modules[-1] if timer.modules else ""))

    def leave(module: torch.nn.Module, _: Any, __: Any) -> None:
        timer.modules.pop()

    handles = [
        hooks.register_module_forward_pre_hook(enter),
        hooks.register_module_forward_hook(leave, always_call=True),
    ]
    try:
        yield
    finally:
        for each in handles:
            each.remove()


def _names(model: Any) -> dict[int, str]:
    return {id(each): name for name, each in model.named_modules()} if isinstance(model, torch.nn.Module) else {}


def _device(model: Any, inputs: Any) -> torch.device:
    tensors = [each for each in pytree.tree_leaves(inputs) if isinstance(each, torch.Tensor)]
    if isinstance(model, torch.nn.Module):
        tensors += model.parameters()
    return next((each.device for each in tensors if each.device.type != "cpu"), torch.device("cpu"))


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
