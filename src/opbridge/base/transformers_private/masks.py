"""transformers' attention masks while a model is captured.

Outside of an export, transformers makes no mask where every token may attend to every other one: there is no padding,
no window, and no order. In an export it makes one of ones, though nothing of that depends on values. It costs time, and
does not fit where a model shortens its sequence between layers, as Informer does.

Checked on transformers 5.23 and 5.24.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from opbridge.base.attributes import replacing

__all__ = ["without_masks_of_ones"]

_MODULE = "transformers.masking_utils"
_NAME = "_ignore_bidirectional_mask_sdpa"


@contextlib.contextmanager
def without_masks_of_ones() -> Iterator[None]:
    """Within this context, transformers makes no mask that is known to be of ones, as outside of an export."""
    module = sys.modules.get(_MODULE)
    ignores = getattr(module, _NAME, None)
    if ignores is None:
        yield
        return

    def ignores_mask(
        padding_mask: Any, kv_length: Any, local_attention_size: Any = None, *args: Any, **settings: Any
    ) -> Any:
        if padding_mask is None and local_attention_size is None:
            return True
        return ignores(padding_mask, kv_length, local_attention_size, *args, **settings)

    with replacing((module, _NAME, ignores_mask)):
        yield
