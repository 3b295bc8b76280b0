"""The models of the steps of a cast, with weights that are written once or not at all.

Rules:
    1. Weights that the file keeps as external data are read from there.
    2. Where it keeps none, large ones are written to a temporary folder when a step has them first, and are read from
       there by all later steps.
    3. Everything else is in the content, which a session gets without a file.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Hashable
from pathlib import Path

import onnx_ir as ir

from opbridge.onnx.serialize import ExternalData, identity, serialize, write_external_data, written
from opbridge.onnx.sink import Sink, write_failure
from opbridge.precision.types import graphs

__all__ = ["SharedWeights", "StepModel"]

_LARGE_BYTES = 1 << 20


class StepModel:
    """A model for a session.

    Attributes:
        content: The content of its file.
        folder: Where its external data are; None: it has none.
    """

    def __init__(self, content: bytes, folder: str | None) -> None:
        self.content, self.folder = content, folder


class SharedWeights:
    """Where sessions find the weights of a model and of its copies.

    Args:
        model: The model.

    Attributes:
        smallest: The bytes from which on a weight is stored outside of the content.
    """

    smallest = _LARGE_BYTES

    def __init__(self, model: ir.Model) -> None:
        folders = {
            os.fspath(value.const_value.base_dir)
            for graph in graphs(model.graph)
            for value in graph.initializers.values()
            if isinstance(value.const_value, ir.ExternalTensor)
        }
        self._source = next(iter(folders)) if len(folders) == 1 and "" not in folders else None
        self._written: tempfile.TemporaryDirectory[str] | None = None
        self._places: dict[Hashable, tuple[str, int]] = {}
        self._kept: list[ir.TensorProtocol] = []  # they live, so that no other one gets their identity
        self._new = ExternalData("")

    def close(self) -> None:
        """Removes what was written."""
        if self._written is not None:
            self._written.cleanup()

    def place(self, name: str, tensor: ir.TensorProtocol) -> tuple[str, int] | None:
        """The file and the offset of a weight; None: it stays in the content."""
        if self._source is not None:
            if isinstance(tensor, ir.ExternalTensor) and os.fspath(tensor.base_dir) == self._source:
                return os.fspath(tensor.location), tensor.offset or 0
            return None
        key = identity(tensor)
        if key not in self._places:
            self._places[key] = self._new.place(name, tensor)
            self._kept.append(tensor)
        return self._places[key]

    def model(self, model: ir.Model) -> StepModel:
        """A model for a session.

        Raises:
            SaveError: Its weights cannot be written, or it is too large.
        """
        content = serialize(model)
        self._new = ExternalData(f"{len(self._kept)}.data")
        content.move_weights_out(self)
        if self._new.stored:
            self._write()
        folder = self._source if self._written is None else self._written.name
        return StepModel(written(content), folder)

    def _write(self) -> None:
        path = Path(self._new.location)
        try:
            if self._written is None:
                self._written = tempfile.TemporaryDirectory()
            path = Path(self._written.name) / self._new.location
            with open(path, "xb") as file:
                write_external_data(Sink(file, path), self._new)
        except BaseException as error:  # an interrupt too: a file that is written in part is no place of a weight
            self._places = {key: place for key, place in self._places.items() if place[0] != self._new.location}
            if isinstance(error, OSError):
                raise write_failure(path, error) from error
            raise
