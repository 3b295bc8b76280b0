"""The task that a model is probably exported for, where the user named none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch.utils import _pytree as pytree

from opbridge.model_support import caches
from opbridge.model_support.transformers import causal_models

__all__ = ["suggestion"]


def suggestion(model: Any, args: Any, kwargs: Mapping[str, Any] | None) -> tuple[str, ...]:
    """A note for a causal language model that returns a cache and gets none, so that its file cannot continue a text.

    Args:
        model: The model.
        args: The positional example inputs.
        kwargs: The keyword example inputs.
    """
    given = dict(kwargs or {})
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
