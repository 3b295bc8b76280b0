"""The end of a process that runs models for another one."""

from __future__ import annotations

import ctypes
import signal

__all__ = ["die_with_parent"]

_DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG."""


def die_with_parent() -> None:
    """Has the kernel end this process when the one that started it ends."""
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
