"""An onnx_ir model -> an ONNX file, replaced atomically, and the file of its external data."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import onnx_ir as ir

from opbridge.errors import SaveError, UsageError
from opbridge.onnx.serialize import (
    MAX_FILE_BYTES,
    TOO_LARGE_WITHOUT_WEIGHTS,
    Content,
    ExternalData,
    serialize,
    write_external_data,
    write_model,
)
from opbridge.onnx.sink import Sink, readable_size, write_failure
from opbridge.save import staging
from opbridge.save.data_names import data_files, data_key, data_name, keys, mentions, plain_name, users
from opbridge.save.replacing import Replacement

__all__ = ["Staged", "save", "staged", "staged_set"]


def save(model: ir.Model, path: str | os.PathLike[str], *, external_data: bool | None = None) -> list[Path]:
    """Writes a model as an ONNX file.

    1. The files are written to a temporary folder and then renamed. The rename of the model's file is the moment at
       which the new model is there: whenever the process is killed, the old model or the new one can be loaded.
    2. Weights are written from their own memory. Tensors that are not contiguous are copied through a small buffer.
    3. External data are stored beside the model, in a file with a name of its own for each save,
       `<path>.1a2b3c4d.data`: all weights but the smallest, and those that share memory (tied parameters) once.
    4. The file of external data of the replaced model is removed afterwards, and so is what killed saves of this path
       have left behind; not where another ONNX file of the folder uses it.
    5. The permissions of a file that is replaced are kept; those of a new one are of the umask.

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

    def __init__(self, files: Replacement, models: Sequence[Path], weights: Path | None, plain: Path) -> None:
        """Args:
        files: The files, closed.
        models: The paths of the models.
        weights: The path of their external data; None where they have none.
        plain: What the names of their external data are made from.
        """
        self.paths = {target: files.place_of(target) for target in models}
        self._files, self._weights, self._plain = files, weights, plain
        self._targets = [*models, *([weights] if weights else [])]

    @property
    def path(self) -> Path:
        """The file of the first model."""
        return next(iter(self.paths.values()))

    def size(self) -> int:
        """The number of bytes of all files."""
        return sum(self._files.place_of(target).stat().st_size for target in self._targets)

    def commit(self) -> list[Path]:
        """Renames the files to their paths, all of them or none, and removes external data that nobody uses any more.

        Returns:
            The paths, the models first.

        Raises:
            SaveError: A file cannot be renamed; the paths are as they were before.
        """
        is_plain_ours = any(mentions(model, self._plain.name) for model in self.paths)
        try:
            self._files.commit()
        except OSError as error:
            raise write_failure(self._targets[0], error) from error
        with contextlib.suppress(OSError):
            _remove_unused(self._plain, self.paths, is_plain_ours=is_plain_ours)
        return self._targets


@contextlib.contextmanager
def staged(model: ir.Model, path: str | os.PathLike[str], *, external_data: bool | None = None) -> Iterator[Staged]:
    """Writes a model as `save` does, but leaves it to the caller to put the files in their places.

    What was not put there when the context ends is removed. The arguments and errors are those of `save`.
    """
    target = _checked_path(path)
    with staged_set({target: model}, plain_name(target), external_data=external_data) as files:
        yield files


@contextlib.contextmanager
def staged_set(models: Mapping[Path, ir.Model], plain: Path, *, external_data: bool | None = None) -> Iterator[Staged]:
    """Writes one or more models to one folder, and leaves it to the caller to put the files in their places.

    What was not put there when the context ends is removed.

    Args:
        models: The models by their paths, all in one folder.
        plain: What the name of their external data in that folder is made from; see `data_names.data_name`. What models
            share is stored once.
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
            f"{largest} was not written: it would be {readable_size(sizes[largest])}, but a single ONNX file is "
            "limited to 2 GB by protobuf. Leave external_data out, or set it to True, to store the weights in a "
            "separate file."
        )
    path = next(iter(models))
    try:
        staging.clear_abandoned(plain.parent)
        place = _place(plain, contents.values() if external_data else ())
    except OSError as error:
        raise write_failure(path, error) from error
    with Replacement(place) as files:
        weights = data_name(plain, place.key)
        data = ExternalData(weights.name, finds_equal=len(models) > 1)
        for content in contents.values():
            if external_data:
                content.move_weights_out(data)
            if content.size() > MAX_FILE_BYTES:
                raise SaveError(TOO_LARGE_WITHOUT_WEIGHTS)
        try:
            if data.stored:
                write_external_data(Sink(files.open(weights, data.nbytes, like=path), weights), data)
            for path, content in contents.items():
                write_model(Sink(files.open(path, content.size()), path), content)
            files.close()
        except OSError as error:
            raise write_failure(path, error) from error
        yield Staged(files, list(models), weights if data.stored else None, plain)


def _place(plain: Path, contents: Collection[Content]) -> staging.Staging:
    """The temporary folder, whose key is that of the external data too; the same one for the same contents.

    Raises:
        OSError: It cannot be made.
    """
    if not contents:
        return staging.make(plain.parent)
    marks = b"".join(content.mark() for content in contents)
    return staging.make(plain.parent, keys(marks), lambda key: not os.path.lexists(data_name(plain, key)))


def _remove_unused(plain: Path, models: Collection[Path], *, is_plain_ours: bool) -> None:
    """Removes external data of earlier saves that no model uses any more, and those of killed saves.

    Args:
        plain: What the names of the data are made from. It was the whole name before each save had one of its own.
        models: The models that were saved.
        is_plain_ours: Whether the models before used data of that name.
    """
    for data in [*data_files(plain), *([plain] if is_plain_ours else [])]:
        # First whether a save is about to put a model there, and then whether it has.
        if data != plain and staging.is_staged(plain.parent, data_key(plain, data)):
            continue
        if not users(data, models):
            with contextlib.suppress(OSError):
                data.unlink()


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
                f"{target} was not written: the folder {target.parent} does not exist. Create it, or choose "
                "another path."
            )
    except TypeError:
        raise UsageError(f"Expected a path (str or pathlib.Path) to save the model to, got {path!r}.") from None
    except ValueError as error:
        raise SaveError(f"Nothing was written: {path!r} is not a valid path ({error}). Choose another.") from None
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
        kind = "a folder" if stat.S_ISDIR(mode) else "a device or a pipe"
        raise SaveError(f"Nothing was written: {target} is {kind}. Give the path of a file.")
