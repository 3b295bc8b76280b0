"""Files that come from elsewhere, looked at before they are opened."""

from __future__ import annotations

import os
import stat

__all__ = ["problem"]


def problem(path: str | os.PathLike[str], largest: int) -> str:
    """Why a file should not be opened, as in "it is a pipe, not a file"; "" where it may be, or is not there.

    Opening a pipe waits for somebody who writes to it, and reading a device may never end. Reading more than there is
    memory for ends the process.

    Args:
        path: The path.
        largest: The largest number of bytes that is read.
    """
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return ""
    if stat.S_ISREG(found.st_mode):
        if found.st_size <= largest:
            return ""
        return f"it has {found.st_size:,} bytes, and at most {largest:,} can be read"
    kinds = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFDIR: "a folder"}
    return f"it is {kinds.get(stat.S_IFMT(found.st_mode), 'a device')}, not a file"
