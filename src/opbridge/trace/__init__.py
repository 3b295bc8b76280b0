"""The other way to capture: torch's TorchScript exporter traces models that torch.export cannot capture.

In: a model, example inputs, the registry of translations, the target.
Out: a CapturedModel, by either strategy; of a trace, its plan and its ONNX model too.
May import: capture, plan, translate, fit, and what these build on; not save, verification.

| module | |
| --- | --- |
| strategies | the strategies of `capture=`: export, trace, auto |
| tracer | `capture="trace"`: the steps below, in order |
| interface | the names and dynamic dimensions of the model's inputs and outputs |
| recording | the symbolic function for each operator, and the outcome of each call |
| frozen | the values that the trace made constants |
| converting | the conversion of the exporter's graph to an ONNX model |
"""

from __future__ import annotations

from opbridge.trace.tracer import Traced, trace

__all__ = ["Traced", "trace"]
