"""A page, as a file: whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from opbridge.errors import SaveError, UsageError

__all__ = ["refuse_unwritable", "write"]


def refuse_unwritable(path: str | os.PathLike[str]) -> Path:
    """The path of a page; says before the work what would be found out after it.

    Raises:
        UsageError: A page cannot be written there.
    """
    found = Path(path)
    if found.is_dir():
        raise UsageError(f"{found} is a folder. Give the path of a file, such as {found / 'report.html'}.")
    if not found.parent.is_dir():
        raise UsageError(f"The folder {found.parent} does not exist. Create it, or give another path for the page.")
    if not os.access(found.parent, os.W_OK):
        raise UsageError(f"The folder {found.parent} is not writable. Give another path for the page.")
    if found.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"{found} is not the name of an HTML file. Give a name that ends in .html.")
    return found


def write(path: str | os.PathLike[str], page: str) -> Path:
    """Writes a page; what stood at the path is replaced by one rename.

    Raises:
        SaveError: It cannot be written.
    """
    target = Path(path)
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
                file.write(page)
            os.chmod(temporary, 0o666 & ~_umask())
            os.replace(temporary, target)
        except BaseException:  # an interruption too leaves no half of a file
            os.unlink(temporary)
            raise
    except OSError as error:
        raise SaveError(f"{target} is not writable ({error}). Give another path for the page.") from error
    return target


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
