"""The lock for global state of the process."""

from __future__ import annotations

import threading

__all__ = ["process_state"]

process_state = threading.RLock()
"""Held while onnxscript's evaluator, torch's registry of symbolic functions or the globals of its exporter are changed,
so that exports in several threads do so one after the other."""
