"""MNN on the CPU: its converter makes a file of its own of the ONNX model, which its module runs.

The converter is called in its library: importing `MNN.tools.mnnconvert` installs packages with pip, and sends logs.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from opbridge.errors import ModelFileError
from opbridge.runtimes.described import described, type_named
from opbridge.runtimes.tensors import dtype_named

__all__ = ["DOMAINS", "INSTALL", "ISOLATED", "KERNELS", "NAME", "TITLE", "load", "version"]

NAME = "mnn"
TITLE = "MNN"
INSTALL = "pip install 'opbridge[mnn]'"
ISOLATED = True
KERNELS = False
DOMAINS = ("ai.onnx.ml", "com.microsoft")
"""Domains of which it may have operators: it goes by their names alone."""

# The types that its tensors have, each with the one that holds the values of ONNX's: int64 is int32 there.
_HELD = {
    "float32": "float32",
    "float64": "float32",
    "float16": "float32",
    "int32": "int32",
    "int64": "int32",
    "int16": "int32",
    "uint16": "int32",
    "bool": "int32",
    "int8": "int8",
    "uint8": "uint8",
}


def version() -> str:
    """The version of the wheel."""
    try:
        return importlib.metadata.version("MNN")
    except importlib.metadata.PackageNotFoundError:
        return ""


class _Module:
    """A model as MNN has converted it."""

    def __init__(self, path: str, said: Any) -> None:
        from MNN import expr, nn

        self._inputs = [each.name for each in said.inputs]
        self._types = [type_named(each.type) for each in said.outputs]
        self._module = nn.load_module_from_file(
            path,
            self._inputs,
            [each.name for each in said.outputs],
            precision_mode=expr.PrecisionMode.High,
            shape_mutable=True,
            thread_num=1,
        )
        if self._module is None:
            raise RuntimeError("its module cannot load the converted model")

    def run(self, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        from MNN import expr

        found = self._module.onForward([_to_variable(feeds[name]) for name in self._inputs])
        if not found or any(each is None for each in found):
            raise RuntimeError("its module returns nothing")
        results = []
        for variable, wanted in zip(found, self._types, strict=True):
            plain = expr.convert(variable, expr.NCHW) if variable.data_format == expr.NC4HW4 else variable
            array = np.array(plain.read()).reshape(list(plain.shape))
            results.append(array.astype(dtype_named(wanted)) if _HELD.get(wanted) == array.dtype.name else array)
        return results


def load(model: str | bytes) -> _Module:
    """Loads a model; see `opbridge.runtimes.Runtime`."""
    import _tools  # the converter's library, which comes with the wheel

    said = described(model)
    for each in (*said.inputs, *said.outputs):
        if type_named(each.type) not in _HELD:
            raise ModelFileError(f"MNN {version()} does not support the type of '{each.name}', {each.type}.")
    with tempfile.TemporaryDirectory(prefix="opbridge") as folder:
        path, made = str(Path(folder) / "model.onnx"), str(Path(folder) / "model.mnn")
        if isinstance(model, bytes):
            Path(path).write_bytes(model)
        else:
            path = os.path.abspath(model)
        arguments = ["-f", "ONNX", "--modelFile", path, "--MNNModel", made, "--bizCode", "opbridge"]
        log = Path(folder) / "log"
        try:
            # It writes weights to a file of one name in the current folder, which another conversion there overwrites.
            with contextlib.chdir(folder), _printing_to(log):
                _tools.mnnconvert(["mnnconvert", *arguments])
        except Exception as error:  # its binding's errors have no common base class
            raise ModelFileError(f"MNN {version()} cannot convert the model: {error}") from error
        if not os.path.exists(made) or not os.path.getsize(made):
            raise ModelFileError(f"MNN {version()} cannot convert the model: {_said(log)}")
        try:
            return _Module(made, said)
        except Exception as error:
            raise ModelFileError(f"MNN {version()} cannot load the model: {error}") from error


@contextlib.contextmanager
def _printing_to(log: Path) -> Iterator[None]:
    """What the library prints within this context, on both streams, is in a file."""
    kept = [os.dup(stream) for stream in (1, 2)]
    with log.open("wb") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
        try:
            yield
        finally:
            for stream, before in zip((1, 2), kept, strict=True):
                os.dup2(before, stream)
                os.close(before)


def _said(log: Path) -> str:
    """What the converter printed of its failure, without its greeting, times and lines."""
    text = log.read_text("utf-8", errors="replace")
    found = re.search(r"Start to Optimize the MNN Net\.\.\.(.*)", text, re.S)
    words = re.sub(r"\[\d+:\d+:\d+\] \S*:\d+:|Converted Failed!", " ", found[1] if found else text)
    return " ".join(words.split())[:1000] or "its converter gives no reason"


def _to_variable(array: np.ndarray) -> Any:
    from MNN import expr

    held = _HELD.get(array.dtype.name)
    if held is None:
        raise TypeError(f"MNN does not support {array.dtype.name}")
    limits = np.iinfo(held) if held.startswith("int") else None
    if limits is not None and array.dtype.kind in "iu" and array.size:
        if array.min() < limits.min or array.max() > limits.max:
            raise OverflowError("a number is outside of the int32 range, which MNN uses for int64")
    kinds = {"float32": expr.float, "int32": expr.int, "int8": expr.int8, "uint8": expr.uint8}
    variable = expr.placeholder(list(array.shape), expr.NCHW, kinds[held])
    content = np.ascontiguousarray(array.astype(held))
    variable.write(content.tobytes() if held == "int8" else content)  # it has no arrays of int8
    return variable
