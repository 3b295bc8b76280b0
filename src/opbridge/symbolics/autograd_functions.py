"""Classes of torch.autograd.Function that stay one operator in the capture (`opbridge.graph.function_calls`).

These are the classes with a `symbolic`, and all classes if a symbolic function of `prim::PythonOp` is registered.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch

from opbridge.errors import UsageError

__all__ = ["opaque_classes", "shape_function", "shape_of"]

_Shape = Callable[..., Any]


# Which classes


def opaque_classes(handled: bool) -> Iterator[type]:
    """The classes that stay one operator.

    Args:
        handled: Whether a symbolic function of `prim::PythonOp` is registered.
    """
    for cls in _subclasses(torch.autograd.Function):
        if cls.__module__.partition(".")[0] in ("torch", "opbridge"):
            continue
        if handled or callable(getattr(cls, "symbolic", None)):
            yield cls


def _subclasses(cls: type) -> list[type]:
    found: list[type] = cls.__subclasses__()
    for each in found:  # which grows meanwhile
        found += each.__subclasses__()
    return found


# Shapes

_shapes: weakref.WeakKeyDictionary[type, _Shape] = weakref.WeakKeyDictionary()


def shape_of(cls: type) -> Callable[[_Shape], _Shape]:
    """Registers the function that gives the shapes of a class's outputs, for exports with dynamic shapes.

    It is needed only where opbridge cannot infer them: where `forward` does not run on tensors without data, and ONNX
    has no shape inference for the nodes that `symbolic` builds (those of a kernel, for example).

    The function is called with the arguments of `forward` after ctx; tensors have a shape and a dtype, and no data. It
    returns a shape, or a list of shapes where there are several outputs.

    Raises:
        UsageError: `cls` is no subclass of torch.autograd.Function.

    Example:
        >>> @opbridge.shape_of(Upsample)
        ... def shape(x, factor):
        ...     return (*x.shape[:2], x.shape[2] * factor)
    """
    if not (isinstance(cls, type) and issubclass(cls, torch.autograd.Function)):
        raise UsageError(f"shape_of expects a subclass of torch.autograd.Function, got {cls!r}.")

    def register(function: _Shape) -> _Shape:
        _shapes[cls] = function
        return function

    return register


def shape_function(cls: type) -> _Shape | None:
    """The function that `shape_of` registered for a class, or None."""
    return _shapes.get(cls)
