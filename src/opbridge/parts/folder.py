"""The folder of a set: which files it has, and that it can be written to."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from opbridge.errors import SaveError

__all__ = ["made", "part_path", "refuse_unwritable", "weights_path"]


def part_path(folder: Path, name: str) -> Path:
    """The file of a part."""
    return folder / f"{name}.onnx"


def weights_path(folder: Path) -> Path:
    """What the name of the file with the weights of all parts is made from: `weights.1a2b3c4d.data`."""
    return folder / "weights.data"


def refuse_unwritable(folder: Path, names: Iterable[str]) -> None:
    """Says before the work what would be found out after it.

    Raises:
        SaveError: The set cannot be written there.
    """
    if not folder.is_dir():
        if folder.suffix == ".onnx" or os.path.lexists(folder):
            kind = "is a file" if os.path.lexists(folder) else "is the name of a file"
            raise SaveError(
                f"{folder} {kind}, but a set of parts ({', '.join(names)}) is written to a folder. Give the "
                "path of a folder."
            )
        if not folder.parent.is_dir():
            raise SaveError(f"The folder {folder.parent} does not exist. Create it, or give another path.")
    if not os.access(folder if folder.is_dir() else folder.parent, os.W_OK):
        raise SaveError(f"The folder {folder} is not writable. Give another path.")


@contextlib.contextmanager
def made(folder: Path) -> Iterator[None]:
    """Within this context the folder exists; at its end it is removed again if it is new and empty.

    Raises:
        SaveError: It cannot be made.
    """
    is_new = not folder.is_dir()
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise SaveError(f"The folder {folder} cannot be created: {error.strerror}. Give another path.") from error
    try:
        yield
    finally:
        if is_new:
            with contextlib.suppress(OSError):  # it is not empty
                folder.rmdir()
