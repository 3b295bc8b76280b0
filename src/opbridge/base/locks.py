"""The lock for what is one for the whole process."""

from __future__ import annotations

import threading

__all__ = ["process_state"]

process_state = threading.RLock()
"""Held while onnxscript's evaluator, torch's registry of symbolic functions or its exporter's globals are others than
they were: exports in several threads take turns in these stretches."""
