"""What Python's variables hold at a decision: a structure that can be compared, and the values of the graph in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from types import (
    BuiltinFunctionType,
    CellType,
    FrameType,
    FunctionType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import torch

from opbridge.base.torch_private import torch_decisions, torch_sizes
from opbridge.capture.decisions.liveness import live_names
from opbridge.capture.decisions.unseen import indexing_names, known_of, pending_names

__all__ = ["State", "state_of"]

_SIMPLE = (int, float, complex, bool, str, bytes, type(None), torch.dtype, torch.device, torch.layout, type, ModuleType)
_MOST_DEEP = 8
_WITHOUT_CONTENT = (
    BuiltinFunctionType,
    MethodWrapperType,
    WrapperDescriptorType,
    range,
    slice,
    torch.finfo,
    torch.iinfo,
)


@dataclasses.dataclass(frozen=True)
class State:
    """What variables hold.

    Attributes:
        structure: What is equal where two states differ in nothing but values of the graph.
        leaves: The values of the graph: tensors and symbolic integers.
        unseen: What else two states may differ in; None where that is not known.
    """

    structure: Hashable
    leaves: tuple[Any, ...]
    unseen: Hashable


def state_of(
    frames: Iterable[FrameType],
    modules: Iterable[tuple[str, Mapping[str, Any]]],
    is_known: Callable[[Any], bool],
    elements: Callable[[Sequence[Any]], Sequence[Any]] = lambda held: held,
    carried: Mapping[int, tuple[Any, torch.Tensor]] | None = None,
    chosen: Mapping[Any, int] | None = None,
    asked: frozenset[Any] = frozenset(),
) -> State:
    """What the variables of frames, and the attributes of modules that a run has set, hold.

    Args:
        frames: The frames.
        modules: The attributes of each module, by their names.
        is_known: Whether a tensor is one of the graph.
        elements: Gives the elements of a list or a tuple that count: not those that the turns of a loop have appended.
        carried: Numbers that are read from tensors which a loop carries, each with its tensor, by their identity.
        chosen: The elements of lists that indices are those of.
        asked: The symbols that decisions have asked for, but for such indices.
    """
    frames = list(frames)
    reader = _Reader(is_known, elements, carried or {})
    structure = (
        tuple(
            tuple(
                (name, *_element(frame, name, value, chosen or {}), reader.of(value))
                for name, value in _variables(frame)
            )
            for frame in frames
        ),
        tuple((path, tuple((name, reader.of(value)) for name, value in held.items())) for path, held in modules),
    )
    return State(structure, tuple(reader.leaves), _unseen(frames, reader, asked))


def _element(frame: FrameType, name: str, value: Any, chosen: Mapping[Any, int]) -> tuple[int, ...]:
    """The element of a list that a variable has been the index of, where it may be the index of one again."""
    if not isinstance(value, torch.SymInt) or name not in indexing_names(frame.f_code):
        return ()
    element = torch_decisions.element_of(value, chosen)
    return () if element is None else (element,)


def _unseen(frames: Iterable[FrameType], reader: _Reader, asked: frozenset[Any]) -> Hashable:
    """What else Python holds; see `unseen`."""
    for frame in frames:
        names = pending_names(frame.f_code, frame.f_lasti)
        if names is None:
            return None
        if any(
            of_tensor and not isinstance(frame.f_locals.get(name), torch.Tensor) for name, of_tensor in names.items()
        ):
            return None
    return None if reader.is_opaque else known_of(reader.leaves, asked)


def _variables(frame: FrameType) -> list[tuple[str, Any]]:
    """The variables of a frame that may be read again, and those that its `for` loops go over."""
    live = live_names(frame.f_code, frame.f_lasti) | (pending_names(frame.f_code, frame.f_lasti) or {}).keys()
    return [(name, value) for name, value in frame.f_locals.items() if name in live]


class _Reader:
    def __init__(
        self,
        is_known: Callable[[Any], bool],
        elements: Callable[[Sequence[Any]], Sequence[Any]],
        carried: Mapping[int, tuple[Any, torch.Tensor]],
    ) -> None:
        self._is_known, self._elements, self._carried = is_known, elements, carried
        self._seen: dict[int, int] = {}
        self._alive: list[Any] = []
        self.leaves: list[Any] = []
        self.is_opaque = False

    def of(self, value: Any, depth: int = 0) -> Hashable:
        """What is comparable of a value."""
        if isinstance(value, _SIMPLE):
            return type(value), repr(value) if isinstance(value, (float, complex)) else value
        if isinstance(value, torch.SymInt):
            return self._leaf(value, "SymInt")
        if isinstance(value, torch.SymFloat) and id(value) in self._carried:
            return self._leaf(self._carried[id(value)][1], "SymFloat")
        if isinstance(value, (torch.SymFloat, torch.SymBool)):
            return "number", type(value), torch_sizes.text_of(value)
        if isinstance(value, torch.Tensor):
            if not self._is_known(value):
                return "constant", id(value)
            return self._leaf(value, (value.dtype, value.dim(), value.requires_grad))
        if isinstance(value, torch.nn.Module):
            return "module", id(value)
        if id(value) in self._seen:
            return "again", self._seen[id(value)]
        self._seen[id(value)] = len(self._seen)
        self._alive.append(value)
        if depth >= _MOST_DEEP:
            self.is_opaque = True
            return "deep", type(value)
        return self._inside(value, depth + 1)

    def _leaf(self, value: Any, kind: Hashable) -> Hashable:
        self.leaves.append(value)
        return "value", kind

    def _inside(self, value: Any, depth: int) -> Hashable:
        if isinstance(value, MethodType):
            return "method", self.of(value.__func__, depth), self.of(value.__self__, depth)
        if isinstance(value, FunctionType):
            cells = [cell.cell_contents for cell in value.__closure__ or () if cell != CellType()]
            return "function", value.__code__, tuple(self.of(cell, depth) for cell in cells)
        if isinstance(value, Mapping):
            return type(value), tuple((self.of(key, depth), self.of(item, depth)) for key, item in list(value.items()))
        if type(value) in (list, tuple):
            return type(value), tuple(self.of(item, depth) for item in self._elements(value))
        if isinstance(value, (list, tuple)):
            return type(value), tuple(self.of(item, depth) for item in value)
        if isinstance(value, (set, frozenset)):
            self.is_opaque = self.is_opaque or bool(value)
            return type(value), len(value)
        held = getattr(value, "__dict__", None)
        if isinstance(held, dict):
            return type(value), tuple((name, self.of(item, depth)) for name, item in list(held.items()))
        self.is_opaque = self.is_opaque or not isinstance(value, _WITHOUT_CONTENT)
        return "object", type(value)
