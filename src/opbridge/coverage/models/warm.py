"""What the fork server does once, so that every worker that it forks starts with it done.

That is the imports, those of the families' packages with them, a first export, and the lists of the families' models.
It starts no thread, which a forked process would not have. What fails here fails again in a worker, which says so.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import warnings

import torch

from opbridge.coverage.engine import worker
from opbridge.coverage.models import trying
from opbridge.coverage.models.catalogue import entries_of, modules_of
from opbridge.coverage.models.work import FAMILIES
from opbridge.pipeline import export

__all__ = ["trying", "worker"]


def _warm() -> None:
    with warnings.catch_warnings(), contextlib.suppress(Exception):
        warnings.simplefilter("ignore")
        torch.set_num_threads(1)
        export(torch.nn.Linear(2, 2).eval(), (torch.ones(2, 2),), verify=False)
    for family in os.environ.get(FAMILIES, "").split():
        with warnings.catch_warnings(), contextlib.suppress(Exception):
            warnings.simplefilter("ignore")
            entries_of(family)
            for module in modules_of(family):
                importlib.import_module(module)


_warm()
