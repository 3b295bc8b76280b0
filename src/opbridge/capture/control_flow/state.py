"""What Python's variables hold at a decision: a structure that can be compared, and the values of the graph in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from types import FrameType
from typing import Any

import torch

from opbridge.base.python_private.frames import variables
from opbridge.base.torch_private import torch_decisions
from opbridge.capture.control_flow.liveness import live_names
from opbridge.capture.control_flow.operand_stack import indexing_names, known_of, operand_stack_sources
from opbridge.capture.control_flow.state_fingerprint import StateFingerprint, identities_of, layouts_of

__all__ = ["State", "state_of"]


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
    stores: Collection[str] | None = (),
    *,
    strict: bool = False,
    sharing: bool = True,
    comparing: bool = False,
) -> State:
    """What the variables of frames, and the attributes of modules that a run has set, hold.

    Args:
        frames: The frames.
        modules: The attributes of each module, by their names.
        is_known: Whether a tensor is one of the graph.
        elements: Gives the elements of a list or a tuple that count: not those that the iterations of a loop have
            appended.
        carried: Numbers that are read from tensors which a loop carries, each with its tensor, by their identity.
        chosen: The elements of lists that indices are those of.
        asked: The symbols that decisions have asked for, but for such indices.
        stores: The names of attributes, and of variables that functions share, which may have been written to; None
            stands for any.
        strict: Whether states differ where the layouts of tensors do, or which of them share values.
        sharing: Whether it counts which tensors share values; see `LoopSummary.shares`.
        comparing: Whether it counts which tensors are one object, as the model asks for it.
    """
    frames = list(frames)
    reader = StateFingerprint(is_known, elements, carried or {})
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
    layouts = layouts_of(reader.leaves, sharing=sharing or strict)
    identities = identities_of(reader.leaves) if comparing else None
    return State(
        (*structure, layouts if strict else None, identities),
        tuple(reader.leaves),
        _unseen(frames, reader, asked, stores, layouts),
    )


def _element(frame: FrameType, name: str, value: Any, chosen: Mapping[Any, int]) -> tuple[int, ...]:
    """The element of a list that a variable has been the index of, where it may be the index of one again."""
    if not isinstance(value, torch.SymInt) or name not in indexing_names(frame.f_code):
        return ()
    element = torch_decisions.element_of(value, chosen)
    return () if element is None else (element,)


def _unseen(
    frames: Iterable[FrameType],
    reader: StateFingerprint,
    asked: frozenset[Any],
    stores: Collection[str] | None,
    layouts: Hashable,
) -> Hashable:
    """What else Python holds; see `operand_stack`."""
    for frame in frames:
        found = operand_stack_sources(frame.f_code, frame.f_lasti)
        if found is None or (found.written if stores is None else not found.written.isdisjoint(stores)):
            return None
        for name, of_tensor in found.names.items():
            if of_tensor and not isinstance(variables(frame).get(name), torch.Tensor):
                return None
    known = None if reader.is_opaque else known_of(reader.leaves, asked)
    return None if known is None else (known, layouts)


def _variables(frame: FrameType) -> list[tuple[str, Any]]:
    """The variables of a frame that may be read again, and those that its `for` loops go over."""
    held = operand_stack_sources(frame.f_code, frame.f_lasti)
    live = live_names(frame.f_code, frame.f_lasti) | (held.names.keys() if held else frozenset())
    return [(name, value) for name, value in variables(frame).items() if name in live]
