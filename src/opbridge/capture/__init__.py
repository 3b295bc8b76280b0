"""The first stage: a model and example inputs become a graph of operators, each with its source line.

In: a module, function or ExportedProgram, and its example inputs.
Out: a Capture, functional.
May import: symbolics, and what it stands on; no later stage.
"""

from __future__ import annotations

from opbridge.capture.data import Capture
from opbridge.capture.torch_export import capture

__all__ = ["Capture", "capture"]
