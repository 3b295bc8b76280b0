"""Files that are replaced together or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from types import TracebackType

from opbridge.onnx.sink import WritableFile
from opbridge.save.direct import DirectFile

__all__ = ["Replacement"]


# Larger files are written past the page cache, see `DirectFile`.
_DIRECT_FROM_BYTES = 64 << 20


class Replacement:
    """Replaces one or more files of one folder.

    1. `open` creates a file under its own name in a temporary folder in the same folder, so that it can be renamed to
       its path, and that files which name each other can be read before `commit`.
    2. `commit` closes the files and renames them, in the order in which they were opened. If there are several, the
       files that exist at their paths are renamed to backups first: if the process is killed in between, the paths are
       empty, and old and new files are never mixed.
    3. If anything fails before the last rename, an interrupt included, the paths are as they were before.

    There is no fsync. It would protect the new file from a power failure within the next seconds, and takes several
    times as long as writing; an export can be repeated. (Where one file replaces another, ext4 flushes it by itself.)
    An error of the disk is reported without fsync too, by write or close.

    A symbolic link at a path is replaced; the file that it points to is not changed.

    Args:
        folder: The folder of all the files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._staging: Path | None = None
        self._files: list[tuple[WritableFile, Path, Path]] = []

    def open(self, target: Path, size: int) -> WritableFile:
        """A new file for writing, which `commit` will rename.

        Args:
            target: The path that the file gets, in the folder.
            size: The approximate number of bytes that will be written.

        Raises:
            OSError: The file cannot be created.
        """
        if self._staging is None:
            self._staging = self._temporary()
            self._staging.mkdir()
        temporary = self._staging / target.name
        # Unlike tempfile, this gives the file the permissions of the umask.
        file: WritableFile
        # Closed by commit or __exit__.
        file = DirectFile(temporary) if size >= _DIRECT_FROM_BYTES else open(temporary, "xb")  # noqa: SIM115
        self._files.append((file, temporary, target))
        return file

    def place_of(self, target: Path) -> Path:
        """Where `open` put the file that will be renamed to a path."""
        return next(temporary for _, temporary, each in self._files if each == target)

    def close(self) -> None:
        """Closes the files, which can then be read where `open` put them.

        Raises:
            OSError: A file cannot be written.
        """
        for file, _, _ in self._files:
            file.close()

    def commit(self) -> None:
        """Renames the files to their paths.

        Raises:
            OSError: A file cannot be written or renamed; the paths are as they were before.
        """
        self.close()
        targets = [target for _, _, target in self._files]
        backups: list[tuple[Path, Path]] = []
        placed: list[Path] = []
        try:
            if len(targets) > 1:
                for target in filter(os.path.lexists, targets):
                    backups.append((self._temporary(), target))
                    os.replace(target, backups[-1][0])
            for _, temporary, target in self._files:
                placed.append(target)
                os.replace(temporary, target)
        except BaseException:
            if len(targets) > 1:
                for target, (_, temporary, _) in zip(placed, self._files, strict=False):
                    if not os.path.lexists(temporary):
                        os.unlink(target)
            for old, target in backups:
                if os.path.lexists(old):
                    os.replace(old, target)
            raise
        for old, _ in backups:
            with contextlib.suppress(OSError):
                os.unlink(old)

    def __enter__(self) -> Replacement:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for file, temporary, _ in self._files:
            with contextlib.suppress(OSError):
                file.close()  # fails again on a full disk
            with contextlib.suppress(OSError):
                os.unlink(temporary)  # it was renamed
        if self._staging is not None:
            with contextlib.suppress(OSError):
                self._staging.rmdir()

    def _temporary(self) -> Path:
        return self._folder / f".opbridge-{secrets.token_hex(8)}.tmp"
