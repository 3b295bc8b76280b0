"""A limit on the memory of worker processes, kept from outside of them.

RLIMIT_AS counts address space, of which torch, its threads and ONNX Runtime reserve many times what they use, and what
fails by it fails inside of a model's code, where it looks like any other error. What a process holds is looked at
instead, and one that holds too much is ended.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["MemoryLimit", "own_memory"]

_INTERVAL = 0.05
_OWN = re.compile(rb"^(?:RssAnon|RssShmem):\s+(\d+) kB", re.MULTILINE)


def own_memory(pid: int) -> int:
    """The bytes that a process holds, without pages of files, which the system may take back; 0 if it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_bytes()
    except OSError:
        return 0
    return sum(map(int, _OWN.findall(status))) * 1024


class MemoryLimit:
    """Ends processes that hold more memory than a limit; a context manager.

    Attributes:
        ended: The numbers of the processes that it ended.
    """

    def __init__(self, limit: int | None, pids: Sequence[Sequence[int]]) -> None:
        """Args:
        limit: The bytes that each may hold; None: any number.
        pids: Where each worker tells the number of its process; 0 before that.
        """
        self.ended: set[int] = set()
        self._limit, self._pids = limit, pids
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="opbridge memory limit", daemon=True)

    def __enter__(self) -> MemoryLimit:
        if self._limit is not None:
            self._thread.start()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _watch(self) -> None:
        assert self._limit is not None
        while not self._over.wait(_INTERVAL):
            for (pid,) in self._pids:
                if pid and pid not in self.ended and own_memory(pid) > self._limit:
                    self.ended.add(pid)
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
