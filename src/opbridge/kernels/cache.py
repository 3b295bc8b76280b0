"""A folder of built libraries, by the content of what they were built from.

    <cache>/<name>-<hash>/<name>.so      by the content of everything that was read: sources, headers, compiler, flags
    <cache>/index/<hash>.json            by the sources and flags alone: which headers the last build read

What is written is moved into place whole, so that processes that build the same at once do not disturb each other; one
of them builds, and the others wait for it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from opbridge.errors import BuildError

__all__ = ["Cache", "cache_folder", "fingerprint"]


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
        found.update(f"{len(text)}:{text}".encode())
    for file in files:
        content = file.read_bytes()
        found.update(f"{file}:{len(content)}:".encode())
        found.update(content)
    return found.hexdigest()[:32]


class Cache:
    """The cache folder.

    Raises:
        BuildError: it cannot be written to.
    """

    def __init__(self) -> None:
        self.folder = cache_folder() / "kernels"
        try:
            (self.folder / "index").mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise BuildError(
                f"Kernels are built in {self.folder}, which cannot be written to ({error.strerror}). Name another "
                "folder in the environment's OPBRIDGE_CACHE."
            ) from None

    def find(self, first: str, name: str) -> Path | None:
        """What was built from these sources, if nothing that it read has changed."""
        try:
            read = [Path(each) for each in json.loads((self.folder / "index" / f"{first}.json").read_text())]
            built = self.place(first, read, name)
        except (OSError, ValueError):
            return None
        return built if built.exists() else None

    def place(self, first: str, read: Sequence[Path], name: str) -> Path:
        """Where something belongs that was built from files with their present content."""
        return self.folder / f"{Path(name).stem}-{fingerprint([first], read)}" / name

    def keep(self, first: str, read: Sequence[Path], built: Path, name: str) -> Path:
        """Moves what was built to its place."""
        kept = self.place(first, read, name)
        kept.parent.mkdir(exist_ok=True)
        os.replace(built, kept)
        index = built.with_suffix(".json")
        index.write_text(json.dumps([str(each) for each in read]))
        os.replace(index, self.folder / "index" / f"{first}.json")
        return kept

    @contextlib.contextmanager
    def building(self, first: str) -> Iterator[Path]:
        """A folder to build in, while no other process builds the same."""
        lock = _locked(self.folder / "index" / f"{first}.lock")
        with lock, tempfile.TemporaryDirectory(prefix="build-", dir=self.folder) as folder:
            yield Path(folder)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    try:
        import fcntl
    except ImportError:  # Windows, where everyone builds for themselves
        yield
        return
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
