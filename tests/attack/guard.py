"""Guarded memory: see `guard.cpp`, which this builds, loads and calls."""

from __future__ import annotations

import ctypes
import functools
import os
from pathlib import Path
from typing import Any

from opbridge.kernels.build import build_parts

__all__ = ["Fault", "environment", "library"]


class Fault(ctypes.Structure):
    """What a process says of the signal that ends it.

    Attributes:
        signal: Its number; 0 where there was none.
        address: What was accessed.
        is_write: Whether it was written to.
        in_arena: Whether it is in guarded memory, beside a block.
    """

    _fields_ = (
        ("signal", ctypes.c_int64),
        ("address", ctypes.c_int64),
        ("is_write", ctypes.c_int64),
        ("in_arena", ctypes.c_int64),
    )


def environment() -> dict[str, str]:
    """The environment of a process that is to have guarded memory."""
    path = build_parts([Path(__file__).with_name("guard.cpp")])
    others = [each for each in os.environ.get("LD_PRELOAD", "").split() if each != str(path)]
    return {**os.environ, "LD_PRELOAD": " ".join([str(path), *others])}


@functools.cache
def library() -> Any:
    """The functions of the library, in a process of that environment.

    Raises:
        AttributeError: the process was started in another environment.
    """
    found = ctypes.PyDLL(None)
    found.guard_damaged.restype = ctypes.c_int64
    found.guard_report.argtypes = [ctypes.c_void_p]
    found.memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    return found
