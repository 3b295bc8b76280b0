"""What torch does, done otherwise for a while: modes, functions of shapes, replaced functions.

Checked on torch 2.13.0 and 2.15.0.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from opbridge.base.locks import process_state
from opbridge.base.torch_private.torch_operators import operator_object

__all__ = ["in_place_of_parts", "replacing_functions", "shape_functions", "watching_reads", "without_modes"]


def without_modes() -> contextlib.AbstractContextManager[Any]:
    """While it lasts, tensors that are made have data, inside of a capture too."""
    from torch.utils._python_dispatch import _disable_current_modes

    return _disable_current_modes()


@contextlib.contextmanager
def watching_reads(told: Callable[[torch.Tensor], None]) -> Iterator[None]:
    """While it lasts, `told` gets every tensor whose values become Python numbers (`tolist`, `item`, `int`, `if`)."""
    from torch.overrides import TorchFunctionMode

    names = ("tolist", "item", "__int__", "__float__", "__bool__", "__index__")
    reads = {getattr(torch.Tensor, name) for name in names}

    class Watching(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func in reads:
                told(args[0])
            return func(*args, **(kwargs or {}))

    with Watching():
        yield


@contextlib.contextmanager
def shape_functions(
    composed: Mapping[str, Callable[..., Any]], whole: Mapping[str, Callable[..., Any]]
) -> Iterator[None]:
    """While it lasts, operators on tensors without data have the shapes that these functions give.

    Args:
        composed: For operators that torch composes of others, by name.
        whole: For operators that have kernels of their own and no function of shapes.
    """
    from torch._subclasses import fake_impls

    added: list[Any] = []
    with process_state, contextlib.ExitStack() as stack:  # the operators' tables are the process's
        for name, function in composed.items():
            op = operator_object(name)
            if op is not None:
                stack.enter_context(in_place_of_parts(op, function))
        for name, function in whole.items():
            op = operator_object(name)
            if op is not None and op not in fake_impls.op_implementations_dict:
                added.append(op)
                fake_impls.op_implementations_dict[op] = functools.partial(_fake, function)
        try:
            yield
        finally:
            for op in added:
                fake_impls.op_implementations_dict.pop(op, None)


@contextlib.contextmanager
def in_place_of_parts(op: torch._ops.OpOverload, function: Callable[..., Any]) -> Iterator[None]:
    """While it lasts, a function is called in the place of what an operator is composed of.

    Args:
        op: An operator that is registered as composed of others.
        function: Takes the operator's arguments.
    """
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    kept = op.py_kernels.get(key)
    op.py_kernels[key] = function
    op._dispatch_cache.clear()
    try:
        yield
    finally:
        if kept is None:
            op.py_kernels.pop(key, None)
        else:
            op.py_kernels[key] = kept
        op._dispatch_cache.clear()


def _fake(function: Callable[..., Any], fake_mode: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
    with fake_mode:
        return function(*args, **kwargs)


@contextlib.contextmanager
def replacing_functions(functions: Mapping[Callable[..., Any], Callable[..., Any]]) -> Iterator[None]:
    """While it lasts, other functions are called in the place of some of torch's that are written in Python."""
    from torch.overrides import TorchFunctionMode

    class Replacing(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return functions.get(func, func)(*args, **(kwargs or {}))

    with Replacing():
        yield
