"""One step of generating text: a token, and the cache that the tokens before it left."""

from __future__ import annotations

from typing import Any

import torch

from opbridge.coverage.models.entries import Case, Inputs
from opbridge.coverage.models.families.transformers.facts import Facts
from opbridge.coverage.models.varying import Size, runs, vary

__all__ = ["step"]

_SIZES = {"batch": Size(2, (1, 3)), "past": Size(8, (5, 12))}


def step(model: Any) -> Case:
    """The case of a model that is given its cache, as the model itself makes it.

    Raises:
        NotImplementedError: The model makes no cache.
    """
    facts = Facts(model)
    if "past_key_values" not in facts.parameters:
        raise NotImplementedError("the model takes no past_key_values")

    def draw(batch: int, past: int) -> Inputs:
        with torch.no_grad():
            before = model(input_ids=facts.tokens(batch, past), use_cache=True).past_key_values
        if before is None:
            raise NotImplementedError("the model makes no cache")
        kwargs = {
            "input_ids": facts.tokens(batch, 1),
            "attention_mask": torch.ones(batch, past + 1, dtype=torch.int64),
            "past_key_values": before,
        }
        return Inputs((), {name: value for name, value in kwargs.items() if name in facts.parameters})

    sizes = dict(_SIZES)
    if not runs(model, draw(2, 5)):
        sizes["past"] = Size(8, ())
    return vary(model, draw, sizes)
