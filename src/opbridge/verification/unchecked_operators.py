"""Operators of PyTorch that do not check their inputs, checked where a verification invents these.

torchvision's pooling of regions reads the image that the first column of the regions names, wherever that is, also one
without pixels, and allocates as many samples as the corners say. Such inputs end the process, or give numbers from
elsewhere in memory. Nobody asked for them, so there they raise.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from opbridge.graph.operators import operator_of

if TYPE_CHECKING:
    from opbridge.capture import Capture

__all__ = ["checked"]

_OF_REGIONS = frozenset(
    f"torchvision::{name}" for name in ("roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool")
)  # fmt: skip

_MOST_SAMPLES = 1 << 26


def checked(capture: Capture | None) -> contextlib.AbstractContextManager[Any]:
    """While this is entered, the operators of a model raise an IndexError for inputs that they do not check.

    Args:
        capture: The model; None, or one without such operators: nothing is checked.
    """
    modules = [] if capture is None else [capture.graph.module, *capture.graph.module.modules()]
    nodes = (node for each in modules if isinstance(each, torch.fx.GraphModule) for node in each.graph.nodes)
    has_any = any(node.op == "call_function" and operator_of(node).partition(".")[0] in _OF_REGIONS for node in nodes)
    return _Checked() if has_any else contextlib.nullcontext()


class _Checked(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._schema.name in _OF_REGIONS:
            fault = _fault(*args[:3])
            if fault:
                raise IndexError(f"{func._schema.name} does not check its inputs: {fault}")
        return func(*args, **(kwargs or {}))


def _fault(x: torch.Tensor, regions: torch.Tensor, scale: float) -> str:
    """What is wrong with (B, C, H, W) and (N, 5), which have a scale between them; "": nothing."""
    if not regions.numel():
        return ""
    if not x.numel():
        return "there are regions, but the images have no elements"
    if not bool(regions.isfinite().all()):
        return "a region is not finite"
    images = regions[:, 0]
    if not bool(((images >= 0) & (images < x.shape[0])).all()):
        return f"a region is in an image that the batch of {x.shape[0]} does not have"
    extents = (regions[:, 3:5] - regions[:, 1:3]).double().clamp(min=0) * scale
    return "a region has too many samples" if float(extents.prod(1).max()) > _MOST_SAMPLES else ""
