"""transformers' attention masks while a model is captured.

Outside of an export, transformers makes no mask where every token may attend to every other one: there is no padding,
no window, and no order. In an export it makes one of ones, though nothing of that depends on values. It costs time, and
does not fit where a model shortens its sequence between layers, as Informer does.

Of a causal mask it makes none either, where nothing is padded, and leaves the order to the attention. A layer that says
that it is not causal, as those of AIMv2's text model, then attends to all tokens, and to those before each where
something is padded. In an export the mask is always made; for such a layer it is of ones where nothing is padded.

Checked on transformers 5.24, masks of ones on 5.23 too. The function of 5.0 was only read, and a stand-in for it is
tested.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Iterator
from typing import Any

import torch

from opbridge.base.attributes import replacing

__all__ = ["attending_to_all_where_nothing_is_padded", "without_masks_of_ones"]

_MODULE, _ATTENTIONS = "transformers.masking_utils", "transformers.modeling_utils"
_NAME, _CAUSAL = "_ignore_bidirectional_mask_sdpa", "_ignore_causal_mask_sdpa"
_CAUSAL_PARAMETERS = ("padding_mask", "q_length", "kv_length", "q_offset", "kv_offset", "local_attention_size")


@contextlib.contextmanager
def without_masks_of_ones() -> Iterator[None]:
    """Within this context, transformers makes no mask that is known to be of ones, as outside of an export."""
    module = sys.modules.get(_MODULE)
    ignores = getattr(module, _NAME, None)
    if ignores is None:
        yield
        return

    signature = inspect.signature(ignores)  # of one parameter at first, and of more since

    def ignores_mask(*args: Any, **settings: Any) -> Any:
        given = signature.bind(*args, **settings).arguments
        if given.get("padding_mask") is None and given.get("local_attention_size") is None:
            return True
        return ignores(*args, **settings)

    with replacing((module, _NAME, ignores_mask)):
        yield


@contextlib.contextmanager
def attending_to_all_where_nothing_is_padded(module: torch.nn.Module) -> Iterator[None]:
    """Within this context, layers that are not causal use a causal mask where something is padded alone."""
    masking, modeling = sys.modules.get(_MODULE), sys.modules.get(_ATTENTIONS)
    masks = getattr(getattr(masking, "AttentionMaskInterface", None), "_global_mapping", {})
    attentions = getattr(getattr(modeling, "AttentionInterface", None), "_global_mapping", {})
    is_causal = [getattr(each, "is_causal", None) for each in module.modules()]
    ignores: Any = getattr(masking, _CAUSAL, None)
    make, attend = masks.get("sdpa"), attentions.get("sdpa")
    is_known = ignores is not None and tuple(inspect.signature(ignores).parameters) == _CAUSAL_PARAMETERS
    if not is_known or make is None or attend is None or False not in is_causal:
        yield
        return
    nothing_padded: list[torch.Tensor] = []
    made: list[tuple[torch.Tensor, torch.Tensor]] = []

    def ignores_mask(
        padding_mask: Any,
        q_length: Any,
        kv_length: Any,
        q_offset: Any,
        kv_offset: Any,
        local_attention_size: Any = None,
    ) -> Any:
        ignored = ignores(padding_mask, q_length, kv_length, q_offset, kv_offset, local_attention_size)
        if not ignored and padding_mask is not None and local_attention_size is None:
            if _are_equal(q_length, kv_length) and _are_equal(padding_mask.shape[-1], kv_length):
                nothing_padded.append(padding_mask.bool().all())
        return ignored

    def make_mask(*args: Any, **settings: Any) -> Any:
        nothing_padded.clear()
        mask = make(*args, **settings)
        if isinstance(mask, torch.Tensor) and mask.dtype == torch.bool and nothing_padded:
            made.append((mask, nothing_padded[-1]))
        return mask

    def attend_by_mask(
        layer: Any, query: Any, key: Any, value: Any, attention_mask: Any, *args: Any, **settings: Any
    ) -> Any:
        causal = settings.get("is_causal")
        causal = getattr(layer, "is_causal", True) if causal is None else causal
        condition = next((each for mask, each in made if mask is attention_mask), None)
        if condition is not None and not causal:
            attention_mask = attention_mask | condition
        return attend(layer, query, key, value, attention_mask, *args, **settings)

    with replacing((masking, _CAUSAL, ignores_mask)):
        masks["sdpa"], attentions["sdpa"] = make_mask, attend_by_mask
        try:
            yield
        finally:
            masks["sdpa"], attentions["sdpa"] = make, attend


def _are_equal(one: Any, other: Any) -> bool:
    """Whether two sizes are known to be equal, without a question about them: by the same number or expression."""
    return str(one) == str(other)
