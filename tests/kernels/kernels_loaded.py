"""The library of tests/kernels/everything.cpp, loaded once for all tests."""

from __future__ import annotations

import functools
from pathlib import Path

import opbridge

SOURCE = Path(__file__).with_name("everything.cpp")
MY_ADD = Path(__file__).parents[2] / "examples" / "my_add.cpp"


@functools.cache
def everything():
    return opbridge.load(SOURCE)
