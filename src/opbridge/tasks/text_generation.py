"""The task "text-generation": one file for the prompt and for each further token of a causal model of transformers.

1. The inputs are input_ids, attention_mask and position_ids, where the model takes them, and the cache.
2. The batch, the number of new tokens ("sequence") and the number of tokens in the cache ("past_sequence") vary; the
   cache may be empty, and is so for the prompt.
3. A layer with a recurrent state computes a prompt in another way than a token. The file of a model with such layers is
   for one token at a time, from the first one on.
4. The model itself is checked first: a prompt on an empty cache gives what it gives without a cache, and so does each
   token after the others.
5. The file is verified on a prompt, on single tokens after it, with an empty cache and one of one token, with several
   new tokens, and with padding.
6. A file with fused attention takes contiguous texts: without padding, and several texts are continued by one token
   each. Its example and the inputs that it is verified with are of that kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from opbridge.capture.containers import register_containers
from opbridge.errors import UsageError
from opbridge.model_support import caches
from opbridge.model_support.transformers import causal_models

__all__ = ["inputs_of"]

_PAST, _NEW = 4, 3
_SEED = 0
_COVERED = (
    "a batch of one, a single token and an empty cache are each compared with PyTorch, so these sizes are covered"
)


def inputs_of(
    model: Any, args: Any, kwargs: Mapping[str, Any] | None, *, contiguous: bool = False
) -> tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]], tuple[str, ...], tuple[str, ...]]:
    """The inputs of a causal model, their dynamic shapes, the inputs for the verification, notes, and what a
    verification covers.

    Args:
        model: A model of transformers.
        args: Nothing, or tokens to start from in the place of random ones: int64 [batch, length].
        kwargs: Further inputs, which stay as they are; `input_ids` are such tokens.
        contiguous: Whether the file takes contiguous texts only.

    Raises:
        UsageError: The model is none of transformers' causal models, or cannot go on from a cache as it is here.
    """
    if not causal_models.is_model(model):
        raise UsageError(
            "The task text-generation supports causal language models of transformers, such as LlamaForCausalLM, "
            f"but the model is a {type(model).__name__}. Export the model with example inputs and without a task."
        )
    name = causal_models.cache_parameter(model)
    if name is None:
        raise UsageError(
            f"forward() of {type(model).__name__} has no cache argument (cache, past_key_values), which text "
            "generation requires. Export the model with example inputs and without a task."
        )
    return _Inputs(model, name, _tokens(model, args, kwargs), kwargs).all(contiguous)


def _tokens(model: Any, args: Any, kwargs: Mapping[str, Any] | None) -> torch.Tensor:
    """The tokens to choose from: the user's, or random ones."""
    given = (kwargs or {}).get("input_ids")
    if isinstance(args, torch.Tensor):
        given = args
    elif args:
        given = args[0] if len(args) == 1 else None
        if given is None:
            raise UsageError(
                "task='text-generation' accepts one positional input, the tokens. Pass the others by name."
            )
    if given is not None:
        if not isinstance(given, torch.Tensor) or given.dim() != 2 or given.is_floating_point():
            raise UsageError("task='text-generation' expects the tokens as an integer tensor of shape [batch, length].")
        return given.reshape(-1)
    generator = torch.Generator().manual_seed(_SEED)
    return torch.randint(causal_models.vocabulary_size(model), (256,), generator=generator)


