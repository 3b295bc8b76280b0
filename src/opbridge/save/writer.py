"""An onnx_ir model -> an ONNX file, replaced atomically, and the file of its external data."""

from __future__ import annotations

import contextlib
import mmap
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import onnx_ir as ir

from opbridge.errors import SaveError, UsageError
from opbridge.onnx.serialize import (
    MAX_FILE_BYTES,
    TOO_LARGE_WITHOUT_WEIGHTS,
    ExternalData,
    serialize,
    write_external_data,
    write_model,
)
from opbridge.onnx.sink import Sink, readable_size, write_failure
from opbridge.onnx.wire import GRAPH, INITIALIZER, RAW_DATA, fields
from opbridge.save.replacing import Replacement

__all__ = ["Staged", "mentions", "save", "staged", "staged_set"]


def save(model: ir.Model, path: str | os.PathLike[str], *, external_data: bool | None = None) -> list[Path]:
    """Writes a model as an ONNX file.

    1. The files are written to a temporary folder and then renamed: either all of them are replaced, or none is.
    2. Weights are written from their own memory. Tensors that are not contiguous are copied through a small buffer.
    3. External data are stored in `<path>.data` beside the model: all weights but the smallest, and those that share
       memory (tied parameters) once.
    4. The file of external data of the replaced model is removed if it is no longer used. If another ONNX file of the
       folder uses it, it is neither removed nor replaced.

    The model is not changed. Weights that are external data of the replaced file (`ir.load` of the same path) are read
    before it is replaced; such a model has to be loaded again afterwards.

    Args:
        model: The model. Its initializers may be any onnx_ir tensors.
        path: The path of the ONNX file. A symbolic link is replaced.
        external_data: Whether weights are stored as external data; None: only if they do not fit into one file.

    Returns:
        The files that were written, the model first.

    Raises:
        SaveError: The files could not be written; nothing has changed on the disk.
        UsageError: The path is no path, or a weight is a PyTorch tensor without data.
    """
    with staged(model, path, external_data=external_data) as files:
        return files.commit()


class Staged:
    """The files of one or more models in a temporary folder, from which `commit` renames them to their paths.

    Attributes:
        paths: For the path of each model, its file in that folder. It can be loaded: its external data are beside it.
    """

    def __init__(self, files: Replacement, models: Sequence[Path], weights: Path | None, obsolete: Path | None) -> None:
        """Args:
        files: The files, closed.
        models: The paths of the models.
        weights: The path of their external data; None where they have none.
        obsolete: A file of external data that is no longer used afterwards.
        """
        self.paths = {target: files.place_of(target) for target in models}
        self._files, self._obsolete = files, obsolete
        self._targets = [*models, *([weights] if weights else [])]

    @property
    def path(self) -> Path:
        """The file of the first model."""
        return next(iter(self.paths.values()))

    def size(self) -> int:
        """The number of bytes of all files."""
        return sum(self._files.place_of(target).stat().st_size for target in self._targets)

    def commit(self) -> list[Path]:
        """Renames the files to their paths, all of them or none.

        Returns:
            The paths, the models first.

        Raises:
            SaveError: A file cannot be renamed; the paths are as they were before.
        """
        try:
            self._files.commit()
        except OSError as error:
            raise write_failure(self._targets[0], error) from error
        if self._obsolete is not None:
            with contextlib.suppress(OSError):
                self._obsolete.unlink()
        return self._targets


@contextlib.contextmanager
def staged(model: ir.Model, path: str | os.PathLike[str], *, external_data: bool | None = None) -> Iterator[Staged]:
    """Writes a model as `save` does, but leaves it to the caller to put the files in their places.

    What was not put there when the context ends is removed. The arguments and errors are those of `save`.
    """
    target = _checked_path(path)
    weights = target.with_name(target.name + ".data")
    with staged_set({target: model}, weights, external_data=external_data) as files:
        yield files


