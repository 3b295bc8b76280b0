"""A Node process with onnxruntime-web: it keeps the package loaded, and the model that was loaded last."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import onnx
from onnx.external_data_helper import uses_external_data

from opbridge.errors import ModelFileError, RunError, UsageError
from opbridge.runtimes.ending import die_with_parent
from opbridge.runtimes.messages import framed, receive
from opbridge.runtimes.tensors import from_message, to_message
from opbridge.runtimes.web import package

__all__ = ["Node", "shared"]

_RUNNER = Path(__file__).with_name("runner.mjs")


class Node:
    """The process."""

    def __init__(self) -> None:
        folder, program = package.find(), shutil.which("node")
        if folder is None or program is None:
            raise UsageError(f"onnxruntime-web is not installed. Install it with: {package.install_command()}")
        self._process = subprocess.Popen(
            [program, str(_RUNNER), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            preexec_fn=die_with_parent,
        )
        self.owner = os.getpid()
        self._loads = 0

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def load(self, model: str | bytes) -> int:
        """Loads a model in the place of the one before, and returns its number.

        Raises:
            RunError: onnxruntime-web refuses it.
        """
        if isinstance(model, bytes):
            self._asked({"model": None, "size": len(model), "external": []}, [model])
        else:
            self._asked({"model": os.path.abspath(model), "size": 0, "external": _external(model)}, [])
        self._loads += 1
        return self._loads

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
        answer = self._asked({"feeds": said}, blocks)
        return [from_message(each, self._read) for each in answer["outputs"]]

    def close(self) -> None:
        """Ends it."""
        self._process.kill()
        self._process.wait()

    def _asked(self, header: Mapping[str, Any], blocks: Sequence[Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            for each in framed(header, blocks):
                self._process.stdin.write(each)
            self._process.stdin.flush()
            answer = receive(self._read)
        except (OSError, ValueError):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=5)
            status = self._process.poll()
            self.close()
            raise RunError(f"Node ended with exit status {status}: there was no memory left, or it crashed.") from None
        if "error" in answer:
            raise RunError(" ".join(str(answer.get("message")).split())[:4000])
        return answer

    def _read(self, size: int) -> bytearray:
        assert self._process.stdout is not None
        data = self._process.stdout.read(size)
        if len(data) < size:
            raise ConnectionResetError("the other end is closed")
        return bytearray(data)


_shared: list[Node] = []


def shared() -> Node:
    """The process of this one, started where there is none or it has ended."""
    if not _shared or not _shared[0].runs or _shared[0].owner != os.getpid():
        _shared[:] = [Node()]
    return _shared[0]


def _external(model: str) -> list[str]:
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
            if path.is_absolute() or ".." in path.parts or not location:
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
