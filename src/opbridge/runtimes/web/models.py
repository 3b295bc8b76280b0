"""Models in a process with onnxruntime-web, which keeps the one that was loaded last."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import onnx
from onnx.external_data_helper import uses_external_data

from opbridge.errors import ModelFileError, RunError
from opbridge.runtimes.messages import Read
from opbridge.runtimes.tensors import from_message, to_message

__all__ = ["Models", "external_files", "refuse"]


class Models(abc.ABC):
    """The process."""

    _loads = 0

    @abc.abstractmethod
    def load(self, model: str | bytes) -> int:
        """Loads a model in the place of the one before, and returns its number.

        Raises:
            RunError: onnxruntime-web refuses it.
        """

    @abc.abstractmethod
    def _asked(self, header: Mapping[str, Any], blocks: Sequence[Any]) -> tuple[dict[str, Any], Read]:
        """The header of the answer to a message, and what reads the bytes that it tells of.

        Raises:
            RunError: The process has ended, or onnxruntime-web raises.
        """

    def run(self, number: int, feeds: Mapping[str, np.ndarray]) -> list[Any]:
        """Runs the model of this number.

        Raises:
            RunError: Another one was loaded since, or onnxruntime-web raises.
        """
        if number != self._loads:
            raise RunError("Another model was loaded since.")
        said, blocks = [], []
        for name, value in feeds.items():
            described, block = to_message(value)
            said.append({"name": name, **described})
            blocks.append(block)
        answer, read = self._asked({"feeds": said}, blocks)
        return [from_message(each, read) for each in answer["outputs"]]


def refuse(answer: Mapping[str, Any]) -> None:
    """Raises what an answer says went wrong.

    Raises:
        RunError: Something did.
    """
    if "error" in answer:
        raise RunError(" ".join(str(answer.get("message")).split())[:4000])


def external_files(model: str) -> list[str]:
    """The files beside a model that hold its weights.

    Raises:
        ModelFileError: One is not in the model's folder.
    """
    proto = onnx.load(model, load_external_data=False)
    names: dict[str, None] = {}
    for tensor in _tensors(proto.graph):
        if uses_external_data(tensor):
            location = next((each.value for each in tensor.external_data if each.key == "location"), "")
            path = PurePosixPath(location)
            folder = Path(model).resolve().parent
            if not location or path.is_absolute() or not (folder / path).resolve().is_relative_to(folder):
                raise ModelFileError(f"{model} names a file outside of its folder for weights: {location!r}.")
            names[location] = None
    return list(names)


def _tensors(graph: Any) -> Any:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            for body in (attribute.g, *attribute.graphs):
                yield from _tensors(body)
