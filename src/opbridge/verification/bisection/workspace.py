"""Parts of a model as files that share its weights, in a temporary folder."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import onnx

from opbridge.errors import ModelFileError
from opbridge.onnx.subgraphs import bodies

__all__ = ["Workspace"]

_LEAST_BYTES = 1 << 10
"""Smaller weights stay in the files."""

_ALIGNMENT = 64


class Workspace:
    """A temporary folder with the weights of one model, in which parts of the model are written.

    Args:
        model: The model, which is changed: weights become places in a file of the folder.
        source: The path of its file, beside which its external data are; or its content.

    Attributes:
        weight_bytes: The bytes of the weights.

    Raises:
        ModelFileError: External data are missing, too short or outside of the folder of the model.
    """

    def __init__(self, model: onnx.ModelProto, source: str | bytes) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="opbridge")
        self.path = Path(self._folder.name)
        self.weight_bytes = 0
        self._count = 0
        self._links: dict[str, str] = {}
        self._base = Path(source).parent.resolve() if isinstance(source, str) else Path.cwd()
        self._label = source if isinstance(source, str) else "The model in memory"
        try:
            with open(self.path / "weights", "wb") as file:
                for tensor in _tensors(model.graph):
                    if tensor.data_location == onnx.TensorProto.EXTERNAL:
                        self._link(tensor)
                    elif tensor.HasField("raw_data") and len(tensor.raw_data) >= _LEAST_BYTES:
                        file.write(b"\0" * (-file.tell() % _ALIGNMENT))
                        start = file.tell()
                        file.write(tensor.raw_data)
                        _move(tensor, "weights", start, len(tensor.raw_data))
                        self.weight_bytes += file.tell() - start
        except BaseException:  # an interrupt too: nobody else knows of the folder yet
            self.close()
            raise

    def _link(self, tensor: onnx.TensorProto) -> None:
        entries = {each.key: each.value for each in tensor.external_data}
        location = entries.get("location", "")
        if location not in self._links:
            source = (self._base / location).resolve()
            if not location or not source.is_relative_to(self._base):
                raise ModelFileError(
                    f"{self._label} cannot be used: the location '{location}' of its weight '{tensor.name}' is outside "
                    "of the folder of the model. Export it again."
                )
            if not source.is_file():
                raise ModelFileError(
                    f"{self._label} cannot be used: its weight '{tensor.name}' is in {location}, which does not exist. "
                    "Copy the weight file to the folder of the model, or export again."
                )
            name = f"weights{len(self._links) + 1}"
            try:
                os.link(source, self.path / name)
            except OSError:  # another file system
                shutil.copyfile(source, self.path / name)
            self._links[location] = name
        name = self._links[location]
        there = os.path.getsize(self.path / name)
        try:
            start = int(entries.get("offset", 0))
            length = int(entries.get("length", there - start))
        except ValueError:
            raise ModelFileError(
                f"{self._label} is damaged: the place of its weight '{tensor.name}' is no number. Export it again."
            ) from None
        if start < 0 or length < 0 or start + length > there:
            raise ModelFileError(
                f"{self._label} cannot be used: {location} has {there} bytes, but its weight '{tensor.name}' ends at "
                f"{start + length}. Copy the weight file again."
            )
        self.weight_bytes += length
        _move(tensor, name, start, length)

    def content(self, tensor: onnx.TensorProto) -> bytes:
        """The bytes of a weight."""
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            return tensor.raw_data if tensor.HasField("raw_data") else tensor.SerializeToString()
        entries = {each.key: each.value for each in tensor.external_data}
        with open(self.path / entries["location"], "rb") as file:
            file.seek(int(entries["offset"]))
            return file.read(int(entries["length"]))

    def inline(self, tensor: onnx.TensorProto) -> None:
        """Puts the bytes of a weight that lies in the folder into it."""
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            data = self.content(tensor)
            tensor.ClearField("data_location")
            del tensor.external_data[:]
            tensor.raw_data = data

    def write(self, model: onnx.ModelProto) -> Path:
        """A file in the folder with a part of the model."""
        self._count += 1
        path = self.path / f"part{self._count}.onnx"
        path.write_bytes(model.SerializeToString())
        return path

    def close(self) -> None:
        """Removes the folder."""
        self._folder.cleanup()

    def __enter__(self) -> Workspace:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _move(tensor: onnx.TensorProto, location: str, start: int, length: int) -> None:
    tensor.ClearField("raw_data")
    del tensor.external_data[:]
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", str(start)), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """The tensors of a graph that may be beside the file: initializers, and those of bodies."""
    yield from graph.initializer
    for node in graph.node:
        for body in bodies(node):
            yield from (each for each in body.initializer if each.data_location == onnx.TensorProto.EXTERNAL)
        for attribute in node.attribute:
            if attribute.HasField("t") and attribute.t.data_location == onnx.TensorProto.EXTERNAL:
                yield attribute.t
