"""The `forward`s of torch.autograd.Functions whose calls become operators, and what runs in their place.

`forward` is replaced, not `apply`: code often keeps a reference to `apply`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from opbridge.symbolics.autograd_functions import opaque_classes

__all__ = ["ReplacedForwards"]

_replacement_lock = threading.RLock()


@dataclass(frozen=True)
class _Forward:
    """The `forward` of a class.

    Attributes:
        function: What the class gives for the name.
        takes_context: Whether its first argument is ctx; not where the class has a `setup_context`.
    """

    function: Callable[..., Any]
    takes_context: bool


class ReplacedForwards:
    """The classes of one capture whose calls become operators.

    Args:
        has_handler: Whether a symbolic function of `prim::PythonOp` is registered.

    Attributes:
        classes: The classes.
    """

    def __init__(self, *, has_handler: bool) -> None:
        self.classes: list[Any] = list(opaque_classes(has_handler))
        self._has_handler = has_handler
        self._own: dict[type, _Forward] = {}
        self._depth = 0
        self._thread = threading.get_ident()

    def is_suspended(self) -> bool:
        """Whether calls are not recorded or captured now: inside of such a class, or in a run for another purpose."""
        return self._depth > 0

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        """Within this context, calls run as usual, and are not recorded or captured."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    @contextlib.contextmanager
    def replaced(self, called: Callable[[type, Any, Sequence[Any]], Any]) -> Iterator[None]:
        """Within this context, another function runs in the place of each `forward`; in other threads, itself.

        Args:
            called: The function, of the class, the ctx, None where it has a `setup_context`, and the arguments.
        """
        with _replacement_lock:
            kept = {}
            for cls in self.classes:
                kept[cls] = vars(cls).get("forward")
                self._own[cls] = _Forward(cls.forward, not _has_setup_context_method(cls))
            try:
                for cls in self.classes:
                    cls.forward = staticmethod(self._replacement(cls, called))
                yield
            finally:
                for cls, forward in kept.items():
                    if forward is not None:
                        cls.forward = forward
                    else:
                        del cls.forward

    def _replacement(self, cls: type, called: Callable[[type, Any, Sequence[Any]], Any]) -> Callable[..., Any]:
        def forward(*args: Any) -> Any:
            own = self._own[cls]
            ctx, given = (args[0], args[1:]) if own.takes_context else (None, args)
            if self._depth or threading.get_ident() != self._thread:
                return own.function(*args)
            return called(cls, ctx, given)

        return forward

    def call(self, cls: type, ctx: Any, given: Sequence[Any]) -> Any:
        """What a class's own `forward` gives."""
        own = self._own[cls]
        with self.suspended():
            return own.function(ctx, *given) if own.takes_context else own.function(*given)

    def run(self, cls: type, given: Sequence[Any]) -> Any:
        """What a class's own `forward` gives, outside of autograd."""
        return self.call(cls, _Context(given), given)

    def traced_through(self) -> list[type]:
        """Classes that were defined while the model ran, and were traced through."""
        return [cls for cls in opaque_classes(self._has_handler) if cls not in self._own]


class _Context:
    """The `ctx` of a `forward` that runs outside of autograd: accepts all calls, and keeps attributes."""

    def __init__(self, given: Sequence[Any]) -> None:
        self.needs_input_grad = tuple(False for _ in given)
        self.saved_tensors: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    save_for_forward = save_for_backward

    def mark_dirty(self, *tensors: Any) -> None:
        pass

    mark_non_differentiable = mark_dirty

    def set_materialize_grads(self, value: bool) -> None:
        pass


def _has_setup_context_method(cls: Any) -> bool:
    """Whether a class has a `setup_context`, and so a `forward` without ctx."""
    return cls.setup_context is not torch.autograd.Function.setup_context
