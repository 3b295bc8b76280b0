"""Side effects of a run of the model: attributes that it sets, and random numbers of Python and NumPy."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import numpy
import torch

from opbridge.capture.containers import register_containers
from opbridge.capture.model_state import Gradients
from opbridge.capture.python_attributes import OWN_ATTRIBUTES, PythonAttributes
from opbridge.capture.python_caches import PythonCaches

__all__ = ["SideEffects", "keeping_random_state"]


class SideEffects:
    """A context around a run of the model that detects side effects, and undoes those on attributes and gradients.

    1. When the model returns, the containers in its output are registered with torch.export.
    2. Attributes that forward() sets are detected, since a graph keeps no Python state. Their values are restored with
       their elements, and new attributes, which hold fake tensors, are removed.
    3. Uses of Python's and NumPy's random numbers are detected.

    Attributes:
        drew: Whether Python's or NumPy's random numbers were used.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self._module = module
        self._before = {
            name: {attribute: (value, _length(value)) for attribute, value in vars(each).items()}
            for name, each in module.named_modules()
        }
        self._attributes = PythonAttributes(module)
        self._gradients = Gradients(module)
        self._caches = PythonCaches(module)
        self._changed: dict[str, None] = {}
        self._random: Any = None
        self.drew = False

    def __enter__(self) -> SideEffects:
        self._random = _random_state()
        self._hook = self._module.register_forward_hook(self._returned)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._hook.remove()
        self.drew = _random_state() != self._random
        self.restore()

    def restore(self) -> None:
        """Gives the attributes the values, and containers the elements, that they had at first."""
        self._attributes.restore()
        self._gradients.restore()
        self._caches.restore()

    def notes(self) -> Iterator[str]:
        """Notes about state and random numbers that are constants of the graph."""
        if self._changed:
            names = ", ".join(f"self.{name}" for name in self._changed)
            yield (
                f"forward() sets {names}, but an ONNX graph keeps no Python state: every run uses the value from "
                "before the capture (for persistent state, use an input and an output)"
            )
        if self.drew:
            yield (
                "the model uses random numbers from Python or NumPy, which become constants in the graph; "
                "torch.rand draws new ones in each run"
            )

    def _returned(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        register_containers(output)
        for name, each in self._module.named_modules():
            before = self._before.get(name, {})
            for attribute, value in vars(each).items():
                if attribute in OWN_ATTRIBUTES or attribute in _FOLLOWING_PARAMETERS:
                    continue
                old, length = before.get(attribute, (_ABSENT, None))
                if not _same(old, value) or length != _length(value):
                    self._changed[f"{name}.{attribute}" if name else attribute] = None


@contextlib.contextmanager
def keeping_random_state() -> Iterator[None]:
    """Within this context, Python's and NumPy's random numbers may be drawn, and are drawn again after it."""
    python, numbers = random.getstate(), numpy.random.get_state()
    try:
        yield
    finally:
        random.setstate(python)
        numpy.random.set_state(numbers)


_ABSENT = object()
# Recurrent layers keep their parameters in lists too, which change when torch.export replaces the parameters.
_FOLLOWING_PARAMETERS = frozenset({"_flat_weights", "_flat_weight_refs"})


def _same(before: Any, after: Any) -> bool:
    return before is after or (type(before) is type(after) and isinstance(after, _PLAIN) and before == after)


def _length(value: Any) -> int | None:
    return len(value) if isinstance(value, list | dict | set) else None


_PLAIN = (bool, int, float, complex, str, bytes)


def _random_state() -> tuple[Any, ...]:
    state: Any = numpy.random.get_state()
    return random.getstate(), state[1].tobytes(), *state[2:]
