"""Files that appear together, or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from types import TracebackType

from opbridge.onnx.serialize import WritableFile
from opbridge.save.direct import DirectFile

__all__ = ["Replacement"]


# From here on a file may cost more memory than the page cache has at hand.
_LARGE_BYTES = 64 << 20


class Replacement:
    """New content for one or more files of one folder.

    1. `open` gives a new file under a temporary name in the same folder, so that a rename can put it in its place.
    2. `commit` closes the files and renames them, in the order in which they were opened. With more than one, what
       stands at their paths is set aside first: should this process be killed in between, the paths are empty, and
       never half old and half new.
    3. Whatever fails before the last rename, an interrupt included, leaves the paths as they were before.

    There is no fsync. It would guard the new file against a power cut in the seconds after, and costs the full trip to
    the disk, several times what writing takes; an export can be run again. (Where one file replaces another, ext4 sends
    it to the disk by itself.) A write that the disk refuses is reported without it, by write or close.

    A symbolic link at a path is replaced; the file that it points to is left alone.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: list[tuple[WritableFile, Path, Path]] = []

    def open(self, target: Path, size: int) -> WritableFile:
        """A new file of about `size` bytes, which `commit` will put at `target`; that lies in the folder."""
        temporary = self._temporary()
        # The umask decides about permissions, as for any file that is opened for writing; tempfile would not let it.
        file: WritableFile
        # Closed by commit or __exit__.
        file = DirectFile(temporary) if size >= _LARGE_BYTES else open(temporary, "xb")  # noqa: SIM115
        self._files.append((file, temporary, target))
        return file

    def commit(self) -> None:
        """Puts the files in their places."""
        for file, _, _ in self._files:
            file.close()
        targets = [target for _, _, target in self._files]
        aside: list[tuple[Path, Path]] = []
        placed: list[Path] = []
        try:
            if len(targets) > 1:
                for target in filter(os.path.lexists, targets):
                    aside.append((self._temporary(), target))
                    os.replace(target, aside[-1][0])
            for _, temporary, target in self._files:
                placed.append(target)
                os.replace(temporary, target)
        except BaseException:
            if len(targets) > 1:
                for target, (_, temporary, _) in zip(placed, self._files, strict=False):
                    if not os.path.lexists(temporary):
                        os.unlink(target)
            for old, target in aside:
                if os.path.lexists(old):
                    os.replace(old, target)
            raise
        for old, _ in aside:
            with contextlib.suppress(OSError):
                os.unlink(old)

    def __enter__(self) -> Replacement:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for file, temporary, _ in self._files:
            with contextlib.suppress(OSError):
                file.close()  # a full disk makes this fail once more
            with contextlib.suppress(OSError):
                os.unlink(temporary)  # already gone once it was renamed

    def _temporary(self) -> Path:
        return self._folder / f".opbridge-{secrets.token_hex(8)}.tmp"
