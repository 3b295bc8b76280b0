"""Private interfaces of torch about the hashes of symbolic sizes, by which dicts and sets look them up.

Checked on torch 2.13.0, 2.14.1 and 2.15.0.
"""

from __future__ import annotations

import contextlib
import contextvars
import itertools
import sys
import types
from collections.abc import Iterator
from typing import Any

import torch

from opbridge.base.python_private.frames import variables
from opbridge.base.python_private.lookups import NotLookedUp, container_at
from opbridge.base.torch_private.torch_sizes import is_of_data

__all__ = ["hashed", "key_asked_about"]

_MOST_KEYS = 256
_asked_about: contextvars.ContextVar[int] = contextvars.ContextVar("asked about", default=0)


def key_asked_about() -> int:
    """Which key of a table it is asked about whether a size equals it, counted from 1; 0 where it is no such question.

    One instruction of a model asks about all of them.
    """
    return _asked_about.get()


@contextlib.contextmanager
def hashed(by_keys: bool) -> Iterator[None]:
    """Within this context, symbolic sizes can be hashed, as `table[n]` and `n in {7, 9}` do.

    Where that is asked for, whether a size is one of the keys is a question for each, which the capture answers as any
    other: a condition on sizes, or a branch on data. A size that equals a key has the hash of that. All others have
    one of their expression: equal expressions of one capture are equal, and no symbolic size equals a number, so that a
    table of sizes that was filled before is not used. einops keeps no sizes that have no hash. Where it is not known in
    what a size is looked up, as in `tables()[n]`, or there are too many keys, it is asked for as a number.

    Args:
        by_keys: Whether keys are asked about. Else a size that data decide is asked for as a number, which is torch's
            error for what only data decide, and no other one has a hash.
    """
    kind: Any = torch.SymInt
    kept = kind.__hash__

    def hash_of(size: torch.SymInt) -> int:
        frame = sys._getframe(1)
        if size.node.is_nested_int() or _is_of(frame, "torch", "einops"):
            return int(kept(size))
        if not by_keys:
            return hash(int(size)) if is_of_data(size) else int(kept(size))
        if (keys := _keys(size, frame)) is None:
            return hash(int(size))
        asked = _asked_about.set(0)
        try:
            for number, key in enumerate(keys, 1):
                _asked_about.set(number)
                if size == key:
                    return hash(key)
        finally:
            _asked_about.reset(asked)
        return hash((id(size.node.shape_env), size.node.expr))

    kind.__hash__ = hash_of
    try:
        yield
    finally:
        kind.__hash__ = kept


def _is_of(frame: types.FrameType, *packages: str) -> bool:
    """Whether a frame runs code of one of these packages."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in packages


def _keys(size: torch.SymInt, frame: types.FrameType) -> list[int] | None:
    """The numbers that a frame which hashes a size may look it up among, each once; None where they are not known.

    These are the integers in the set or the keys of the dict, those in tuples too, as in `table.get((n, 3))`. Where the
    source does not say what is looked up in, they are those of all sets and dicts that the function can name.
    """
    held = container_at(frame, frame.f_lasti)
    if held is NotLookedUp.UNKNOWN:
        return None
    if held is NotLookedUp.NO_SOURCE:
        named = [found for each in _named_values(frame) if len(found := _integers(each, size)) <= _MOST_KEYS]
        return list(dict.fromkeys(itertools.chain.from_iterable(named)))
    found = _integers(held, size)
    return found if len(found) <= _MOST_KEYS else None


def _integers(table: Any, size: torch.SymInt) -> list[int]:
    """The integers in a set, or among the keys of a dict.

    Where no data decide the size, a dict of tensors is taken for what was computed for earlier sizes, which is computed
    again in the graph.
    """
    if not isinstance(table, (dict, set, frozenset)):
        return []
    is_of_tensors = isinstance(table, dict) and any(isinstance(each, torch.Tensor) for each in table.values())
    if is_of_tensors and not is_of_data(size):
        return []
    keys = (each for key in table for each in (key if type(key) is tuple else (key,)))
    return list(dict.fromkeys(each for each in keys if type(each) is int))


def _named_values(frame: types.FrameType) -> Iterator[Any]:
    """The values that the code of a frame can name."""
    code, held = frame.f_code, variables(frame)
    yield from code.co_consts
    yield from held.values()
    for name in code.co_names:
        if name in frame.f_globals:
            yield frame.f_globals[name]
        for value in held.values():
            for place in (value, type(value)):
                with contextlib.suppress(TypeError):  # an object without attributes of its own
                    if name in vars(place):
                        yield vars(place)[name]
