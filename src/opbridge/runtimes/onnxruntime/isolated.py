"""A session in a process of its own: what ends that process costs the call that did it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import onnxruntime

from opbridge.errors import UsageError
from opbridge.runtimes.arguments import ModelMetadata, NodeArgument
from opbridge.runtimes.child import Child
from opbridge.runtimes.limits import Limits
from opbridge.runtimes.messages import Read
from opbridge.runtimes.onnxruntime import kernel_libraries
from opbridge.runtimes.onnxruntime.model_file import checked_model, required_kernels
from opbridge.runtimes.onnxruntime.ort_values import array_of, value_of

__all__ = ["IsolatedSession", "isolated_session", "tensor_from", "tensor_to"]


class IsolatedSession:
    """A model loaded in a process of its own, with the methods of an onnxruntime.InferenceSession that run it.

    A run that ends the process raises a RunError; the next one starts another process. Threads may share a session:
    their runs take turns. In a process that was forked after the session was made, the first run starts another one.

    Attributes:
        note: How the session runs the model otherwise than the file says; "": it does not.

    Args:
        model: The file, or its content.
        arguments: What the session there is loaded with: JSON's values.
        limits: What it may use.
        libraries: Those that PyTorch loads there.
        quiet: Whether what the process prints is dropped.

    Raises:
        OpbridgeError: What loading the model raised there.
    """

    def __init__(
        self,
        model: str | bytes,
        arguments: Mapping[str, Any],
        limits: Limits,
        libraries: Sequence[str] = (),
        *,
        quiet: bool = False,
    ) -> None:
        self._model, self._quiet = model, quiet
        self._libraries = list(libraries)
        self._arguments = dict(arguments)
        self._limits = limits
        self._child = Child("opbridge.runtimes.onnxruntime.isolated_worker", limits)
        self._start()

    def get_inputs(self) -> list[NodeArgument]:
        """The model's inputs."""
        return list(self._inputs)

    def get_outputs(self) -> list[NodeArgument]:
        """The model's outputs."""
        return list(self._outputs)

    def get_modelmeta(self) -> ModelMetadata:
        """What the file says of itself."""
        return self._metadata

    def get_providers(self) -> list[str]:
        """The execution providers of the session."""
        return list(self._providers)

    def run(self, output_names: Sequence[str] | None, feeds: Mapping[str, Any], run_options: None = None) -> list[Any]:
        """Runs the model on NumPy arrays, those of bfloat16 of ml_dtypes; see `opbridge.runtimes.Session`.

        Raises:
            RunError: The model cannot be run on these, the run ended the process, or it was over the limits.
            UsageError: ONNX Runtime has no such elements.
        """
        values = {
            name: each if isinstance(each, onnxruntime.OrtValue) else value_of(each) for name, each in feeds.items()
        }
        return [array_of(each) for each in self.run_with_ort_values(output_names, values)]

    def run_with_ort_values(
        self, output_names: Sequence[str] | None, feeds: Mapping[str, Any], run_options: None = None
    ) -> list[Any]:
        """Runs the model on OrtValues, and returns OrtValues.

        Raises:
            RunError: As `run`.
        """
        if run_options is not None:
            raise UsageError("Run options are not supported with isolated=. Leave them out.")
        header: dict[str, Any] = {"outputs": None if output_names is None else list(output_names), "feeds": []}
        blocks = []
        for name, value in feeds.items():
            described, block = tensor_to(value)
            header["feeds"].append({"name": name, **described})
            blocks.append(block)
        with self._child.exclusive():
            if not self._child.runs:
                self._start()
            answer, read = self._child.ask(header, blocks)
            return [tensor_from(each, read) for each in answer["outputs"]]

    def close(self) -> None:
        """Ends the process. A later run starts another one.

        In a process that was forked after the session was made, it only leaves that of the session.
        """
        self._child.close()

    def __enter__(self) -> IsolatedSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # at the interpreter's end, anything may be gone
            self.close()

    def _start(self) -> None:
        blocks = [self._model] if isinstance(self._model, bytes) else []
        header = {
            "model": None if isinstance(self._model, bytes) else os.path.abspath(self._model),
            "size": len(self._model) if isinstance(self._model, bytes) else 0,
            "arguments": self._arguments,
            "limits": asdict(self._limits),
            "libraries": self._libraries,
            "quiet": self._quiet,
        }
        answer = self._child.start(header, blocks)
        self._inputs = [NodeArgument(*each) for each in answer["inputs"]]
        self._outputs = [NodeArgument(*each) for each in answer["outputs"]]
        self._providers = [str(each) for each in answer["providers"]]
        self._metadata = ModelMetadata(**answer["metadata"])
        self.note = str(answer["note"])


