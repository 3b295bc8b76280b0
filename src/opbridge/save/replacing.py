"""Files that are replaced together or not at all."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from types import TracebackType

from opbridge.onnx.sink import WritableFile
from opbridge.save.direct import DirectFile
from opbridge.save.permissions import keep_permissions
from opbridge.save.staging import REPLACED, Staging

__all__ = ["Replacement"]


# Larger files are written past the page cache, see `DirectFile`.
_DIRECT_FROM_BYTES = 64 << 20


class Replacement:
    """Replaces one or more files of one folder, and adds files that they name.

    1. `open` creates a file under its own name in a temporary folder in the same folder, so that it can be renamed to
       its path, and that files which name each other can be read before `commit`.
    2. `commit` closes the files, renames the added ones, whose names are new in the folder, and then those that replace
       others. If it is one, its rename is the moment at which everything is there: whoever is killed, and whenever, the
       old file or the new one stands at the path, with all that it names.
    3. If several files replace others, those are moved to the temporary folder first: if the process is killed in
       between, some paths are empty, and old and new files are never mixed. `staging.clear_abandoned` then puts the
       rest of the new files in their places.
    4. If anything fails before the last rename, an interrupt included, the paths are as they were before.
    5. A new file has the permissions of the one that it replaces; an added one and the first of a path, those of the
       umask.

    There is no fsync. It would protect the new file from a power failure within the next seconds, and takes several
    times as long as writing; an export can be repeated. (Where one file replaces another, ext4 flushes it by itself.)
    An error of the disk is reported without fsync too, by write or close.

    A symbolic link at a path is replaced; the file that it points to is not changed.

    Args:
        staging: A temporary folder in the folder of all the files. It is removed when the context ends.
    """

    def __init__(self, staging: Staging) -> None:
        self._staging = staging
        self._files: list[WritableFile] = []
        self._added: dict[Path, Path] = {}
        self._replacing: dict[Path, Path] = {}
        self._models: dict[Path, Path] = {}

    def open(self, target: Path, size: int, *, like: Path | None = None) -> WritableFile:
        """A new file for writing, which `commit` will rename.

        Args:
            target: The path that the file gets, in the folder.
            size: The approximate number of bytes that will be written.
            like: For a file that is added, one whose permissions it gets, if that exists; None for one that replaces
                what is at its path.

        Raises:
            OSError: The file cannot be created.
        """
        temporary = self._staging.path / target.name
        # Unlike tempfile, this gives the file the permissions of the umask.
        file: WritableFile
        # Closed by commit or __exit__.
        file = DirectFile(temporary) if size >= _DIRECT_FROM_BYTES else open(temporary, "xb")  # noqa: SIM115
        self._files.append(file)
        (self._replacing if like is None else self._added)[target] = temporary
        self._models[target] = target if like is None else like
        return file

    def place_of(self, target: Path) -> Path:
        """Where `open` put the file that will be renamed to a path."""
        return {**self._added, **self._replacing}[target]

    def close(self) -> None:
        """Closes the files, which can then be read where `open` put them.

        Raises:
            OSError: A file cannot be written.
        """
        for file in self._files:
            file.close()

    def commit(self) -> None:
        """Renames the files to their paths.

        Raises:
            OSError: A file cannot be written or renamed; the paths are as they were before.
        """
        self.close()
        for target, temporary in {**self._added, **self._replacing}.items():
            keep_permissions(temporary, self._models[target])
        replaced: dict[Path, Path] = {}
        try:
            for target, temporary in self._added.items():
                os.replace(temporary, target)
            if len(self._replacing) > 1:
                backups = self._staging.path / REPLACED
                backups.mkdir()
                for target in filter(os.path.lexists, self._replacing):
                    replaced[target] = backups / target.name
                    os.replace(target, replaced[target])
            for target, temporary in self._replacing.items():
                os.replace(temporary, target)
        except BaseException:
            self._undo(replaced)
            raise

    def _undo(self, replaced: dict[Path, Path]) -> None:
        """Puts everything back, unless the last rename was made before the interrupt.

        Each step leaves a state that `staging.clear_abandoned` can finish.
        """
        if not any(map(os.path.lexists, self._replacing.values())):
            return
        if len(self._replacing) > 1:
            for target, temporary in self._replacing.items():
                if not os.path.lexists(temporary):
                    os.replace(target, temporary)
            for target, backup in replaced.items():
                if os.path.lexists(backup):
                    os.replace(backup, target)
            with contextlib.suppress(OSError):
                (self._staging.path / REPLACED).rmdir()
        for target, temporary in self._added.items():
            if not os.path.lexists(temporary):
                os.unlink(target)

    def __enter__(self) -> Replacement:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for file in self._files:
            with contextlib.suppress(OSError):
                file.close()  # fails again on a full disk
        self._staging.remove()
