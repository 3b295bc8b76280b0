"""Private interfaces of torch that Python reaches symbolic sizes by: hashes, formats, the number of elements.

Checked on torch 2.13.0, 2.14.1 and 2.15.0.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import math
import sys
import types
from collections.abc import Iterator
from typing import Any

import torch

from opbridge.base.python_private.frames import variables

_MOST_KEYS = 256


@contextlib.contextmanager
def taken_by_python(hashed: bool) -> Iterator[None]:
    """Within this context, Python takes symbolic sizes where torch has it refuse them.

    1. They can be formatted as numbers (`f"{n:d}"`), which gives the text of their expression.
    2. `torch.Size.numel` is a symbolic number.
    3. They can be hashed, if that is asked for: equal expressions of one capture are equal. No symbolic size equals a
       number, so that a table of sizes that was filled before is not used. einops keeps no sizes that have no hash.

    Args:
        hashed: Whether they can be hashed.
    """
    kind: Any = torch.SymInt
    kept_hash = kind.__hash__

    def hash_of(size: torch.SymInt) -> int:
        if size.node.is_nested_int() or _is_of(sys._getframe(1), "torch", "einops"):
            return int(kept_hash(size))
        _ask_about_keys(size, sys._getframe(1))
        return hash((id(size.node.shape_env), size.node.expr))

    def formatted(number: Any, specification: str) -> str:
        return str(number)

    kinds: tuple[Any, ...] = (torch.SymInt, torch.SymFloat)
    for each in kinds:
        each.__format__ = formatted
    if hashed:
        kind.__hash__ = hash_of
    try:
        with _counting_elements():
            yield
    finally:
        kind.__hash__ = kept_hash
        for each in kinds:
            del each.__format__


def _is_of(frame: types.FrameType, *packages: str) -> bool:
    """Whether a frame runs code of one of these packages."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in packages


def _ask_about_keys(size: torch.SymInt, frame: types.FrameType) -> None:
    """Makes a condition of each number that a function which hashes a size may look it up among.

    These are the integers in its sets, as in `n in {7, 9}`, and the keys of its dicts, as in `table.get(n, 0)`: of its
    constants, its variables, the globals that it names, and the attributes that it names of its variables. A dict of
    tensors is taken for what was computed for earlier sizes, which is computed again in the graph.
    """
    seen = set()
    for value in _named_values(frame):
        if not isinstance(value, (dict, set, frozenset)) or id(value) in seen or len(value) > _MOST_KEYS:
            continue
        seen.add(id(value))
        if isinstance(value, dict) and any(isinstance(each, torch.Tensor) for each in value.values()):
            continue
        for key in list(value):
            if type(key) is int:
                bool(size == key)


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


@contextlib.contextmanager
def _counting_elements() -> Iterator[None]:
    """Within this context, `torch.Size.numel` gives the product of the sizes, which may be symbolic.

    torch.Size is a class of C, whose methods can be replaced in its table alone.
    """
    (table,) = gc.get_referents(torch.Size.__dict__)
    original = table["numel"]

    @functools.wraps(original)
    def numel(shape: torch.Size) -> Any:
        return math.prod(shape)

    def put(method: Any) -> None:
        table["numel"] = method
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(torch.Size))

    put(numel)
    try:
        yield
    finally:
        put(original)
