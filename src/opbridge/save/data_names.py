"""The names of files of external data: `model.onnx.1a2b3c4d.data` for `model.onnx`.

Each save gives its data a name that no file of the folder has. The file that the model at the path names is thus never
written to, and the rename of the new model is the one moment at which the new model is there, weights and all. A copy
of the two files to another folder is safe for the same reason: the data first, and then the model.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from opbridge.onnx.wire import GRAPH, INITIALIZER, RAW_DATA, fields

__all__ = ["data_files", "data_key", "data_name", "keys", "mentions", "plain_name", "users"]


def plain_name(model: Path) -> Path:
    """What the names of a model's external data are made from: "model.onnx.data" for "model.onnx"."""
    return model.with_name(model.name + ".data")


def data_name(plain: Path, key: str) -> Path:
    """ "model.onnx.1a2b3c4d.data" for "model.onnx.data"."""
    return plain.with_name(f"{plain.stem}.{key}{plain.suffix}")


def data_key(plain: Path, data: Path) -> str:
    """The key that `data_name` was given."""
    return data.name[len(plain.stem) + 1 : len(data.name) - len(plain.suffix)]


def keys(content: bytes) -> Iterator[str]:
    """Names are made with the first of these that is free: the same ones for the same content.

    A model that is saved to two empty folders gives the same bytes in both.
    """
    for number in range(1 << 20):
        yield hashlib.sha256(content + str(number).encode()).hexdigest()[:8]


def data_files(plain: Path) -> list[Path]:
    """The files of external data that saves have written, by a name from `plain_name`."""
    form = re.compile(rf"{re.escape(plain.stem)}\.[0-9a-f]{{8}}{re.escape(plain.suffix)}")
    with os.scandir(plain.parent) as entries:
        return sorted(Path(each) for each in entries if form.fullmatch(each.name) and each.is_file())


def users(data: Path, models: Iterable[Path] = ()) -> Sequence[Path]:
    """The models that use a file of external data: of those given and the ONNX files of the folder."""
    return [model for model in dict.fromkeys((*models, *data.parent.glob("*.onnx"))) if mentions(model, data.name)]


def mentions(model: Path, name: str) -> bool:
    """Whether the bytes of an ONNX file, without the raw data of its weights, contain the name of another file.

    True for a file that cannot be opened; false for one that is no ONNX file or is not there.
    """
    if not os.path.isfile(model):  # a pipe would have to be waited for
        return False
    try:
        with open(model, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if not size:
                return False
            with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as content:
                return _finds(content, name.encode(), 0, size, (GRAPH, INITIALIZER))
    except FileNotFoundError:
        return False
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
