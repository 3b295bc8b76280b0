"""Private interfaces of torch.func and torch.autograd: when a transform or a backward pass begins and ends.

Checked on torch 2.13.0, 2.14.1 and 2.15.0.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._functorch import eager_transforms, vmap
from torch.utils import _pytree as pytree

from opbridge.base.attributes import replacing

__all__ = ["around_backward", "around_transforms", "following_nested_transforms", "restoring_levels"]

_LEVELS = ("vmap", "grad", "jvp", "func")


@contextlib.contextmanager
def around_transforms(begin: Callable[[], None], end: Callable[[], None]) -> Iterator[None]:
    """Within this context, functions are called before the outermost transform of torch.func begins, and after it."""
    depth = 0

    def begins(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal depth
            if depth == 0:
                begin()
            depth += 1
            return original(*args, **kwargs)

        return call

    def ends(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal depth
            try:
                return original(*args, **kwargs)
            finally:
                depth -= 1
                if depth == 0:
                    end()

        return call

    replacements = [
        (module, name, wrap(getattr(module, name)))
        for module in (vmap, eager_transforms)
        for level in _LEVELS
        for name, wrap in ((f"_{level}_increment_nesting", begins), (f"_{level}_decrement_nesting", ends))
        if hasattr(module, name)
    ]
    try:
        with replacing(*replacements):
            yield
    finally:
        if depth:
            end()


@contextlib.contextmanager
def around_backward(context: Callable[[], contextlib.AbstractContextManager[Any]]) -> Iterator[None]:
    """Within this context, each pass of autograd's engine runs inside of another context."""
    module: Any = torch.autograd
    original = module._engine_run_backward

    @functools.wraps(original)
    def run(*args: Any, **kwargs: Any) -> Any:
        with context():
            return original(*args, **kwargs)

    with replacing((module, "_engine_run_backward", run)):
        yield


@contextlib.contextmanager
def following_nested_transforms() -> Iterator[None]:
    """Within this context, transforms that torch does in other ways of its own are those of torch.func.

    1. The batches of gradients of torch.autograd (`is_grads_batched`, `vectorize`) are those of `torch.func.vmap`,
       which takes symbolic sizes.
    2. `torch.func.linearize` calls the function again in place of a graph, which has fixed sizes.
    """
    replacements: list[tuple[Any, str, Any]] = [
        (torch._vmap_internals, "_vmap", _batched),
        (torch.autograd.functional, "_vmap", _batched),
        (eager_transforms, "lazy_dynamo_disallow", _without_graph),
    ]
    with replacing(*replacements):
        yield


def _batched(
    function: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, allow_none_pass_through: bool = False
) -> Callable[..., Any]:
    """`torch.func.vmap`, of functions some of whose results may be None."""

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        given: list[bool] = []

        def tensors_alone(*inner: Any) -> Any:
            returned = function(*inner)
            if not isinstance(returned, tuple):
                return returned
            given[:] = [each is not None for each in returned]
            return tuple(each for each in returned if each is not None)

        returned = torch.func.vmap(tensors_alone, in_dims, out_dims)(*args)
        if all(given):
            return returned
        remaining = iter(returned)
        return tuple(next(remaining) if each else None for each in given)

    return call


def _without_graph(transform: Callable[..., Any]) -> Callable[..., Any]:
    """What stands for `make_fx`, and for `split_const_subgraphs` of its result, in `torch.func.linearize`."""
    if transform.__name__ == "make_fx":
        return lambda function: lambda tangents: lambda *given: pytree.tree_leaves(function(given))
    return lambda graph: graph


@contextlib.contextmanager
def restoring_levels() -> Iterator[None]:
    """A context after which torch.func is on the level that it was on before, whatever was raised inside."""
    before = _level()
    try:
        yield
    finally:
        while _level() > before:
            torch._C._functorch.pop_dynamic_layer_stack()


def _level() -> int:
    top = torch._C._functorch.peek_interpreter_stack()
    return 0 if top is None else top.level()
