"""A model and example inputs become a graph of operators, each with its source line."""

from __future__ import annotations

from opbridge.capture.capturing import Capture, capture

__all__ = ["Capture", "capture"]
