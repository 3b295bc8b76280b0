"""A process that runs a model for this one: its start, its requests, its end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from opbridge import errors
from opbridge.errors import ModelFileError, OpbridgeError, RunError, UsageError
from opbridge.runtimes.limits import Limits
from opbridge.runtimes.messages import receive, received, send

__all__ = ["Child", "ProcessEnded"]

_START_SECONDS = 120.0


class ProcessEnded(RunError):
    """A run ended the process of the model, or took longer than it may.

    Attributes:
        how: In a few words: "SIGABRT", "exit status 1", "after 600 s".
    """

    def __init__(self, message: str, how: str) -> None:
        super().__init__(message)
        self.how = how


class Child:
    """A process that answers requests; what ends it costs one of them.

    Attributes:
        process: The process; None while there is none.
    """

    def __init__(self, module: str, limits: Limits) -> None:
        """Args:
        module: The module whose `main` runs there, with the number of a socket as its argument.
        limits: What it may use.
        """
        self._module, self._limits = module, limits
        self.process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._started_by = 0
        self._one_request = threading.Lock()

    @property
    def runs(self) -> bool:
        """Whether it was started, and has not ended since as far as is known."""
        return self._socket is not None

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Keeps other threads from asking. Around each request after the start.

        In a process that was forked after the start, it first leaves what the other one started: both would read each
        other's answers.
        """
        if self._started_by != os.getpid():
            self._one_request = threading.Lock()  # a thread that was not forked may hold the other one
            self.close()
            self._started_by = os.getpid()
        with self._one_request:
            yield

    def start(self, header: Mapping[str, Any], blocks: Sequence[Any]) -> dict[str, Any]:
        """Starts it, and returns its answer to the first request, which loads the model.

        Raises:
            OpbridgeError: What loading the model raised there.
        """
        ours, theirs = socket.socketpair()
        code = f"from {self._module} import main; main()"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(each or os.getcwd() for each in sys.path)}
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-c", code, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=environment,
                stdin=subprocess.DEVNULL,
            )
        self._started_by = os.getpid()
        self._socket = ours
        return self._asked(header, blocks, start=_START_SECONDS)[0]

    def ask(self, header: Mapping[str, Any], blocks: Sequence[Any]) -> tuple[dict[str, Any], Any]:
        """Sends a request, and returns the answer with a function that reads what follows it.

        Raises:
            ProcessEnded: It ended, or took longer than it may.
            OpbridgeError: What it raised.
        """
        return self._asked(header, blocks, start=0.0)

    def _asked(self, header: Mapping[str, Any], blocks: Sequence[Any], *, start: float) -> tuple[dict[str, Any], Any]:
        assert self._socket is not None
        connection, seconds = self._socket, self._limits.seconds
        connection.settimeout(start + seconds)
        deadline = time.monotonic() + start + seconds

        @contextmanager
        def told() -> Iterator[None]:
            """Ends the process where it does not answer, and says why."""
            try:
                yield
            except TimeoutError:
                self.close()
                raise ProcessEnded(
                    f"The model exceeded the time limit of {seconds:g} s, and its process was terminated. Raise the "
                    "limit (isolated=opbridge.Limits(seconds=...)), or use other inputs.",
                    f"after {seconds:g} s",
                ) from None
            except (OSError, ValueError):
                raise self._end("Loading the model" if start else "The run") from None

        def read(size: int) -> bytearray:
            with told():
                return received(connection, size, deadline)

        with told():
            send(connection, header, blocks)
            answer = receive(read)
        if "error" in answer:
            if answer.get("ends"):
                self.close()
            raise _error_of(answer)
        return answer, read

    def close(self) -> None:
        """Ends the process. In a process that was forked after it was started, it is only left."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self.process is not None:
            if self._started_by == os.getpid():
                self.process.kill()
                self.process.wait()
            else:
                # It is no child of this process. To wait for it could wait for a lock of a thread that was not forked.
                self.process.returncode = 0
            self.process = None

    def _end(self, doing: str) -> ProcessEnded:
        """Why the process is not there any more."""
        process = self.process
        self.process = None
        self.close()
        if process is None:
            return ProcessEnded("The process that ran the model has terminated.", "gone")
        try:
            status = process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
        name = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        return ProcessEnded(
            f"{doing} crashed the process of the model ({name}): an operator accessed invalid memory, or the "
            "process ran out of memory. The next run starts a new process.",
            name,
        )


def _error_of(answer: Mapping[str, Any]) -> OpbridgeError:
    """An error that the other process tells of."""
    kinds = {"ModelFileError": ModelFileError, "UsageError": UsageError, "KernelError": errors.KernelError}
    return kinds.get(str(answer["error"]), RunError)(str(answer.get("message", "")))
