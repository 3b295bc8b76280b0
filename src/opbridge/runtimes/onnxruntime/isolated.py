"""A session in a process of its own: what ends that process costs the call that did it.

The two processes talk through a socket: a length, a JSON header, and the tensors' bytes. Nothing that the other process
says is unpickled, as a file may have taken it over.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import onnxruntime

from opbridge import errors
from opbridge.errors import ModelFileError, OpbridgeError, RunError, UsageError
from opbridge.runtimes.onnxruntime import kernel_libraries
from opbridge.runtimes.onnxruntime.model_file import checked_model, required_kernels

__all__ = [
    "IsolatedSession",
    "Limits",
    "ModelMetadata",
    "NodeArgument",
    "isolated_session",
    "receive",
    "send",
    "tensor_from",
    "tensor_to",
]

_START_SECONDS = 120.0
_MOST_HEADER = 64 << 20
_LENGTHS = 16


@dataclass(frozen=True)
class Limits:
    """What a session in a process of its own may use.

    Attributes:
        seconds: The longest that a run may take; and loading the model, beside two minutes in which the process
            starts.
        gigabytes: The memory that runs may take, beside what the loaded model has; and loading it, beside three times
            the size of the model and of what is in its folder, other models left out.
    """

    seconds: float = 600.0
    gigabytes: float = 8.0

    def __post_init__(self) -> None:
        if not (self.seconds > 0 and self.gigabytes > 0):
            raise UsageError(f"{self} allows nothing; give numbers above 0.")


@dataclass(frozen=True)
class NodeArgument:
    """An input or output of a model, as onnxruntime.NodeArg says it.

    Attributes:
        name: Its name.
        type: "tensor(float)".
        shape: Its sizes: numbers, names, or None.
    """

    name: str
    type: str
    shape: list[Any]


@dataclass(frozen=True)
class ModelMetadata:
    """What a file says of itself, as onnxruntime.ModelMetadata does.

    Attributes:
        producer_name: The exporter's name.
        graph_name: The graph's name.
        domain: The model's domain.
        description: Of the model.
        graph_description: Of the graph.
        version: The model's version.
        custom_metadata_map: Its metadata.
    """

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict[str, str]


class IsolatedSession:
    """A model loaded in a process of its own, with the methods of an onnxruntime.InferenceSession that run it.

    A run that ends the process raises a RunError; the next one starts another process. Threads may share a session:
    their runs take turns. In a process that was forked after the session was made, the first run starts another one.

    Args:
        model: The file, or its content.
        arguments: What the session there is loaded with: JSON's values.
        limits: What it may use.
        libraries: Those that PyTorch loads there.

    Raises:
        OpbridgeError: What loading the model raised there.
    """

    def __init__(
        self, model: str | bytes, arguments: Mapping[str, Any], limits: Limits, libraries: Sequence[str] = ()
    ) -> None:
        self._model = model
        self._libraries = list(libraries)
        self._arguments = dict(arguments)
        self._limits = limits
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._started_by = 0
        self._one_run = threading.Lock()
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
        """Runs the model on NumPy arrays; see `opbridge.runtimes.Session`.

        Raises:
            RunError: The model cannot be run on these, the run ended the process, or it was over the limits.
        """
        values = {name: _as_value(each) for name, each in feeds.items()}
        return [each.numpy() for each in self.run_with_ort_values(output_names, values)]

    def run_with_ort_values(
        self, output_names: Sequence[str] | None, feeds: Mapping[str, Any], run_options: None = None
    ) -> list[Any]:
        """Runs the model on OrtValues, and returns OrtValues.

        Raises:
            RunError: As `run`.
        """
        if run_options is not None:
            raise UsageError("A session with isolated= takes no run options. Leave them out.")
        if self._started_by != os.getpid():
            # A forked process and the one that it came from would read each other's answers. A thread that was not
            # forked may hold the lock.
            self._one_run = threading.Lock()
            self.close()
        header: dict[str, Any] = {"outputs": None if output_names is None else list(output_names), "feeds": []}
        blocks = []
        for name, value in feeds.items():
            described, block = tensor_to(value)
            header["feeds"].append({"name": name, **described})
            blocks.append(block)
        with self._one_run:
            if self._socket is None:
                self._start()
            answer, read = self._asked(header, blocks, self._limits.seconds)
            return [tensor_from(each, read) for each in answer["outputs"]]

    def close(self) -> None:
        """Ends the process. A later run starts another one.

        In a process that was forked after the session was made, it only leaves that of the session.
        """
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            if self._started_by == os.getpid():
                self._process.kill()
                self._process.wait()
            else:
                # It is no child of this process. To wait for it could wait for a lock of a thread that was not forked.
                self._process.returncode = 0
            self._process = None

    def __enter__(self) -> IsolatedSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # at the interpreter's end, anything may be gone
            self.close()

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        code = "from opbridge.runtimes.onnxruntime.isolated_worker import main; main()"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(each or os.getcwd() for each in sys.path)}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", code, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=environment,
                stdin=subprocess.DEVNULL,
            )
        self._started_by = os.getpid()
        self._socket = ours
        blocks = [self._model] if isinstance(self._model, bytes) else []
        header = {
            "model": None if isinstance(self._model, bytes) else os.path.abspath(self._model),
            "size": len(self._model) if isinstance(self._model, bytes) else 0,
            "arguments": self._arguments,
            "limits": asdict(self._limits),
            "libraries": self._libraries,
        }
        answer, _ = self._asked(header, blocks, self._limits.seconds, start=_START_SECONDS)
        self._inputs = [NodeArgument(*each) for each in answer["inputs"]]
        self._outputs = [NodeArgument(*each) for each in answer["outputs"]]
        self._providers = [str(each) for each in answer["providers"]]
        self._metadata = ModelMetadata(**answer["metadata"])

    def _asked(
        self, header: Mapping[str, Any], blocks: Sequence[Any], seconds: float, *, start: float = 0.0
    ) -> tuple[dict[str, Any], Any]:
        """Sends a request, and returns the answer with a function that reads what follows it.

        Args:
            header: The request.
            blocks: The bytes that it tells of.
            seconds: What the model may take to answer.
            start: What the process may take before that.
        """
        assert self._socket is not None
        connection = self._socket
        connection.settimeout(start + seconds)
        deadline = time.monotonic() + start + seconds

        def read(size: int) -> bytearray:
            return _received(connection, size, deadline)

        try:
            send(connection, header, blocks)
            answer = receive(read)
        except TimeoutError:
            self.close()
            raise RunError(
                f"The model took longer than the {seconds:g} s that it may take; the process that ran it was ended. "
                "Give it more (isolated=opbridge.Limits(seconds=...)), or other inputs."
            ) from None
        except (OSError, ValueError):
            raise RunError(self._end("Loading the model" if start else "The run")) from None
        if "error" in answer:
            raise _error_of(answer)
        return answer, read

    def _end(self, doing: str) -> str:
        """Why the process is not there any more."""
        process = self._process
        self._process = None
        self.close()
        if process is None:
            return "The process that runs the model is gone."
        try:
            status = process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
        name = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        return (
            f"{doing} ended the process of the model ({name}): an operator read or wrote where it may not, or there "
            "was no memory left. The next run starts another one."
        )


def isolated_session(
    model: str | os.PathLike[str] | bytes,
    isolated: bool | Limits,
    *,
    kernels: Sequence[str | os.PathLike[str]] = (),
    aten: Sequence[str] = (),
    threads: int | None = None,
    providers: Sequence[str] | None = None,
    options: None = None,
    loaded: bool = False,
    optimised: bool = True,
) -> IsolatedSession:
    """Loads a model in a process of its own.

    Args:
        model: The path of an ONNX file, or the content of one.
        isolated: What it may use; True: the limits by default.
        kernels: As for a session in this process.
        aten: As for a session in this process.
        threads: As for a session in this process.
        providers: The names of execution providers.
        options: None: session options belong to this process.
        loaded: As for a session in this process.
        optimised: As for a session in this process.

    Operators that `aten` names are those of the libraries that this process has loaded into PyTorch; what Python code
    has defined here is not there.

    Raises:
        ModelFileError: The file is missing or damaged, or ONNX Runtime refuses it.
        UsageError: An argument has the wrong type, or does not go to another process.
    """
    if options is not None:
        raise UsageError("isolated= and options= do not go together: session options belong to this process.")
    if not isinstance(isolated, (bool, Limits)):
        raise UsageError(f"isolated={isolated!r} is neither True nor opbridge.Limits(...).")
    if providers is not None and not all(isinstance(each, str) for each in providers):
        raise UsageError("With isolated=, providers= takes names only.")
    model, _ = checked_model(model)
    if loaded:
        kernels = [each.path for each in kernel_libraries.select(kernels, required_kernels(model), loaded=True)]
    arguments = {
        "kernels": [
            os.path.abspath(each) for each in ([kernels] if isinstance(kernels, (str, os.PathLike)) else kernels)
        ],
        "aten": [aten] if isinstance(aten, str) else list(aten),
        "optimised": optimised,
        "threads": threads,
        "providers": None if providers is None else list(providers),
    }
    limits = isolated if isinstance(isolated, Limits) else Limits()
    return IsolatedSession(model, arguments, limits, _torch_libraries() if arguments["aten"] else [])


def _torch_libraries() -> list[str]:
    """The libraries with operators that this process has loaded into PyTorch."""
    torch = sys.modules.get("torch")
    return sorted(torch.ops.loaded_libraries) if torch is not None else []


def send(connection: socket.socket, header: Mapping[str, Any], blocks: Sequence[Any] = ()) -> None:
    """Sends a header, and blocks of bytes that it tells of."""
    text = json.dumps(header).encode()
    connection.sendall(f"{len(text):0{_LENGTHS}d}".encode() + text)
    for block in blocks:
        connection.sendall(block)


def receive(read: Any) -> dict[str, Any]:
    """A header, by a function that reads so many bytes.

    Raises:
        ValueError: It is none.
        OSError: The other end is closed.
    """
    size = int(read(_LENGTHS))
    if not 0 < size <= _MOST_HEADER:
        raise ValueError("the header has no length")
    header = json.loads(bytes(read(size)))
    if not isinstance(header, dict):
        raise ValueError("the header is no object")
    return header


def _received(connection: socket.socket, size: int, deadline: float) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        connection.settimeout(max(deadline - time.monotonic(), 1e-3))
        count = connection.recv_into(view)
        if count == 0:
            raise ConnectionResetError("the other end is closed")
        view = view[count:]
    return data


def tensor_to(value: Any) -> tuple[dict[str, Any], memoryview]:
    """An OrtValue as what a header says of it, and its bytes, which are valid as long as it is."""
    if not value.is_tensor() or value.data_type() == "tensor(string)":
        raise UsageError("A session with isolated= takes and returns tensors of numbers only.")
    size = value.tensor_size_in_bytes()
    described = {"type": value.element_type(), "shape": list(value.shape()), "size": size}
    address = value.data_ptr()
    block = (ctypes.c_char * size).from_address(address) if size else b""
    return described, memoryview(block).cast("B")


def tensor_from(described: Mapping[str, Any], read: Any) -> Any:
    """An OrtValue of what `tensor_to` gave, whose bytes come by a function that reads so many.

    Raises:
        ValueError: The bytes are not as many as such a tensor has.
    """
    shape = [int(each) for each in described["shape"]]
    made = onnxruntime.OrtValue.ortvalue_from_shape_and_type(shape, int(described["type"]))
    size = made.tensor_size_in_bytes()
    if size != described["size"]:
        raise ValueError("a tensor has another size than its shape says")
    if size:
        data = read(size)
        ctypes.memmove(made.data_ptr(), (ctypes.c_char * size).from_buffer(data), size)
    return made


def _as_value(array: Any) -> Any:
    return array if isinstance(array, onnxruntime.OrtValue) else onnxruntime.OrtValue.ortvalue_from_numpy(array)


def _error_of(answer: Mapping[str, Any]) -> OpbridgeError:
    """An error that the other process tells of."""
    kinds = {"ModelFileError": ModelFileError, "UsageError": UsageError, "KernelError": errors.KernelError}
    return kinds.get(str(answer["error"]), RunError)(str(answer.get("message", "")))
