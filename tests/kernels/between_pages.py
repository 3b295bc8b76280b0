"""Calls the built-in kernels on tensors between pages that nobody may read: python between_pages.py SEEDS MODULE ...

Run by a test in a process of its own, which a kernel ends that reads beyond an input, or before it.
"""

from __future__ import annotations

import ctypes
import importlib
import math
import mmap
import sys

import torch
from kernels.cases import Case
from kernels.checking import as_tensors
from kernels.running import TOLERANCE

from opbridge.kernels.builtin import load_builtin

_PAGE = mmap.PAGESIZE


class Guarded:
    """Memory between two pages that cannot be read.

    Args:
        size: Its size, in bytes.
    """

    def __init__(self, size: int) -> None:
        self._size = _PAGE * max(1, math.ceil(size / _PAGE))
        self._memory = mmap.mmap(-1, self._size + 2 * _PAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        libc = ctypes.CDLL(None, use_errno=True)
        for page in (start, start + _PAGE + self._size):
            if libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(_PAGE), 0):
                raise OSError(ctypes.get_errno(), "mprotect")

    def tensor(self, like: torch.Tensor, at_end: bool) -> torch.Tensor:
        """A copy of a tensor that begins where the memory begins, or ends where it ends."""
        offset = _PAGE + (self._size - like.nbytes if at_end else 0)
        found = torch.frombuffer(self._memory, dtype=like.dtype, count=like.numel(), offset=offset)
        return found.view(like.shape).copy_(like)


def _guarded(tensor: torch.Tensor | None, at_end: bool) -> torch.Tensor | None:
    return tensor if tensor is None or not tensor.numel() else Guarded(tensor.nbytes).tensor(tensor, at_end)


def check(case: Case, dtype: torch.dtype) -> None:
    print(case.operator, dtype, [None if each is None else each.shape for each in case.inputs], flush=True)
    tensors = as_tensors(case.inputs, dtype)
    call = getattr(torch.ops.opbridge_ops, case.operator)
    expected = call(*tensors, **case.attributes)
    for at_end in (False, True):
        found = call(*(_guarded(each, at_end) for each in tensors), **case.attributes)
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


def main(seeds: str, *modules: str) -> None:
    load_builtin()
    for module in modules:
        for seed in range(int(seeds)):
            for case in importlib.import_module(module).random_cases(seed):
                for dtype in TOLERANCE:
                    check(case, getattr(torch, dtype))
    print("nothing")


if __name__ == "__main__":
    main(*sys.argv[1:])
