"""What operators of aten's do to the numbers of a quantised tensor, its scale and its zero point, by their names."""

from __future__ import annotations

import torch

__all__ = ["FIXED", "KEEPING_SCALE", "MOVING"]

MOVING = frozenset(
    {
        "_unsafe_view",
        "alias",
        "channel_shuffle",
        "chunk",
        "clone",
        "contiguous",
        "detach",
        "expand",
        "flatten",
        "flip",
        "index_select",
        "lift_fresh",
        "movedim",
        "narrow",
        "permute",
        "pixel_shuffle",
        "pixel_unshuffle",
        "reflection_pad1d",
        "reflection_pad2d",
        "repeat",
        "replication_pad2d",
        "reshape",
        "select",
        "slice",
        "split",
        "split_with_sizes",
        "squeeze",
        "t",
        "transpose",
        "unbind",
        "unflatten",
        "unfold",
        "unsqueeze",
        "view",
        "view_as",
    }
)
"""Those that move elements: they move the integers."""

KEEPING_SCALE = frozenset(
    {
        "_adaptive_avg_pool2d",
        "adaptive_avg_pool2d",
        "adaptive_avg_pool3d",
        "avg_pool2d",
        "avg_pool3d",
        "clamp",
        "hardtanh",
        "leaky_relu",
        "max_pool1d",
        "max_pool2d",
        "max_pool3d",
        "mean",
        "relu",
        "relu6",
        "upsample_bilinear2d",
        "upsample_nearest1d",
        "upsample_nearest2d",
        "upsample_nearest3d",
    }
)
"""Those whose result has the scale and the zero point of their input."""

FIXED = {
    "sigmoid": (1 / 256, {torch.quint8: 0, torch.qint8: -128}),
    "hardsigmoid": (1 / 256, {torch.quint8: 0, torch.qint8: -128}),
    "tanh": (2 / 256, {torch.quint8: 128, torch.qint8: 0}),
}
"""Those whose results lie in a known range: their scale, and their zero point by the kind."""
