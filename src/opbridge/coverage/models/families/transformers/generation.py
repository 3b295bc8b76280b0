"""One step of generating text: a token, and the cache that the tokens before it left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from opbridge.coverage.models.entries import Case, Inputs
from opbridge.coverage.models.families.transformers import draws_of_texts as texts
from opbridge.coverage.models.families.transformers.facts import Facts
from opbridge.coverage.models.varying import Size, runs, vary

__all__ = ["step"]

_SIZES = {"batch": Size(2, (1, 3)), "past": Size(8, (5, 12))}
_CACHES = ("cache", "past_key_values", "cache_params", "state")
"""Parameters that take a cache; the model gives it back by the same name."""
_TOKENS = (texts.tokens, texts.codes_in_batch, texts.codes)


def step(model: Any) -> Case:
    """The case of a model that is given its cache, as the model itself makes it.

    Raises:
        NotImplementedError: The model takes no cache, or makes none.
        Exception: What the model raises where it runs on no tokens.
    """
    facts = Facts(model)
    cache = next((name for name in _CACHES if name in facts.parameters), None)
    if cache is None:
        raise NotImplementedError("the model has no cache argument")
    errors: list[Exception] = []
    for tokens in _TOKENS:
        draw = _draw(facts, cache, tokens)
        try:
            with torch.no_grad():
                model.eval()(**draw(2, 8).kwargs)
        except NotImplementedError:
            raise
        except Exception as error:  # whatever it is, these tokens are not for this model
            errors.append(error)
            continue
        sizes = dict(_SIZES)
        if not runs(model, draw(2, 5)):
            sizes["past"] = Size(8, ())
        return vary(model, draw, sizes)
    raise errors[0]


def _draw(facts: Facts, cache: str, tokens: Callable[[Facts, int, int], torch.Tensor]) -> Callable[[int, int], Inputs]:
    def draw(batch: int, past: int) -> Inputs:
        with torch.no_grad():
            before = getattr(facts.model(input_ids=tokens(facts, batch, past), use_cache=True), cache, None)
        if before is None:
            raise NotImplementedError("the model returns no cache")
        kwargs = {
            "input_ids": tokens(facts, batch, 1),
            "attention_mask": torch.ones(batch, past + 1, dtype=torch.int64),
            cache: before,
        }
        return Inputs((), {name: value for name, value in kwargs.items() if name in facts.parameters})

    return draw
