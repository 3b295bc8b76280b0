"""An onnx_ir model -> a file, whole or not at all, at about the disk's speed."""

from __future__ import annotations

import contextlib
import mmap
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import onnx_ir as ir

from opbridge.errors import SaveError, UsageError
from opbridge.onnx.serialize import (
    ONE_FILE_BYTES,
    TOO_MUCH_INSIDE,
    Sink,
    readable_size,
    serialize,
    write_failure,
    write_model,
)
from opbridge.onnx.wire import GRAPH, INITIALIZER, RAW_DATA, fields
from opbridge.save.replacing import Replacement

if TYPE_CHECKING:
    pass

__all__ = ["save"]


def save(model: ir.Model, path: str | os.PathLike[str], *, external_data: bool | None = None) -> list[Path]:
    """Writes a model as an ONNX file.

    1. The files are written under temporary names and put in place by renaming: either all of them are new, or what
       stood there before is still there.
    2. Weights go to the file straight from their own memory. What is not contiguous is copied in small pieces.
    3. With external data they lie in `<path>.data` beside the file, all but the smallest; initializers that share
       memory (tied parameters) lie there once.
    4. A weights file that the replaced model used, and that is no longer used, is removed. One that another ONNX file
       of the folder uses is neither removed nor replaced.

    The model is not changed. Weights that lie in the very file that is replaced (`ir.load` of the same path) are read
    before that; such a model has to be loaded again afterwards.

    Args:
        model: The model. Its initializers may be any onnx_ir tensors.
        path: Where to. A symbolic link there is replaced.
        external_data: Whether the weights go to a file of their own; None: only if they do not fit into one file.

    Returns:
        The files that were written, the model first.

    Raises:
        SaveError: The files could not be written; nothing has changed on the disk.
        UsageError: The path is no path, or a weight has no data to write.
    """
    target = _checked_path(path)
    weights_target = target.with_name(target.name + ".data")
    content = serialize(model)
    size = content.size()
    if external_data is None:
        external_data = size > ONE_FILE_BYTES
    elif not external_data and size > ONE_FILE_BYTES:
        raise SaveError(
            f"{target} was not written: it would be {readable_size(size)}, and one ONNX file holds at most 2 GB, a "
            "limit of protobuf's. Leave external_data out, or set it to True, to have the weights in a file beside it."
        )
    stored = content.move_out(weights_target.name) if external_data else []
    if content.size() > ONE_FILE_BYTES:
        raise SaveError(TOO_MUCH_INSIDE)

    superseded = _superseded(target, weights_target, replaced=bool(stored))
    try:
        if stored:
            _check_place(weights_target)
        with Replacement(target.parent) as files:
            if stored:
                offset, _, last = stored[-1]
                sink = Sink(files.open(weights_target, offset + last.nbytes), weights_target)
                for offset, name, tensor in stored:
                    sink.write(bytes(offset - sink.position))
                    sink.write_tensor(name, tensor)
            write_model(Sink(files.open(target, content.size()), target), content)
            files.commit()
    except OSError as error:
        raise write_failure(target, error) from error
    if superseded:
        with contextlib.suppress(OSError):
            weights_target.unlink()
    return [target, weights_target] if stored else [target]


def _checked_path(path: str | os.PathLike[str]) -> Path:
    """The path, if a file can be put there.

    Raises:
        SaveError: It cannot; what is in the way is named.
    """
    try:
        target = Path(path)
        target.name.encode()  # goes into the file, as the location of the weights
        _check_place(target)
        if not target.parent.is_dir():
            raise SaveError(
                f"{target} was not written: there is no folder {target.parent}. Create it, or choose another path."
            )
    except TypeError:
        raise UsageError(f"A model is saved to a path, a string or pathlib.Path, not to {path!r}.") from None
    except ValueError as error:
        raise SaveError(f"Nothing was written: {path!r} is no path for a file ({error}). Choose another.") from None
    except OSError as error:
        raise write_failure(target, error) from error
    return target


def _check_place(target: Path) -> None:
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a device or a pipe, not a file,"
        raise SaveError(f"Nothing was written: {kind} stands at {target}. Name a file to write.")


def _superseded(target: Path, weights: Path, *, replaced: bool) -> bool:
    """Whether a weights file, of a model that is about to be replaced, is to be removed afterwards.

    Raises:
        SaveError: The weights file is to be replaced, and a model beside this one uses it.
    """
    if not os.path.isfile(weights):
        return False
    users = [file for file in target.parent.glob("*.onnx") if file != target and _mentions(file, weights.name)]
    if replaced and users:
        raise SaveError(
            f"{target} was not written: its weights would replace {weights.name}, which {users[0].name} beside it "
            "uses too. Save under another name, or move or delete the other model first."
        )
    return not replaced and not users and target.exists() and _mentions(target, weights.name)


def _mentions(model: Path, name: str) -> bool:
    """Whether an ONNX file names another file, anywhere but in the numbers of its weights.

    A file that cannot be opened may; one that is no ONNX file does not.
    """
    try:
        with open(model, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if not size:
                return False
            with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as content:
                return _finds(content, name.encode(), 0, size, (GRAPH, INITIALIZER))
    except OSError:
        return True
    except ValueError:
        return False


def _finds(content: mmap.mmap, needle: bytes, start: int, end: int, inner: tuple[int, ...]) -> bool:
    for number, first, last in fields(content, start, end):
        if inner and number == inner[0]:
            if _finds(content, needle, first, last, inner[1:]):
                return True
        elif (inner or number != RAW_DATA) and content.find(needle, first, last) >= 0:
            return True
    return False
