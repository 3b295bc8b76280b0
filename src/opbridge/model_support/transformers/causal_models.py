"""What a model for text generation takes: its parameters, its vocabulary, and the caches that it starts from.

Checked on transformers 4.53, 4.54, 4.55, 4.57, 5.0, 5.2, 5.5, 5.23 and 5.24.
"""

from __future__ import annotations

import inspect
import typing
from typing import Any

import torch

from opbridge.errors import UsageError
from opbridge.model_support.transformers import caches
from opbridge.model_support.transformers.cache_layers import MODULE, sliding_kinds

__all__ = [
    "cache_after",
    "cache_of_its_own",
    "cache_parameter",
    "emptied",
    "is_model",
    "load",
    "new_cache",
    "parameters",
    "text_config",
    "vocabulary_size",
]

_CACHES = ("cache", "past_key_values", "cache_params")  # the first one since transformers 5.24


def is_model(model: Any) -> bool:
    """Whether an object is a model of transformers with a language model's head."""
    named = any(each.__name__ == "PreTrainedModel" for each in type(model).__mro__)
    return named and callable(getattr(model, "generate", None)) and hasattr(model, "config")


def load(folder: str) -> Any:
    """The model that `save_pretrained` wrote to a folder, in evaluation mode; nothing is downloaded, no code run.

    Raises:
        UsageError: It is no causal model, or its files are damaged.
    """
    from transformers import AutoModelForCausalLM

    try:
        return AutoModelForCausalLM.from_pretrained(folder, local_files_only=True, trust_remote_code=False).eval()
    except Exception as error:  # what transformers raises for a folder has no common class
        said = " ".join(str(error).split())[:400].rstrip(".")
        raise UsageError(
            f"transformers cannot load a causal language model from the folder {folder}: {said}. Give a folder "
            "written by save_pretrained."
        ) from error


def parameters(model: Any) -> tuple[str, ...]:
    """The names of the parameters of a model's `forward`."""
    return tuple(inspect.signature(model.forward).parameters)


def cache_parameter(model: Any) -> str | None:
    """The parameter that takes the cache."""
    return next((name for name in _CACHES if name in parameters(model)), None)


def vocabulary_size(model: Any) -> int:
    """The number of tokens that the model knows."""
    return int(text_config(model).vocab_size)


def new_cache(model: Any) -> Any:
    """An empty cache for a model, whose layers with a sliding window hold all tokens."""
    from transformers import DynamicCache

    takes_config = "config" in inspect.signature(DynamicCache).parameters
    cache = DynamicCache(config=text_config(model)) if takes_config else DynamicCache()
    growing = sliding_kinds()
    for number, layer in enumerate(getattr(cache, "layers", ())):
        if type(layer) in growing:
            cache.layers[number] = growing[type(layer)](**_states(layer))
    return cache


def _states(layer: Any) -> dict[str, int]:
    return {"number_of_states": layer.number_of_states} if hasattr(layer, "number_of_states") else {}


def cache_after(model: Any, tokens: torch.Tensor, mask: torch.Tensor | None = None) -> Any:
    """The cache of a model after its first tokens, int64 [batch, length]; `mask` is 0 for padding.

    None where the model returns no cache.
    """
    name = cache_parameter(model)
    assert name is not None
    given: dict[str, Any] = {name: new_cache(model), "use_cache": True}
    if mask is not None:
        given["attention_mask"] = mask
    with torch.no_grad():
        return getattr(model(tokens, **given), name, None)


def cache_of_its_own(model: Any, tokens: torch.Tensor) -> str:
    """The class of the cache that a model takes after tokens, where it is one of its own; else "".

    So it is for models with recurrent states before transformers 5.5, which a DynamicCache does not fit. Some of them
    make none by themselves; what they take is said by the parameter.
    """
    name = cache_parameter(model) or ""
    with torch.no_grad():
        made = getattr(model(tokens, use_cache=True), name, None)
    if made is None:
        annotation = inspect.signature(model.forward).parameters[name].annotation
        kinds = [each for each in (annotation, *typing.get_args(annotation)) if isinstance(each, type)]
        own = [each.__name__ for each in kinds if each.__name__.endswith("Cache") and not _is_shared(each)]
        return own[0] if own else ""
    if isinstance(made, tuple) or (caches.is_cache_class(type(made)) and not caches.holds_others(made)):
        return ""
    return type(made).__name__


def _is_shared(kind: type) -> bool:
    """Whether a class is one of the caches that all models share."""
    return caches.is_cache_class(kind) and kind.__module__ == MODULE


def emptied(cache: Any) -> Any:
    """A cache like another one before the first token: no keys and values, states of zero."""
    kept = [
        (part, tensor.new_zeros(tensor.shape) if part.grows is None else tensor.narrow(part.grows, 0, 0).clone())
        for part, tensor in caches.parts(cache)
    ]
    return caches.with_tensors(cache, kept)


def text_config(model: Any) -> Any:
    """The configuration of the decoder, where a model has several."""
    return model.config.get_text_config(decoder=True)
