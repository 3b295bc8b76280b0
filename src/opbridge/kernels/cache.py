"""A folder of built libraries, by the content of what they were built from.

    <cache>/<name>-<hash>/<name>.so         by the content of all that was read: sources, headers, compiler, flags
    <cache>/<name>-<hash>/<name>.so.check   its size and checksum: what is damaged is built again
    <cache>/index/<hash>.json               by the sources and flags alone: which headers the last build read
    <cache>/index/<hash>.lock               locked while that is built, in the folder <cache>/build-<hash>

What is written is moved into place whole, so that processes that build the same at once do not disturb each other; one
of them builds, and the others wait for it. The libraries are loaded into the process, so that nobody but the user may
be able to write to the folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import stat
import sys
import tempfile
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from opbridge.base.file_locks import ABANDONED_SECONDS, lock
from opbridge.errors import BuildError

__all__ = ["Cache", "cache_folder", "fingerprint"]

_BUILDING = "build-"
_LONGEST_NAME = 100


def cache_folder() -> Path:
    """The user's folder for what is built: `OPBRIDGE_CACHE` where it is set."""
    named = os.environ.get("OPBRIDGE_CACHE")
    if named:
        return Path(named).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "opbridge"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home()) / "opbridge"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "opbridge"


def fingerprint(texts: Iterable[str], files: Iterable[Path] = ()) -> str:
    """One for each content of these texts and files."""
    found = hashlib.sha256()
    for text in texts:
        found.update(f"{len(text)}:{text}".encode(errors="surrogateescape"))
    for file in files:
        content = file.read_bytes()
        found.update(f"{file}:{len(content)}:".encode(errors="surrogateescape"))
        found.update(content)
    return found.hexdigest()[:32]


class Cache:
    """The cache folder.

    Raises:
        BuildError: it cannot be written to, or others than this user may write to it.
    """

    def __init__(self) -> None:
        self.folder = cache_folder() / "kernels"
        index = self.folder / "index"
        try:
            for folder in (self.folder.parent, self.folder, index):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                _check_private(folder)
        except OSError as error:
            raise BuildError(
                f"Kernels are built in {self.folder}, which is not writable ({error.strerror}). Set the "
                "environment variable OPBRIDGE_CACHE to another folder."
            ) from None

    def find(self, first: str, name: str) -> Path | None:
        """What was built from these sources, if nothing that it read has changed and it is whole."""
        try:
            read = json.loads((self.folder / "index" / f"{first}.json").read_text())
            built = self.place(first, [Path(each) for each in read], name)
            return built if _check_of(built) == _check_file(built).read_text() else None
        except (OSError, ValueError, TypeError):  # there is none, or it is damaged
            return None

    def place(self, first: str, read: Sequence[Path], name: str) -> Path:
        """Where something belongs that was built from files with their present content."""
        return self.folder / f"{Path(name).stem[:_LONGEST_NAME]}-{fingerprint([first], read)}" / name

    def keep(self, first: str, read: Sequence[Path], built: Path, name: str) -> Path:
        """Moves what was built to its place."""
        kept = self.place(first, read, name)
        kept.parent.mkdir(exist_ok=True, mode=0o700)
        check, index = _check_file(built), built.with_suffix(".json")
        check.write_text(_check_of(built))
        index.write_text(json.dumps([str(each) for each in read]))
        moves = ((check, _check_file(kept)), (built, kept), (index, self.folder / "index" / f"{first}.json"))
        for file, _ in moves:
            _flush(file)
        for file, target in moves:
            os.replace(file, target)
        return kept

    @contextlib.contextmanager
    def building(self, first: str) -> Iterator[Path]:
        """A folder to build in, while no other process builds the same."""
        with self._locked(first):
            self._remove_abandoned()
            with tempfile.TemporaryDirectory(prefix=f"{_BUILDING}{first}-", dir=self.folder) as folder:
                yield Path(folder)

    def _remove_abandoned(self) -> None:
        """Removes the folders of builds that were killed, as far as that is possible."""
        for folder in self.folder.glob(f"{_BUILDING}*"):
            first, _, own = folder.name.removeprefix(_BUILDING).partition("-")
            with contextlib.suppress(OSError), self._locked(first, wait=False) as locked:
                by_age = locked is None or not own  # a name without a part of its own is of the form before
                if time.time() - folder.stat().st_mtime > ABANDONED_SECONDS if by_age else locked:
                    shutil.rmtree(folder, ignore_errors=True)

    @contextlib.contextmanager
    def _locked(self, first: str, *, wait: bool = True) -> Iterator[bool | None]:
        """Within this context nobody else builds the same, if it gives true; see `opbridge.base.file_locks.lock`."""
        with (self.folder / "index" / f"{first}.lock").open("w") as file:
            yield lock(file.fileno(), wait=wait)


def _check_private(folder: Path) -> None:
    """Checks that a folder is this user's, and that nobody else may write to it.

    Raises:
        BuildError: others might put libraries there, which this process would load.
    """
    if not hasattr(os, "geteuid"):
        return
    found = folder.stat()
    advice = "Set the environment variable OPBRIDGE_CACHE to a folder of your own"
    if found.st_uid != os.geteuid():
        raise BuildError(
            f"Kernels are built in {folder}, which belongs to another user (number {found.st_uid}), who could put "
            f"libraries there for this process to load. {advice}."
        )
    # A group of the user's own number is the user's own, by the convention of Debian and Fedora.
    is_shared = found.st_mode & stat.S_IWGRP and found.st_gid != found.st_uid
    if found.st_mode & stat.S_IWOTH or is_shared:
        raise BuildError(
            f"Kernels are built in {folder}, to which other users may write (its mode is "
            f"{stat.S_IMODE(found.st_mode):o}), and who could put libraries there for this process to load. Remove "
            f"it, or take that permission away (chmod go-w) if nobody has used it. {advice}, otherwise."
        )


def _check_file(built: Path) -> Path:
    return built.with_name(f"{built.name}.check")


def _check_of(file: Path) -> str:
    """The size and the checksum of a file. They find damage; that nobody else writes there, `_check_private` sees to.

    Raises:
        OSError: It is not there, or cannot be read.
    """
    content = file.read_bytes()
    return f"{len(content)} {zlib.crc32(content):08x}"


def _flush(file: Path) -> None:
    """Has the disk write a file, so that after a power failure the name does not stand for an empty one."""
    with file.open("rb+") as opened:
        os.fsync(opened.fileno())
