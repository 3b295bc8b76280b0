"""The task that a model is probably exported for, where the user named none."""

from __future__ import annotations

from torch.utils import _pytree as pytree

from opbridge.capture.resolved_call import ResolvedCall
from opbridge.model_support import caches
from opbridge.model_support.transformers import causal_models

__all__ = ["suggestion"]


def suggestion(call: ResolvedCall) -> tuple[str, ...]:
    """A note for a causal language model that returns a cache and gets none, so that its file cannot continue a text.

    Args:
        call: The model and its example inputs.
    """
    model, args, given = call.model, call.args, call.kwargs
    if not causal_models.is_model(model) or getattr(model.config, "is_encoder_decoder", False):
        return ()
    if not given.get("use_cache", getattr(model.config, "use_cache", False)):
        return ()
    leaves = pytree.tree_leaves((args, given), is_leaf=caches.is_cache)
    if any(map(caches.is_cache, leaves)) or causal_models.cache_parameter(model) is None:
        return ()
    return (
        f"{type(model).__name__} returns a cache, but no cache is among the inputs, so the file cannot generate text "
        "token by token: task='text-generation' (--task text-generation) exports the model with its cache and dynamic "
        "sizes; use_cache=False leaves the cache out",
    )
