"""What is asked of an export, and of a verification: made once, checked, and read by the stages.

In: what the caller gave, by the names that `opbridge.export` and torch.onnx.export have for it.
Out: an ExportRequest, frozen, with a group for each stage: a stage takes its own group alone.
May import: the tasks, and what the first stages read: targets, names, routes, the capture's config.

| module | |
| --- | --- |
| building | `export_request`: the arguments of `opbridge.export` become the request, or an error |
| data | the ExportRequest and its groups |
| verification_config | how a verification is made, for `opbridge.verify` too |
| output_config | what is written, and where |
| traceable | what `capture="trace"` supports |
| legacy_keywords | keywords and inputs of torch.onnx.export that opbridge has in another form |
| export_types | the modes of torch.onnx.export, as routes |
"""

from __future__ import annotations

from opbridge.request.building import export_request
from opbridge.request.data import BuildConfig, ExportRequest, Listeners
from opbridge.request.output_config import OutputConfig
from opbridge.request.verification_config import VerificationConfig

__all__ = ["BuildConfig", "ExportRequest", "Listeners", "OutputConfig", "VerificationConfig", "export_request"]
