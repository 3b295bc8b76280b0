"""A library at the path that its user names: put there whole, whatever ends the process."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
import time
from pathlib import Path

from opbridge.base.file_locks import ABANDONED_SECONDS, lock
from opbridge.errors import SaveError

__all__ = ["copied"]


def copied(built: Path, target: Path) -> Path:
    """A copy of a library at a path; a process that has the older one loaded keeps that.

    What a process that was ended left beside it is removed.

    Raises:
        SaveError: it cannot be written.
    """
    _clear_abandoned(target)
    beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with beside.open("xb") as into:
            lock(into.fileno())
            with built.open("rb") as file:
                shutil.copyfileobj(file, into, 1 << 20)
            into.flush()
            os.fsync(into.fileno())
            shutil.copystat(built, beside)
            os.replace(beside, target)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise SaveError(f"{target} is not writable ({error.strerror}). Give another path.") from None
    return target


def _clear_abandoned(target: Path) -> None:
    """Removes copies for a path that are not being written, as far as that is possible."""
    start = f".{target.name}."
    with contextlib.suppress(OSError):
        for path in target.parent.iterdir():
            name = path.name
            if name.startswith(start) and name.endswith(".part") and len(name) == len(start) + len("01234567.part"):
                _remove_abandoned(path)


def _remove_abandoned(path: Path) -> None:
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode) or (hasattr(os, "geteuid") and found.st_uid != os.geteuid()):
        return
    is_new = time.time() - found.st_mtime < 1  # it may not be locked yet
    with path.open("rb") as file:
        locked = lock(file.fileno())
        if not is_new if locked else locked is None and time.time() - found.st_mtime > ABANDONED_SECONDS:
            path.unlink()
