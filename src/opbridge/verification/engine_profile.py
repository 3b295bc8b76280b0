"""The sizes that an engine is built for, as far as the capture of the model knows them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from torch.utils import _pytree as pytree

from opbridge.runtimes.described import described
from opbridge.runtimes.tensorrt_rtx.profile import DEFAULT
from opbridge.verification.dynamic_sizes import from_capture

if TYPE_CHECKING:
    from opbridge.capture import Capture

__all__ = ["profile_of"]

_LARGEST = 1 << 16
"""A larger bound is none that the user stated."""


def profile_of(capture: Capture, model: str | bytes) -> dict[str, tuple[int, int, int]]:
    """For each dynamic dimension of a file, the least size, that of the example, and the most.

    1. The bounds are those that the dynamic shapes state (`Dim("batch", min=1, max=32)`).
    2. Without an upper bound it is the larger of the size of the example and that of `DEFAULT`.
    3. Symbols that no dimension of the file names are left out.

    Args:
        capture: The capture that the file was made from, or one with the same names.
        model: The path of the file, or its content.
    """
    texts = [size for each in described(model).inputs for size in each.shape if isinstance(size, str)]
    named = {name for text in texts for name in re.findall(r"[^\W\d]\w*", text)}
    sizes = from_capture(capture, pytree.tree_leaves((capture.args, capture.kwargs)))
    found = {}
    for symbol, example in sizes.example.items():
        name = sizes.names.get(symbol, symbol)
        if name not in named:
            continue
        least, greatest = sizes.ranges.get(symbol, (1, None))
        least = 1 if symbol in sizes.without_one else max(least, 1)
        bounded = greatest is not None and greatest <= _LARGEST
        most = greatest if bounded and greatest is not None else max(DEFAULT.most, example)
        found[name] = (least, min(max(example, least), most), most)
    return found
