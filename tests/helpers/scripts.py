"""Runs Python scripts that need torch, each in a process of its own, which does not have to import it."""

from __future__ import annotations

import atexit
import functools
import json
import os
import subprocess
import sys
from pathlib import Path

from helpers import script_server

__all__ = ["run_script"]

SOURCE = Path(__file__).parents[2] / "src"


def run_script(
    script: str | os.PathLike[str], *arguments: object, folder: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs `python SCRIPT ARGUMENTS` in a fork of a process that has torch and opbridge loaded.

    It starts in a fraction of a second. What Python or torch reads when it starts, such as PYTHONPATH, LD_PRELOAD or
    OMP_NUM_THREADS, cannot be set in it, and it must not matter to the script what has been imported.

    Args:
        script: A file.
        *arguments: What it finds in `sys.argv`, as strings.
        folder: The folder to run it in; this process's by default.
        **environment: Variables to set.

    Returns:
        The exit status, negative for a signal, and what was printed.
    """
    request = {
        "script": os.path.abspath(script),
        "arguments": [str(each) for each in arguments],
        "folder": str(folder or Path.cwd()),
        "environment": environment,
    }
    server = _server()
    assert server.stdin is not None and server.stdout is not None
    server.stdin.write(json.dumps(request) + "\n")
    server.stdin.flush()
    answer = server.stdout.readline()
    assert answer, f"the process that runs scripts has ended with status {server.wait()}"
    return subprocess.CompletedProcess([sys.executable, script, *arguments], **json.loads(answer))


@functools.cache
def _server() -> subprocess.Popen[str]:
    """The process that is forked: one for each process of pytest, from the first script on."""
    started = subprocess.Popen(
        [sys.executable, script_server.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(SOURCE), *sys.path])},
    )
    assert started.stdin is not None
    # It ends with its input.
    atexit.register(started.stdin.close)
    return started
