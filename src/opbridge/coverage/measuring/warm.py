"""What the fork server does once: the node tests, whose making takes longer than their running."""

from __future__ import annotations

import contextlib

from opbridge.coverage.engine import worker
from opbridge.coverage.engine.quiet import quietly
from opbridge.coverage.measuring import cases

__all__ = ["worker"]

with quietly(), contextlib.suppress(Exception):
    cases.names()