def isolated_session(
    model: str | os.PathLike[str] | bytes,
    isolated: bool | Limits,
    *,
    kernels: Sequence[str | os.PathLike[str]] = (),
    aten: Sequence[str] = (),
    threads: int | None = None,
    providers: Sequence[str | tuple[str, dict[str, Any]]] | None = None,
    options: None = None,
    loaded: bool = False,
    optimised: bool | str = True,
    data_folder: str | None = None,
    quiet: bool = False,
) -> IsolatedSession:
    """Loads a model in a process of its own.

    Args:
        model: The path of an ONNX file, or the content of one.
        isolated: What it may use; True: the limits by default.
        kernels: As for a session in this process.
        aten: As for a session in this process.
        threads: As for a session in this process.
        providers: Execution providers, by name or with options that are texts or numbers.
        options: None: session options belong to this process.
        loaded: As for a session in this process.
        optimised: As for a session in this process.
        data_folder: As for a session in this process.
        quiet: Whether what the process prints is dropped, such as the last words of one that aborts.

    Operators that `aten` names are those of the libraries that this process has loaded into PyTorch; what Python code
    has defined here is not there.

    Raises:
        ModelFileError: The file is missing or damaged, or ONNX Runtime refuses it.
        UsageError: An argument has the wrong type, or does not go to another process.
    """
    if options is not None:
        raise UsageError(
            "options= is not supported with isolated=, because session options belong to this process. Leave one "
            "of them out."
        )
    if not isinstance(isolated, (bool, Limits)):
        raise UsageError(f"isolated={isolated!r} is invalid; expected True or opbridge.Limits(...).")
    for each in providers or ():
        if not (isinstance(each, str) or (isinstance(each, tuple) and _is_plain(each[1]))):
            raise UsageError("providers= supports only names, and options that are text or numbers, with isolated=.")
    model, _ = checked_model(model)
    if loaded:
        kernels = [each.path for each in kernel_libraries.select(kernels, required_kernels(model), loaded=True)]
    arguments = {
        "kernels": [
            os.path.abspath(each) for each in ([kernels] if isinstance(kernels, (str, os.PathLike)) else kernels)
        ],
        "aten": [aten] if isinstance(aten, str) else list(aten),
        "optimised": optimised,
        "data_folder": data_folder,
        "threads": threads,
        "providers": None if providers is None else list(providers),
    }
    limits = isolated if isinstance(isolated, Limits) else Limits()
    libraries = _torch_libraries() if arguments["aten"] else []
    return IsolatedSession(model, arguments, limits, libraries, quiet=quiet)


def _is_plain(options: Mapping[str, Any]) -> bool:
    return all(isinstance(each, (str, int, float)) for each in options.values())


def _torch_libraries() -> list[str]:
    """The libraries with operators that this process has loaded into PyTorch."""
    torch = sys.modules.get("torch")
    return sorted(torch.ops.loaded_libraries) if torch is not None else []


def tensor_to(value: Any) -> tuple[dict[str, Any], memoryview]:
    """An OrtValue as what a header says of it, and its bytes, which keep it."""
    if not value.is_tensor() or value.data_type() == "tensor(string)":
        raise UsageError("A session with isolated= supports only numeric tensors.")
    size = value.tensor_size_in_bytes()
    described = {"type": value.element_type(), "shape": list(value.shape()), "size": size}
    if not size:
        return described, memoryview(b"")
    block = (ctypes.c_char * size).from_address(value.data_ptr())
    block.of = value  # the memory is its, or that of an input which it is
    return described, memoryview(block).cast("B")


def tensor_from(described: Mapping[str, Any], read: Read) -> Any:
    """An OrtValue of what `tensor_to` gave, whose bytes come by a function that reads so many.

    Raises:
        ValueError: The bytes are not as many as such a tensor has.
    """
    shape = [int(each) for each in described["shape"]]
    made = onnxruntime.OrtValue.ortvalue_from_shape_and_type(shape, int(described["type"]))
    size = made.tensor_size_in_bytes()
    if size != described["size"]:
        raise ValueError("the size of a tensor does not match its shape")
    if size:
        data = read(size)
        ctypes.memmove(made.data_ptr(), (ctypes.c_char * size).from_buffer(data), size)
    return made
