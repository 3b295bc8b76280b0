"""A model loaded in a runtime, as all sessions are used: in a process of its own, or in this one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from opbridge.errors import ModelFileError, RunError, UsageError
from opbridge.kernels import aten, library, openvino
from opbridge.runtimes import Loaded, Runtime, known
from opbridge.runtimes.arguments import ModelMetadata, NodeArgument
from opbridge.runtimes.child import Child
from opbridge.runtimes.described import described, type_named
from opbridge.runtimes.limits import Limits
from opbridge.runtimes.onnxruntime.model_file import checked_model
from opbridge.runtimes.tensorrt_rtx.profile import parsed
from opbridge.runtimes.tensors import from_message, to_message

__all__ = ["RuntimeSession", "open_runtime"]


class RuntimeSession:
    """A model that a runtime other than ONNX Runtime has loaded. Threads may share it.

    Runs in a process of its own take turns. In a process that was forked after the session was made, the first run
    starts another one.

    Attributes:
        notes: What the runtime says of how it loaded the model.

    Args:
        runtime: The runtime.
        model: The file, or its content.
        limits: What its process may use; None: it runs in this one.
        kernels: What the runtime's `load` takes beside the model.
        **options: The keywords of the runtime's `load`.

    Raises:
        ModelFileError: The file is damaged, or the runtime refuses it.
        RunError: Loading it ended its process, or took longer than it may.
    """

    def __init__(
        self, runtime: Runtime, model: str | bytes, limits: Limits | None, kernels: Sequence[str] = (), **options: Any
    ) -> None:
        self._runtime, self._model, self._limits, self._kernels = runtime, model, limits, list(kernels)
        self._options = options
        self.notes: list[str] = []
        self._described = described(model)
        self._loaded: Loaded | None = None
        self._child: Child | None = None
        if limits is None:
            self._loaded = runtime.load(model, *kernels, **options)
        else:
            self._child = Child("opbridge.runtimes.worker", limits)
            self._start()

    def get_inputs(self) -> list[NodeArgument]:
        """The model's inputs."""
        return list(self._described.inputs)

    def get_outputs(self) -> list[NodeArgument]:
        """The model's outputs."""
        return list(self._described.outputs)

    def get_modelmeta(self) -> ModelMetadata:
        """What the file says of itself."""
        return self._described.metadata

    def run(self, output_names: Sequence[str] | None, feeds: Mapping[str, Any], /) -> list[Any]:
        """Runs the model on NumPy arrays; see `opbridge.runtimes.Session`.

        Raises:
            UsageError: The arrays are not those of the model's inputs.
            RunError: The runtime raises, the run ended its process, or it was over the limits.
        """
        given = self._checked(feeds)
        names = [each.name for each in self._described.outputs]
        if unknown := set(output_names or ()) - set(names):
            raise UsageError(f"Unknown output '{min(unknown)}'. The outputs of the model are: {', '.join(names)}.")
        values = dict(zip(names, self._values(given), strict=True))
        return [values[name] for name in (names if output_names is None else output_names)]

    def close(self) -> None:
        """Ends the process of the model. A later run starts another one."""
        if self._child is not None:
            self._child.close()

    def __enter__(self) -> RuntimeSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # at the interpreter's end, anything may be gone
            self.close()

    def _checked(self, feeds: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """The inputs as arrays.

        Raises:
            UsageError: They are not those of the model.
        """
        names = [each.name for each in self._described.inputs]
        if set(feeds) != set(names):
            raise UsageError(
                f"The inputs of the model are {', '.join(names) or 'none'}, but {sorted(feeds)} were given. "
                "Give one value for each input."
            )
        found: dict[str, np.ndarray] = {}
        for each in self._described.inputs:
            value = feeds[each.name]
            if not isinstance(value, (np.ndarray, np.generic)):
                raise UsageError(f"The input '{each.name}' is a {type(value).__name__}; expected a NumPy array.")
            wanted = type_named(each.type)
            if wanted != value.dtype.name and wanted != "str":
                raise UsageError(
                    f"The input '{each.name}' has type {wanted or each.type}, but {value.dtype.name} was "
                    "given. Convert the array."
                )
            found[each.name] = np.asarray(value)
        return found

    def _values(self, feeds: Mapping[str, np.ndarray]) -> list[Any]:
        if self._child is None:
            assert self._loaded is not None
            try:
                return list(self._loaded.run(feeds))
            except Exception as error:  # the runtimes' errors have no other common base class
                raise RunError(" ".join(f"{error}".split()) or type(error).__name__) from error
        header: dict[str, Any] = {"feeds": []}
        blocks = []
        for name, value in feeds.items():
            said, block = to_message(value)
            header["feeds"].append({"name": name, **said})
            blocks.append(block)
        with self._child.exclusive():
            if not self._child.runs:
                self._start()
            answer, read = self._child.ask(header, blocks)
            return [from_message(each, read) for each in answer["outputs"]]

    def _start(self) -> None:
        assert self._child is not None and self._limits is not None
        blocks = [self._model] if isinstance(self._model, bytes) else []
        header = {
            "runtime": self._runtime.NAME,
            "model": None if isinstance(self._model, bytes) else os.path.abspath(self._model),
            "size": len(self._model) if isinstance(self._model, bytes) else 0,
            "limits": asdict(self._limits),
            "kernels": self._kernels,
            "options": self._options,
        }
        self.notes = [str(each) for each in self._child.start(header, blocks).get("notes", ())]


def open_runtime(
    name: str,
    model: str | os.PathLike[str] | bytes,
    isolated: bool | Limits = True,
    kernels: Sequence[str | os.PathLike[str]] = (),
    profile: Mapping[str, Any] | None = None,
) -> RuntimeSession:
    """Loads a model in a runtime other than ONNX Runtime.

    Args:
        name: The runtime.
        model: The path of an ONNX file, or the content of one.
        isolated: With which limits it runs. Runtimes other than the reference evaluator always run in a process of
            their own.
        kernels: Libraries with kernels of the model, beside those that this process has loaded and those that come with
            opbridge.
        profile: For TensorRT-RTX, by the names of dynamic dimensions a size, or (min, opt, max).

    Raises:
        ModelFileError: The file is missing or damaged, or the runtime refuses it.
        UsageError: There is no such runtime, or it is not installed, runs no kernels, or takes no profile.
        BuildError: The model has kernels, and what connects them with the runtime cannot be built.
    """
    runtime = known.installed(name)
    if kernels and not runtime.KERNELS:
        raise UsageError(
            f"kernels= is valid only for ONNX Runtime and OpenVINO, not for runtime='{name}'. Leave one of them out."
        )
    kind, device = known.split(name)
    if profile and name not in known.BUILDERS:
        raise UsageError(
            f"profile= (--profile) is valid only for {' and '.join(known.BUILDERS)}, not for runtime='{name}'. Leave "
            "it out."
        )
    checked, label = checked_model(model)
    chosen: dict[str, Any] = {"device": device} if kind in known.ON_DEVICE else {}
    if profile:
        chosen["profile"] = {name: list(each) for name, each in parsed(profile).items()}
    limits = isolated if isinstance(isolated, Limits) else Limits() if isolated or runtime.ISOLATED else None
    connected = _connected(runtime, label, described(checked).operators, kernels)
    try:
        return RuntimeSession(runtime, checked, limits, connected, **chosen)
    except RunError as error:
        raise ModelFileError(f"{known.label(name)} cannot load {label}: {error}") from error


def _connected(
    runtime: Runtime, label: str, operators: Mapping[str, str], kernels: Sequence[str | os.PathLike[str]]
) -> list[str]:
    """What the runtime's `load` takes for the kernels of a model; nothing where it has none.

    Raises:
        ModelFileError: The model has operators that neither the runtime nor a library has.
    """
    foreign = {each: node for each, node in operators.items() if each.rpartition("::")[0] not in runtime.DOMAINS}
    libraries: dict[Path, library.Library] = {}
    if runtime.KERNELS:
        given = [library.open_library(each) for each in kernels]
        if runtime.NAME in known.ON_DEVICE and not all(each.is_ours for each in given):
            return [str(each.path) for each in given]  # which operators the others have, only ONNX Runtime can tell
        for each in list(foreign):
            found = next((one for one in given if each in one.names), None) or library.find(each)
            if found is not None:
                libraries[found.path] = found
                del foreign[each]
    if foreign:
        raise ModelFileError(_lacking(runtime, label, foreign))
    if not libraries:
        return []
    extension = [str(openvino.extension())] if runtime.NAME == "openvino" else []
    return [*extension, *map(str, libraries)]


def _lacking(runtime: Runtime, label: str, foreign: Mapping[str, str]) -> str:
    """What is said of operators that a runtime does not have."""
    shown = list(foreign.items())[:10]
    named = ", ".join(f"{each} (node '{node}')" if node else each for each, node in shown)
    advice = "For other runtimes, export the model with standard operators (allow=['standard', 'function'])."
    name = known.label(runtime.NAME)
    if set(foreign) == {aten.NAME}:
        return (
            f"{label} has aten nodes, which run in PyTorch and are supported only in ONNX Runtime, not in {name}: "
            f"{named}. {advice}"
        )
    others = ", nor has a library that is loaded or named in kernels=" if runtime.KERNELS else ""
    return (
        f"{label} has operators that {name} does not support{others}: {named}. They run in ONNX Runtime and "
        f"OpenVINO with the libraries of their kernels. {advice}"
    )