class _Inputs:
    """Makes inputs of one model.

    Args:
        model: The model.
        cache: Its parameter for the cache.
        tokens: Tokens to choose from.
        kwargs: The user's further inputs.
    """

    def __init__(self, model: Any, cache: str, tokens: torch.Tensor, kwargs: Mapping[str, Any] | None) -> None:
        self._model, self._cache = model, cache
        self._device = next(model.parameters()).device
        self._choice, self._generator = tokens.cpu(), torch.Generator().manual_seed(_SEED)
        self._further = {key: value for key, value in (kwargs or {}).items() if key != "input_ids"}
        self._parameters = causal_models.parameters(model)
        own = causal_models.cache_of_its_own(model, self._random(1, 2))
        if own:
            raise UsageError(
                f"{type(model).__name__} uses its own cache class {own} in the installed version of transformers. "
                "task='text-generation' supports only DynamicCache, which newer versions also use for models with "
                "recurrent states. Upgrade transformers."
            )
        try:
            example = self._after(1, 2)
        except Exception as error:  # what a model raises has no common class
            raise UsageError(
                f"forward() of {type(model).__name__} failed with a DynamicCache as {cache} "
                f"({type(error).__name__}: {error}). The model is not supported by task='text-generation'; export "
                "it with example inputs and without a task."
            ) from error
        if not caches.is_cache(example):
            raise UsageError(
                f"forward() of {type(model).__name__} returns no cache as {cache} ({type(example).__name__}), "
                "which text generation requires. Export the model with example inputs and without a task."
            )
        register_containers(example)
        found = [part for part, _ in caches.parts(example)]
        self._grows = any(part.grows is not None for part in found)
        self._steps = any(part.role in ("conv", "recurrent") for part in found)

    def all(
        self, contiguous: bool
    ) -> tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]], tuple[str, ...], tuple[str, ...]]:
        """The example, its dynamic shapes, the inputs for the verification, notes, and what a verification covers."""
        self._check_model()
        example = self._call(1 if contiguous else 2, 1 if self._steps else _NEW, _PAST)
        notes: tuple[str, ...] = ()
        sizes = [(1, 1, _PAST), (3, 1, 0), (2, 1, 1), (1, 1, 1)]
        if self._steps:
            notes = (
                "the model has layers with recurrent states, so the file processes one token at a time, also for "
                "the prompt",
            )
        else:
            sizes += [(1, _PAST + 1, 0), (1 if contiguous else 2, _NEW, _PAST + 2)]
        if contiguous:
            sizes += [(2, _PAST + 2, 0), (2, 1, _PAST + 5)]
        others = [self._call(*each) for each in sizes]
        if self._takes_mask and not contiguous:
            others.append(self._call(2, 1, _PAST, padding=2))
        return example, self._shapes(), others, notes, (_COVERED,)

    @property
    def _takes_mask(self) -> bool:
        return "attention_mask" in self._parameters and self._grows

    def _random(self, batch: int, length: int) -> torch.Tensor:
        chosen = torch.randint(len(self._choice), (batch, length), generator=self._generator)
        return self._choice[chosen].to(self._device)

    def _after(self, batch: int, length: int, padding: int = 0) -> Any:
        """A cache after random tokens, of which the first of the first text are padding."""
        mask = torch.ones(batch, length, dtype=torch.int64, device=self._device)
        mask[:1, :padding] = 0
        return causal_models.cache_after(self._model, self._random(batch, length), mask if padding else None)

    def _call(self, batch: int, new: int, past: int, padding: int = 0) -> dict[str, Any]:
        cache = self._after(batch, max(past, 1), padding)
        return self._with(self._random(batch, new), causal_models.emptied(cache) if past == 0 else cache, past, padding)

    def _with(self, tokens: torch.Tensor, cache: Any, past: int, padding: int = 0) -> dict[str, Any]:
        batch, new = tokens.shape
        mask = torch.ones(batch, past + new, dtype=torch.int64, device=self._device)
        mask[:1, :padding] = 0
        found: dict[str, Any] = {"input_ids": tokens}
        if self._takes_mask:
            found["attention_mask"] = mask
        if "position_ids" in self._parameters:
            found["position_ids"] = (mask.cumsum(-1) - 1).clamp(min=0)[:, past:].contiguous()
        found[self._cache] = cache
        if "use_cache" in self._parameters:
            found["use_cache"] = True
        return {**found, **self._further}

    def _shapes(self) -> dict[str, Any]:
        sequence: dict[int, Any] = {0: "batch"} if self._steps else {0: "batch", 1: "sequence"}
        shapes: dict[str, Any] = {"input_ids": sequence}
        if self._takes_mask:
            shapes["attention_mask"] = {0: "batch", 1: "past_sequence + " + ("1" if self._steps else "sequence")}
        if "position_ids" in self._parameters:
            shapes["position_ids"] = sequence
        shapes[self._cache] = {0: "batch", 2: "past_sequence"}
        return shapes

    def _check_model(self) -> None:
        """Compares the model on an empty cache, and on caches of tokens before, with the model without a cache.

        Raises:
            UsageError: It does not give the same.
        """
        tokens = self._random(2, _PAST + 2)
        with torch.no_grad():
            whole = self._model(tokens, use_cache=False, **self._further)["logits"]
            cache = causal_models.emptied(self._after(2, 1))
            found: list[torch.Tensor] = []
            for chunk in tokens.split([1] * tokens.shape[1] if self._steps else [_PAST, 1, 1], dim=1):
                past = sum(each.shape[1] for each in found)
                given = self._with(chunk, cache, past)
                result = self._model(**pytree.tree_map_only(torch.Tensor, torch.clone, given))
                found.append(result["logits"])
                cache = result[self._cache]
        step = torch.cat(found, dim=1)
        tolerance = 1e-3 if whole.dtype in (torch.float32, torch.float64) else 5e-2
        scale = float(whole.float().abs().max())
        if step.shape != whole.shape or not torch.allclose(step.float(), whole.float(), atol=tolerance * scale, rtol=0):
            raise UsageError(
                f"{type(self._model).__name__} computes different logits with the cache than for the whole text, "
                "so a single file for the prompt and for further tokens would be wrong. Call model.eval() first; "
                "if it is already in evaluation mode, export it with example inputs and without a task."
            )
