"""Private interfaces of torch that Python reaches symbolic sizes by: formats, the number of elements.

Checked on torch 2.13.0, 2.14.1 and 2.15.0.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import math
from collections.abc import Iterator
from typing import Any

import torch


@contextlib.contextmanager
def taken_by_python() -> Iterator[None]:
    """Within this context, Python takes symbolic sizes where torch has it refuse them.

    1. They can be formatted as numbers (`f"{n:d}"`), which gives the text of their expression.
    2. `torch.Size.numel` is a symbolic number.
    """

    def formatted(number: Any, specification: str) -> str:
        return str(number)

    kinds: tuple[Any, ...] = (torch.SymInt, torch.SymFloat)
    for each in kinds:
        each.__format__ = formatted
    try:
        with _counting_elements():
            yield
    finally:
        for each in kinds:
            del each.__format__


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
