"""What a trace supports, `capture="trace"`: what it does not is refused before the model runs."""

from __future__ import annotations

from torch.export import ExportedProgram

from opbridge.base.torch_private import torch_dynamic_shapes, torchscript_export
from opbridge.capture.resolved_call import ResolvedCall
from opbridge.errors import UsageError

__all__ = ["refuse_untraceable"]


def refuse_untraceable(call: ResolvedCall, opset_version: int | None) -> None:
    """Refuses what PyTorch's TorchScript exporter does not trace.

    Args:
        call: The model and its example inputs.
        opset_version: The opset that the user gave; None: one that the exporter supports is taken.

    Raises:
        UsageError: An opset that the exporter does not build for, an ExportedProgram, or a ShapesSpec.
    """
    newest = torchscript_export.newest_opset()
    if opset_version is not None and opset_version > newest:
        raise UsageError(
            f"opset_version={opset_version} is not supported by capture='trace': PyTorch's TorchScript exporter, which "
            f"does the tracing, supports opset {newest} at most. Leave opset_version out, or use {newest}."
        )
    if isinstance(call.module, ExportedProgram):
        raise UsageError("capture='trace' is not supported for an ExportedProgram. Pass the model itself.")
    if torch_dynamic_shapes.is_shapes_spec(call.shapes.given):
        raise UsageError(
            "ShapesSpec is not supported by capture='trace'. Give dynamic_shapes as a dict by input name, or 'auto'."
        )
