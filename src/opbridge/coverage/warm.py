"""What the fork server does once, so that every worker that it forks starts with it done: imports, and a first export.

It starts no thread, which a forked process would not have. What fails here fails again in a worker, which says so.
"""

from __future__ import annotations

import contextlib

import torch

from opbridge.coverage.calling import as_model
from opbridge.coverage.databases import database
from opbridge.coverage.engine import worker
from opbridge.coverage.engine.quiet import quietly
from opbridge.coverage.entries import Sample
from opbridge.coverage.exporting import export
from opbridge.coverage.judging import judge

__all__ = ["judge", "worker"]


def _warm() -> None:
    with quietly(), contextlib.suppress(Exception):
        torch.set_num_threads(1)
        database("torch")
        export("opbridge", *as_model(torch.add, Sample((torch.ones(2), torch.ones(2)))), None, ("standard",))


_warm()
