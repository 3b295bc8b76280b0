"""A Node process with onnxruntime-web: it keeps the package loaded, and the model that was loaded last."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from opbridge.errors import RunError, UsageError
from opbridge.runtimes.ending import die_with_parent
from opbridge.runtimes.messages import Read, framed, receive
from opbridge.runtimes.web import package
from opbridge.runtimes.web.models import Models, external_files, refuse

__all__ = ["Node", "shared"]

_RUNNER = Path(__file__).with_name("runner.mjs")


class Node(Models):
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

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def load(self, model: str | bytes) -> int:
        if isinstance(model, bytes):
            self._asked({"model": None, "size": len(model), "external": []}, [model])
        else:
            self._asked({"model": os.path.abspath(model), "size": 0, "external": external_files(model)}, [])
        self._loads += 1
        return self._loads

    def close(self) -> None:
        """Ends it."""
        self._process.kill()
        self._process.wait()

    def _asked(self, header: Mapping[str, Any], blocks: Sequence[Any]) -> tuple[dict[str, Any], Read]:
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
            raise RunError(f"Node exited with status {status}: it ran out of memory, or crashed.") from None
        refuse(answer)
        return answer, self._read

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
