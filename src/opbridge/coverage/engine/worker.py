"""What runs in a worker process."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
import warnings
from collections.abc import MutableSequence
from pathlib import Path
from typing import Any

import onnxruntime
import torch

from opbridge.coverage.engine.work import Verdict, Work

__all__ = ["attempt", "start"]

_work: Work | None = None
_INTERVAL = 1.0


def start(work: Work, pid: MutableSequence[int], folder: Path, sweep: int) -> None:
    """Readies a worker: one thread, nothing printed, and what the work itself needs.

    Args:
        work: What is to be done.
        pid: Where the worker tells the number of its process.
        folder: Where it keeps temporary files; what a worker in its place left there is removed.
        sweep: The number of the process that gives out the tasks; the worker ends with it.
    """
    global _work
    _work = work
    pid[0] = os.getpid()
    threading.Thread(target=_end_with, args=(sweep,), name="opbridge end of sweep", daemon=True).start()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    tempfile.tempdir = str(folder)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    onnxruntime.set_default_logger_severity(4)
    silent = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(silent, stream)
    work.start()


def _end_with(sweep: int) -> None:
    """Ends this process where the sweep's has ended.

    A sweep that is killed cannot end its workers, and the fork server, which is their parent, does not.
    """
    while True:
        time.sleep(_INTERVAL)
        try:
            os.kill(sweep, 0)
        except ProcessLookupError:
            os._exit(1)


def attempt(task: Any) -> Verdict | None:
    """Tries a task."""
    assert _work is not None
    return _work.attempt(task)