@contextlib.contextmanager
def staged_set(
    models: Mapping[Path, ir.Model], weights: Path, *, external_data: bool | None = None
) -> Iterator[Staged]:
    """Writes one or more models to one folder, and leaves it to the caller to put the files in their places.

    What was not put there when the context ends is removed.

    Args:
        models: The models by their paths, all in one folder.
        weights: The path of their external data in that folder. What models share is stored once.
        external_data: As for `save`.

    Raises:
        SaveError: The files could not be written; nothing has changed on the disk.
        UsageError: A path is no path, or a weight is a PyTorch tensor without data.
    """
    models = {_checked_path(path): model for path, model in models.items()}
    contents = {path: serialize(model) for path, model in models.items()}
    sizes = {path: content.size() for path, content in contents.items()}
    largest = max(sizes, key=lambda path: sizes[path])
    if external_data is None:
        external_data = sizes[largest] > MAX_FILE_BYTES
    elif not external_data and sizes[largest] > MAX_FILE_BYTES:
        raise SaveError(
            f"{largest} was not written: it would be {readable_size(sizes[largest])}, and one ONNX file holds at most "
            "2 GB, a limit of protobuf's. Leave external_data out, or set it to True, to have the weights in a file "
            "beside it."
        )
    data = ExternalData(weights.name, finds_equal=len(models) > 1)
    for content in contents.values():
        if external_data:
            content.move_weights_out(data)
        if content.size() > MAX_FILE_BYTES:
            raise SaveError(TOO_LARGE_WITHOUT_WEIGHTS)

    is_obsolete = _is_obsolete(list(models), weights, is_replaced=bool(data.stored))
    with Replacement(weights.parent) as files:
        path = next(iter(models))
        try:
            if data.stored:
                _check_is_file(weights)
                write_external_data(Sink(files.open(weights, data.nbytes), weights), data)
            for path, content in contents.items():
                write_model(Sink(files.open(path, content.size()), path), content)
            files.close()
        except OSError as error:
            raise write_failure(path, error) from error
        yield Staged(files, list(models), weights if data.stored else None, weights if is_obsolete else None)


def _checked_path(path: str | os.PathLike[str]) -> Path:
    """The path of the model file.

    Raises:
        SaveError: A file cannot be written there.
        UsageError: The argument is no path.
    """
    try:
        target = Path(path)
        target.name.encode()  # it is stored in the model as the location of external data
        _check_is_file(target)
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


def _check_is_file(target: Path) -> None:
    """Checks that a path does not exist or is a regular file.

    Raises:
        SaveError: It is a folder, a device or a pipe.
    """
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a device or a pipe, not a file,"
        raise SaveError(f"Nothing was written: {kind} stands at {target}. Name a file to write.")


def _is_obsolete(targets: Sequence[Path], weights: Path, *, is_replaced: bool) -> bool:
    """Whether the file of external data is no longer used once the model files are replaced.

    Args:
        targets: The model files.
        weights: The file of their external data.
        is_replaced: Whether that is written anew.

    Raises:
        SaveError: It is written anew, and another model in the folder uses it.
    """
    if not os.path.isfile(weights):
        return False
    others = [file for file in weights.parent.glob("*.onnx") if file not in targets]
    users = [file for file in others if mentions(file, weights.name)]
    if is_replaced and users:
        raise SaveError(
            f"{targets[0]} was not written: its weights would replace {weights.name}, which {users[0].name} beside it "
            "uses too. Save under another name, or move or delete the other model first."
        )
    return (
        not is_replaced and not users and any(target.exists() and mentions(target, weights.name) for target in targets)
    )


def mentions(model: Path, name: str) -> bool:
    """Whether the bytes of an ONNX file, without the raw data of its weights, contain the name of another file.

    True for a file that cannot be opened; false for one that is no ONNX file.
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
    """Whether the message at `content[start:end]` contains some bytes.

    Args:
        content: The file.
        needle: The bytes.
        start: The offset of the message.
        end: The offset of its end.
        inner: The fields that lead to a TensorProto, whose raw data are left out: outermost first; empty for itself.
    """
    for number, first, last in fields(content, start, end):
        if inner and number == inner[0]:
            if _finds(content, needle, first, last, inner[1:]):
                return True
        elif (inner or number != RAW_DATA) and content.find(needle, first, last) >= 0:
            return True
    return False
