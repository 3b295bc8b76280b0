"""What to do with each operator at each opset in which its form or meaning changed, one file a family."""

from __future__ import annotations

from opbridge.conversion.adapters import (
    axes,
    columns,
    elementwise,
    layers,
    normalization,
    picking,
    quantization,
    recurrent,
    resampling,
    signals,
    sizes,
    softmax,
)

__all__ = [
    "axes",
    "columns",
    "elementwise",
    "layers",
    "normalization",
    "picking",
    "quantization",
    "recurrent",
    "resampling",
    "signals",
    "sizes",
    "softmax",
]
