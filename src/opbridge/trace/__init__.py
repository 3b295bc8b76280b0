"""Models that torch.export cannot capture: torch's TorchScript exporter underneath, the same program on top.

interface.py    what the model's inputs and outputs are called, and which dimensions may vary
recording.py    which symbolic function each operator gets, and what came of it
frozen.py       the values that the trace froze
converting.py   the exporter's graph becomes an ONNX model
tracer.py       all of it, in order
"""

from __future__ import annotations

from opbridge.trace.tracer import Traced, trace

__all__ = ["Traced", "trace"]
