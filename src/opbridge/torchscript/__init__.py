"""The other capture method: torch's TorchScript exporter traces models that cannot be captured.

In: a model, example inputs, the registry of translations, the target.
Out: a CapturedModel, by either method; of a trace, its plan and its ONNX model too.
May import: capture, plan, translate, fit, and what these build on; not save, verification.

| module | |
| --- | --- |
| capture_methods | the values of `capture=`: export, torch.export, trace, auto |
| tracer | `capture="trace"`: the steps below, in order |
| interface | the names and dynamic dimensions of the model's inputs and outputs |
| recording | the symbolic function for each operator, and the outcome of each call |
| frozen | the values that the trace made constants |
| converting | the conversion of the exporter's graph to an ONNX model |
"""

from __future__ import annotations

from opbridge.torchscript.tracer import Traced, trace

__all__ = ["Traced", "trace"]
