"""What opbridge knows of einx, as the entry point says."""

from __future__ import annotations

from opbridge.model_support.einx import symbolic_sizes
from opbridge.model_support.entries import CaptureContext, ModelSupport

__all__ = ["SUPPORT"]

SUPPORT = ModelSupport(
    package="einx",
    entries=(
        CaptureContext(
            targets=(
                "einx._src.frontend.api:_split_tensors",
                "einx._src.frontend.backend:Backend.__init__",
                "einx._src.frontend.backend:BackendRegistry.get",
                "einx._src.tracer.compiler.python:compile",
            ),
            sources=("803594d7268c2bfd", "2f8bc6214728a5b6", "0d469ef5f23e6da5", "b41b5566d0e236eb"),
            context=lambda model: symbolic_sizes.keeping_sizes(),
            sizes_in_python=True,
        ),
    ),
)
