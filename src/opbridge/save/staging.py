"""The temporary folder of one save, and what is done about those that killed saves have left behind."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from opbridge.base import file_locks

__all__ = ["REPLACED", "Staging", "clear_abandoned", "is_staged", "make"]

REPLACED = "replaced"
"""The folder in a staging folder to which the files that a set replaces are moved. It is made when all new files are
complete, so that a save that was killed after that is finished by whoever comes next."""


class Staging:
    """A temporary folder, `.opbridge-<key>.tmp`, which is locked while its save runs.

    Attributes:
        path: The folder.
        key: The part of its name that is its own.
    """

    def __init__(self, path: Path, key: str, lock: int | None) -> None:
        self.path, self.key = path, key
        self._lock = lock

    def remove(self) -> None:
        """Removes the folder with what is in it, as far as that is possible."""
        shutil.rmtree(self.path, ignore_errors=True)
        _release(self._lock)
        self._lock = None


def make(folder: Path, keys: Iterable[str] = (), is_free: Callable[[str], bool] = lambda key: True) -> Staging:
    """Makes a staging folder.

    Args:
        folder: Where.
        keys: Candidates for the key; without them it is a random one.
        is_free: Whether a key may be taken. It is called while the folder of that key exists, so that no other save
            takes the same one at the same time.

    Raises:
        OSError: It cannot be made.
    """
    for key in keys or (secrets.token_hex(4) for _ in range(1 << 10)):
        path = _path(folder, key)
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            continue
        lock, is_held = _locked(path)
        # Another save may have taken it for an abandoned one before it was locked, and a third one made it anew.
        if is_held and _is_there(path, lock):
            if is_free(key):
                return Staging(path, key, lock)
            path.rmdir()
        _release(lock)
    raise FileExistsError(f"no name is left for a temporary folder in {folder}")


def is_staged(folder: Path, key: str) -> bool:
    """Whether a save with this key may still be running."""
    return _path(folder, key).exists()


def clear_abandoned(folder: Path) -> None:
    """Removes what killed saves have left in a folder, as far as that is possible, and finishes those of sets.

    A set of several models whose files were complete, and some of them renamed, is put in its place: its old files
    cannot be there together any more.
    """
    with contextlib.suppress(OSError):
        for path in folder.glob(_path(folder, "*").name):
            if not _is_own_folder(path):
                continue
            lock, is_held = _locked(path)
            try:
                if is_held if lock is not None else _is_old(path):
                    _finish(path)
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                _release(lock)


def _path(folder: Path, key: str) -> Path:
    return folder / f".opbridge-{key}.tmp"


def _finish(staged: Path) -> None:
    """Renames the files of a set that are not yet at their paths."""
    if not (staged / REPLACED).is_dir():
        return
    for file in sorted(staged.iterdir()):
        if file.is_file():
            os.replace(file, staged.parent / file.name)


def _is_there(path: Path, lock: int | None) -> bool:
    try:
        return lock is None or os.path.samestat(os.fstat(lock), path.lstat())
    except FileNotFoundError:
        return False


def _is_own_folder(path: Path) -> bool:
    """Whether it is a folder, and of this user: in /tmp, others may make such ones, with files of their own."""
    found = path.lstat()
    return stat.S_ISDIR(found.st_mode) and (not hasattr(os, "geteuid") or found.st_uid == os.geteuid())


def _is_old(path: Path) -> bool:
    return time.time() - path.lstat().st_mtime > file_locks.ABANDONED_SECONDS


def _locked(path: Path) -> tuple[int | None, bool]:
    """Locks a folder without waiting.

    Returns:
        Its descriptor, None where folders cannot be locked; and whether nobody else holds the lock.
    """
    if not hasattr(os, "O_DIRECTORY"):  # Windows opens no folders
        return None, True
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None, path.exists()
    is_held = file_locks.lock(descriptor)
    if is_held is None:
        os.close(descriptor)
        return None, True
    return descriptor, is_held


def _release(lock: int | None) -> None:
    if lock is None:
        return
    with contextlib.suppress(OSError):
        file_locks.unlock(lock)
    os.close(lock)
