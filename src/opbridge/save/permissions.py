"""A file that replaces another one gets its permissions."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

__all__ = ["keep_permissions"]

_GROUP, _OTHERS = 0o070, 0o007


def keep_permissions(new: Path, replaced: Path) -> None:
    """Gives a new file the permissions of the one that it will replace, and its owner and group where that is allowed.

    Where the group cannot be kept, the new one gets no more than everybody has. Where there is no regular file to
    replace, nothing is changed: the umask decides.

    Raises:
        OSError: The permissions cannot be changed.
    """
    try:
        old = os.lstat(replaced)
    except FileNotFoundError:
        return
    if not stat.S_ISREG(old.st_mode):
        return
    mode = stat.S_IMODE(old.st_mode) & 0o777
    own = os.lstat(new)
    if (own.st_uid, own.st_gid) != (old.st_uid, old.st_gid):
        for owner in (old.st_uid, -1):
            with contextlib.suppress(OSError, AttributeError):  # Windows has no owners
                os.chown(new, owner, old.st_gid)
                break
        if os.lstat(new).st_gid != old.st_gid:
            mode = mode & ~_GROUP | (mode & _OTHERS) << 3
    if stat.S_IMODE(own.st_mode) != mode:
        os.chmod(new, mode)
