"""Locks on files and folders, between processes: held until the descriptor is closed or the process ends."""

from __future__ import annotations

try:
    import fcntl
except ImportError:  # Windows has no such module, and the types are those of Linux
    fcntl = None  # type: ignore[assignment]

__all__ = ["ABANDONED_SECONDS", "lock", "unlock"]

ABANDONED_SECONDS = 24 * 3600
"""Where files cannot be locked, a temporary one of this age is taken for one that a killed process has left."""


def lock(descriptor: int, *, wait: bool = False) -> bool | None:
    """Locks an open file or folder for this process alone.

    Args:
        descriptor: Its file descriptor.
        wait: Whether to wait until nobody else holds the lock.

    Returns:
        Whether it is locked now; None where this system, or this file system, has no such locks.
    """
    if fcntl is None:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def unlock(descriptor: int) -> None:
    """Unlocks what `lock` has locked, also for a process that was forked meanwhile and has the descriptor too."""
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
