"""The capture of a module by running it once on tensors without values."""

from opbridge.capture.tracer.trace import trace

__all__ = ["trace"]
