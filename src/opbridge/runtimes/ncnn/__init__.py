"""ncnn on the CPU: its converter, pnnx, makes files of its own of the ONNX model, for inputs of one shape.

A model whose inputs have dynamic dimensions is converted when it runs, once for each set of shapes. The converter is
a program; it is called by itself, as importing the package `pnnx` imports torch.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx.external_data_helper import ExternalDataInfo, uses_external_data

from opbridge.errors import ModelFileError
from opbridge.runtimes.described import Described, described, type_named
from opbridge.runtimes.ending import die_with_parent
from opbridge.runtimes.tensors import dtype_named

__all__ = ["DOMAINS", "INSTALL", "ISOLATED", "KERNELS", "NAME", "TITLE", "load", "version"]

NAME = "ncnn"
TITLE = "ncnn"
INSTALL = "pip install 'opbridge[ncnn]'"
ISOLATED = True
KERNELS = False
DOMAINS: Sequence[str] = ()
"""Domains of which it has operators."""

# The types of inputs that pnnx reads and ncnn has numbers for, each with pnnx's word and what ncnn holds it in.
_HELD = {
    "float32": ("f32", "float32"),
    "float64": ("f64", "float32"),
    "float16": ("f16", "float32"),
    "int32": ("i32", "int32"),
    "int64": ("i64", "int32"),
}
_WHOLE = ("int32", "int64", "bool", "int8", "uint8", "int16", "uint16")
_MOST_RANKS = 4
_KEPT = 8
"""So many conversions of a model are kept."""

_NO_BATCH = 233
"""What ncnn calls no axis at all, where it asks for the axis of the batch."""

_AXES = re.compile(r'ex\.input\("in(\d+)", [^\n]*batch_index=(\d+)|out(\d+)\.numpy\([^\n]*batch_index=(\d+)')
_SAID = re.compile(r"^(?:todo|.*not (?:supported|exists|implemented)|.*[Ee]rror).*$", re.M)


def version() -> str:
    """The date that its release is called by; "" without its converter."""
    try:
        importlib.metadata.version("pnnx")
        return importlib.metadata.version("ncnn").rpartition(".")[2]
    except importlib.metadata.PackageNotFoundError:
        return ""


class _Converted:
    """A model as ncnn has loaded it, for inputs of one shape."""

    def __init__(self, folder: Path, said: Described, log: str) -> None:
        import ncnn

        axes: dict[str, dict[int, int]] = {"in": {}, "out": {}}
        for read, read_axis, made, made_axis in _AXES.findall((folder / "ncnn.py").read_text("utf-8")):
            axes["in" if read else "out"][int(read or made)] = int(read_axis or made_axis)
        self._in, self._out = axes["in"], axes["out"]
        self._types = [type_named(each.type) for each in said.outputs]
        self._net = ncnn.Net()
        option = self._net.opt
        option.num_threads = 1
        option.use_fp16_packed = option.use_fp16_storage = option.use_fp16_arithmetic = False
        option.use_bf16_packed = option.use_bf16_storage = False
        if self._net.load_param(str(folder / "ncnn.param")) or self._net.load_model(str(folder / "ncnn.bin")):
            raise ModelFileError(f"ncnn {version()} cannot load the model converted by pnnx{_lacking(folder, log)}")

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs.

        Raises:
            RuntimeError: A layer gives nothing.
        """
        import ncnn

        results = []
        with self._net.create_extractor() as extractor:
            for at, array in enumerate(arrays):
                mat = ncnn.Mat(array, batch_index=self._in.get(at, _NO_BATCH)).clone()
                if at in self._in and extractor.input(f"in{at}", mat):
                    raise RuntimeError(f"ncnn does not accept input {at}")
            for at, wanted in enumerate(self._types):
                failed, mat = extractor.extract(f"out{at}")
                if failed:
                    raise RuntimeError(f"ncnn does not compute output {at}")
                format_ = "i" if wanted in _WHOLE else "f"
                found = np.array(mat.numpy(format_, batch_index=self._out.get(at, _NO_BATCH)))
                results.append(found.astype(dtype_named(wanted)))
        return results


