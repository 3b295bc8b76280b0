"""What runs in a worker process."""

from __future__ import annotations

import os
import warnings

import onnxruntime
import torch

from opbridge.coverage.databases import database
from opbridge.coverage.judging import judge
from opbridge.coverage.tasks import Settings, Task, Verdict

__all__ = ["start", "try_sample"]

_settings = Settings()


def start(settings: Settings) -> None:
    """Readies a worker: one thread, nothing printed, the database loaded."""
    global _settings
    _settings = settings
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    onnxruntime.set_default_logger_severity(4)
    silent = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(silent, stream)
    database(settings.database)


def try_sample(task: Task) -> Verdict | None:
    """See `judging.judge`."""
    return judge(task, _settings)
