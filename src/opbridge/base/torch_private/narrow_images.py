"""What PyTorch's antialiased interpolation gives wrongly on the CPU, computed as it is defined.

Where the result has a width of 1 and another height than the image, each row of it is the first one, unless the image
has its channels last: `interpolate(x, (5, 1), mode="bilinear", antialias=True)`. Checked on torch 2.13.0, 2.14.1
and 2.15.0. A file
has the right rows. The model in float64, by which a difference is judged, has them too.
"""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["as_defined"]

_NAMES = ("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa", "_upsample_lanczos2d_aa")
_OPERATORS = frozenset(getattr(torch.ops.aten, each).default for each in _NAMES if hasattr(torch.ops.aten, each))


def as_defined(function: Any, *args: Any, **kwargs: Any) -> Any:
    """What an operator gives by its definition.

    Args:
        function: The operator.
        *args: Its positional arguments.
        **kwargs: Its keyword arguments.
    """
    if function not in _OPERATORS or not args[0].is_floating_point():
        return function(*args, **kwargs)
    image, (height, width), align_corners = args[:3]
    if width != 1 or height == image.shape[2]:
        return function(*args, **kwargs)
    by_height, by_width = (*args[3:], kwargs.get("scales_h"), kwargs.get("scales_w"))[:2]
    narrow = function(image, [image.shape[2], 1], align_corners, None, by_width)
    doubled = narrow.expand(*narrow.shape[:3], 2).contiguous()
    return function(doubled, [height, 2], align_corners, by_height, None)[..., :1]