class _Module:
    """A model, converted for each set of shapes that it has run with."""

    def __init__(self, model: str | bytes, said: Described) -> None:
        self._model, self._said = model, said
        self._made: dict[tuple[tuple[int, ...], ...], _Converted] = {}

    def run(self, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        arrays = [_held(each.name, feeds[each.name]) for each in self._said.inputs]
        shapes = tuple(each.shape for each in arrays)
        return self.converted(shapes).run(arrays)

    def converted(self, shapes: tuple[tuple[int, ...], ...]) -> _Converted:
        """The model for inputs of some shapes.

        Raises:
            ModelFileError: pnnx does not convert it, or ncnn does not load what it made.
        """
        if shapes not in self._made:
            while len(self._made) >= _KEPT:
                del self._made[next(iter(self._made))]
            self._made[shapes] = _convert(self._model, self._said, shapes)
        return self._made[shapes]


def load(model: str | bytes) -> _Module:
    """Loads a model; see `opbridge.runtimes.Runtime`."""
    said = described(model)
    for each in said.inputs:
        if type_named(each.type) not in _HELD:
            raise ModelFileError(f"ncnn {version()} does not support the type of the input '{each.name}', {each.type}.")
        _check_rank(each.name, len(each.shape))
    for each in said.outputs:
        if type_named(each.type) not in (*_HELD, *_WHOLE):
            raise ModelFileError(
                f"ncnn {version()} does not support the type of the output '{each.name}', {each.type}."
            )
    module = _Module(model, said)
    shapes = tuple(tuple(each.shape) for each in said.inputs)
    if all(isinstance(size, int) and size > 0 for shape in shapes for size in shape):
        module.converted(shapes)
    return module


def _check_rank(name: str, rank: int) -> None:
    if not 0 < rank <= _MOST_RANKS:
        raise ModelFileError(
            f"ncnn {version()} does not support inputs of rank {rank}, such as '{name}'; it supports 1 to "
            f"{_MOST_RANKS}."
        )


def _held(name: str, array: np.ndarray) -> np.ndarray:
    """An input in the type that ncnn computes in.

    Raises:
        OverflowError: A number does not fit.
        ValueError: It has no elements.
    """
    if not array.size:
        raise ValueError(f"ncnn does not support empty tensors, such as '{name}'")
    held = _HELD[array.dtype.name][1]
    if held == "int32" and (array.min() < -(2**31) or array.max() >= 2**31):
        raise OverflowError(f"a number of '{name}' is outside of the int32 range, which ncnn uses for int64")
    return np.ascontiguousarray(array.astype(held))


def _convert(model: str | bytes, said: Described, shapes: Iterable[tuple[int, ...]]) -> _Converted:
    with tempfile.TemporaryDirectory(prefix="opbridge") as name:
        folder = Path(name)
        path = _placed(model, folder)
        kinds = [("ncnn", each) for each in ("param", "bin", "py")] + [
            ("pnnx", each) for each in ("param", "bin", "py", "onnx")
        ]
        made = {f"{program}{kind}": folder / f"{program}.{kind}" for program, kind in kinds}
        words = [
            f"[{','.join(map(str, shape))}]{_HELD[type_named(each.type)][0]}"
            for shape, each in zip(shapes, said.inputs, strict=True)
        ]
        options = ["fp16=0", *(f"{key}={value}" for key, value in made.items())]
        if words:
            options.append(f"inputshape={','.join(words)}")
        done = subprocess.run(
            [_program(), str(path), *options],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            preexec_fn=die_with_parent,
        )
        log = done.stdout + done.stderr
        if done.returncode or not made["ncnnparam"].exists() or not made["ncnnbin"].exists():
            ended = f"exit status {done.returncode}" if done.returncode else "it wrote no files"
            raise ModelFileError(f"pnnx {_pnnx()} cannot convert the model: {_said(log) or ended}")
        return _Converted(folder, said, log)


def _program() -> str:
    """pnnx, as its package has it."""
    suffix = ".exe" if sys.platform == "win32" else ""
    return str(Path(str(importlib.metadata.distribution("pnnx").locate_file("pnnx"))) / f"pnnx{suffix}")


def _pnnx() -> str:
    return importlib.metadata.version("pnnx")


def _placed(model: str | bytes, folder: Path) -> Path:
    """A file with the model in a folder, as pnnx writes beside what it reads; weights in other files are linked."""
    path = folder / "model.onnx"
    if isinstance(model, bytes):
        path.write_bytes(model)
        return path
    source = Path(model).resolve()
    path.symlink_to(source)
    for tensor in onnx.load(os.fspath(source), load_external_data=False).graph.initializer:
        if uses_external_data(tensor):
            location = ExternalDataInfo(tensor).location
            link = folder / location
            if not link.exists():
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(source.parent / location)
    return path


def _lacking(folder: Path, log: str) -> str:
    """The layers that ncnn lacks of what pnnx left as they are, by the words that both have."""
    words = [each.removeprefix("todo ") for each in re.findall(r"^todo \S+", log, re.M)]
    foreign = re.findall(
        r"^((?:torch|aten|nn|F|pnnx|Tensor)\.?\S*)\s", (folder / "ncnn.param").read_text("utf-8"), re.M
    )
    found = list(dict.fromkeys([*words, *foreign]))
    return f": unsupported layers: {', '.join(found[:10])}" if found else ""


def _said(log: str) -> str:
    return " ".join(" ".join(each.split()) for each in _SAID.findall(log))[:1000]
