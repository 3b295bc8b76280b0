"""Runs Python scripts in forks of a process that has imported torch and opbridge and has exported something.

A line of standard input asks for one: a JSON object with `script`, `arguments`, `folder` and `environment`. A line of
standard output is the answer: `returncode`, `stdout` and `stderr`. `helpers.scripts` is what tests call.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
import tempfile
import traceback
from typing import IO, Any

__all__: list[str] = []

SECONDS = 300
"""How long a script may take; it is ended by SIGALRM then."""


def main() -> None:
    # What is printed here by chance is no answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    _warm_up()
    for line in sys.stdin:
        print(json.dumps(_run_in_fork(json.loads(line))), file=answers, flush=True)


def _warm_up() -> None:
    """Imports what every export imports; it takes seconds, and a fork has it at once."""
    import onnxruntime  # noqa: F401
    import torch

    import opbridge

    opbridge.export(torch.relu, (torch.ones(1),), verify=False)


def _run_in_fork(request: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as complained:
        child = os.fork()
        if child == 0:
            _become(request, said, complained)
        _, status = os.waitpid(child, 0)
        said.seek(0)
        complained.seek(0)
        code = os.waitstatus_to_exitcode(status)
        return {"returncode": code, "stdout": said.read(), "stderr": complained.read()}


def _become(request: dict[str, Any], said: IO[str], complained: IO[str]) -> None:
    """Runs the script as `python SCRIPT ARGUMENTS` does, and ends the process."""
    code = 1
    signal.alarm(SECONDS)
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(said.fileno(), 1)
        os.dup2(complained.fileno(), 2)
        os.environ.update(request["environment"])
        os.chdir(request["folder"])
        sys.argv = [request["script"], *request["arguments"]]
        sys.path[0] = os.path.dirname(request["script"])
        runpy.run_path(request["script"], run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
