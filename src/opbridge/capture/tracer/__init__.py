"""The capture of a module by running it once on tensors without values."""

from opbridge.capture.tracer.rewriting import rewritten
from opbridge.capture.tracer.trace import trace

__all__ = ["rewritten", "trace"]
