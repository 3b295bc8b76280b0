"""Kernels run on the CPU, by Triton's interpreter, in a process of its own."""

from __future__ import annotations

import atexit
import os
import pickle
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opbridge.errors import KernelError

__all__ = ["Memory", "TensorIn", "count_runs", "interpret"]

_CHILD = Path(__file__).with_name("interpreter_child.py")


@dataclass(frozen=True)
class TensorIn:
    """A tensor in a block of memory.

    Attributes:
        memory: The number of the block.
        dtype: What torch calls its type: "float32".
        sizes: Its sizes.
        strides: Its strides, in elements.
        offset: Where it begins, in elements.
    """

    memory: int
    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0


Memory = Sequence[bytes]

_runs = 0


def count_runs() -> int:
    """How many kernels have run so in this process."""
    return _runs


def interpret(
    source: str, name: str, grid: Sequence[int], memory: Memory, arguments: Mapping[str, TensorIn | int | float | bool]
) -> dict[int, bytes]:
    """Runs a kernel in Triton's interpreter.

    Args:
        source: The kernel's file; see `opbridge.kernels.triton.standalone`.
        name: The kernel's name, for messages.
        grid: The numbers of blocks.
        memory: Blocks of memory.
        arguments: The arguments that are no constants, by name.

    Returns:
        The blocks of memory that the kernel has changed, by number.

    Raises:
        KernelError: The kernel raises an error, or ends the process.
    """
    global _runs
    request = {
        "source": source,
        "grid": [int(each) for each in grid],
        "memory": [bytes(each) for each in memory],
        "arguments": {
            key: {**vars(value)} if isinstance(value, TensorIn) else value for key, value in arguments.items()
        },
    }
    with _lock:
        answer = _process().ask(request, name)
        _runs += 1
    if "error" in answer:
        raise KernelError(f"The Triton kernel {name} fails in Triton's interpreter: {answer['error']}")
    changed: dict[int, bytes] = answer["changed"]
    return changed


_lock = threading.RLock()
_running: _Process | None = None


def _process() -> _Process:
    global _running
    if _running is None or not _running.is_alive():
        _running = _Process()
    return _running


class _Process:
    def __init__(self) -> None:
        self._owner = os.getpid()
        paths = os.pathsep.join(each for each in sys.path if each)
        environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
        self._child = subprocess.Popen(
            [sys.executable, str(_CHILD)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )

    def is_alive(self) -> bool:
        return self._owner == os.getpid() and self._child.poll() is None

    def ask(self, request: Any, name: str) -> Any:
        """What the process answers.

        Raises:
            KernelError: It ended instead.
        """
        data = pickle.dumps(request)
        assert self._child.stdin is not None and self._child.stdout is not None
        try:
            self._child.stdin.write(struct.pack("<q", len(data)) + data)
            self._child.stdin.flush()
            head = self._child.stdout.read(8)
            if len(head) == 8:
                return pickle.loads(self._child.stdout.read(struct.unpack("<q", head)[0]))
        except BrokenPipeError:
            pass
        ended = self._child.wait()
        raise KernelError(
            f"The Triton kernel {name} ended the process of Triton's interpreter (status {ended}), most likely by "
            "reading or writing outside of a tensor. Check its masks and its grid."
        )

    def end(self) -> None:
        if self._owner == os.getpid() and self._child.poll() is None:
            self._child.kill()
            self._child.wait()


@atexit.register
def _end() -> None:
    if _running is not None:
        _running.end()
