"""The attention of Longformer, within windows and to global tokens, without a question whether there are global ones.

Its encoder asks whether any token is global, and each layer collects the global tokens of a batch by their indices and
writes what they attend to over the results, so that sizes and writes depend on data. `attended` computes the same
without writes: the keys of a window beside each chunk of queries, those of global tokens in a tensor that has room for
as many as the sample with most of them has, and what a global token attends to where a token is global. Where none is,
there is room for one, which is masked.

Checked on transformers 5.24.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from opbridge.model_support.entries import Arguments
from opbridge.model_support.transformers.changed_statements import with_statements
from opbridge.model_support.transformers.sizes_of_data import size_of

__all__ = ["CALLS", "AnyGlobal", "asking_nothing", "asking_nothing_of_led", "attended"]

CALLS = {
    "_sliding_chunks_query_key_matmul": "d3c181e0043219f5",
    "_sliding_chunks_matmul_attn_probs_value": "dc4f929f3bcfe806",
    "_get_global_attn_indices": "4364f27590c5620e",
    "_concat_with_global_key_attn_probs": "63995c3ac2e04d28",
    "_compute_attn_output_with_global_indices": "46b01dadd3998ea7",
    "_compute_global_attn_output_from_hidden": "4c8ba0997c83cc5b",
    "_chunk": "88f681bf0aa2dfc5",
    "_pad_and_transpose_last_two_dims": "b4a0e748ffdbea64",
    "_pad_and_diagonalize": "367f521345d34097",
    "_mask_invalid_locations": "1695020ad0f8954c",
}
"""The methods of the attention that `attended` stands for too, with their fingerprints."""

_FUNCTION = f"__import__({__name__!r}, fromlist=['AnyGlobal']).AnyGlobal"

_GLOBAL = {
    "is_global_attn = is_index_global_attn.flatten().any().item()": (
        f"is_global_attn = {_FUNCTION}(is_index_global_attn)"
    )
}
_UNPADDED = {
    "hidden_states = hidden_states[:, :-padding_len]": (
        "hidden_states = hidden_states[:, :hidden_states.shape[1] - padding_len]"
    ),
    "encoder_states = tuple((state[:, :-padding_len] for state in encoder_states))": (
        "encoder_states = tuple((state[:, :state.shape[1] - padding_len] for state in encoder_states))"
    ),
}

asking_nothing = with_statements(_GLOBAL)
"""The code of an encoder that asks whether any token is global where something depends on it; `attended` does not."""

asking_nothing_of_led = with_statements(_GLOBAL | _UNPADDED)
"""The same of LED, which also cuts off a padding of no tokens as it does one of some."""


class AnyGlobal:
    """Whether any token is global: a condition that is asked when it is used as one.

    Args:
        is_global: bool, [batch, tokens].
    """

    def __init__(self, is_global: torch.Tensor) -> None:
        self._is_global = is_global

    def __bool__(self) -> bool:
        return bool(self._is_global.any())


def attended(named: Arguments) -> tuple[torch.Tensor] | None:
    """What the attention returns, of its arguments by name; None where it returns weights too, or drops some."""
    module, hidden = named["self"], named["hidden_states"]
    if named["output_attentions"] or (module.training and module.dropout) or named["is_index_global_attn"] is None:
        return None
    is_masked, is_global = named["is_index_masked"], named["is_index_global_attn"]
    query = _heads(module, module.query(hidden) / math.sqrt(module.head_dim))
    key, value = _heads(module, module.key(hidden)), _heads(module, module.value(hidden))

    counts = is_global.sum(1, keepdim=True)
    room = torch.arange(size_of(counts.max().clamp(min=1), 1), device=hidden.device)
    tokens = torch.arange(hidden.shape[1], device=hidden.device)
    index = torch.where(is_global, tokens, tokens + hidden.shape[1]).argsort(1)[:, : room.shape[0]]
    row = torch.arange(hidden.shape[0], device=hidden.device)[:, None]
    least = torch.finfo(hidden.dtype).min

    scores = query @ key[row, :, index].permute(0, 2, 3, 1)
    scores = scores.masked_fill((room >= counts)[:, None, None], least)
    local = _chunks_of_queries(query, module.one_sided_attn_window_size)
    beside = _windows(key, module.one_sided_attn_window_size)
    band = _band_mask(named["attention_mask"], query, module.one_sided_attn_window_size)
    near = (local @ beside.transpose(-1, -2) + band).flatten(2, 3)
    weights = torch.softmax(torch.cat([scores, near], -1), -1, dtype=torch.float32)
    weights = weights.masked_fill(is_masked[:, None, :, None], 0.0).to(scores.dtype)
    far, near = weights[..., : room.shape[0]], weights[..., room.shape[0] :]
    chunks = near.unflatten(2, local.shape[2:4])
    found = chunks @ _windows(value, module.one_sided_attn_window_size)
    found = found.flatten(2, 3) + far @ value[row, :, index].transpose(1, 2)

    number = (is_global.cumsum(1) - 1).clamp(min=0)
    of_global = _attended_by_global(module, hidden, hidden[row, index], is_masked, least)
    result = torch.where(is_global[:, :, None, None], of_global[row, :, number], found.transpose(1, 2))
    return (result.flatten(2),)


def _attended_by_global(
    module: Any, hidden: torch.Tensor, tokens: torch.Tensor, is_masked: torch.Tensor, least: float
) -> torch.Tensor:
    """What global tokens attend to, of all tokens: [batch, heads, global tokens, size]."""
    query = _heads(module, module.query_global(tokens) / math.sqrt(module.head_dim))
    key, value = _heads(module, module.key_global(hidden)), _heads(module, module.value_global(hidden))
    scores = (query @ key.transpose(-1, -2)).masked_fill(is_masked[:, None, None], least)
    return torch.softmax(scores, -1, dtype=torch.float32).to(scores.dtype) @ value


def _heads(module: Any, states: torch.Tensor) -> torch.Tensor:
    """Of [batch, tokens, heads * size], [batch, heads, tokens, size]."""
    return states.unflatten(2, (module.num_heads, module.head_dim)).transpose(1, 2)


def _chunks_of_queries(query: torch.Tensor, side: int) -> torch.Tensor:
    """Of [batch, heads, tokens, size], [batch, heads, chunks, side, size]."""
    return query.reshape(query.shape[0], query.shape[1], -1, side, query.shape[3])


def _windows(states: torch.Tensor, side: int) -> torch.Tensor:
    """Of [batch, heads, tokens, size], each chunk with those beside it: [batch, heads, chunks, 3 * side, size]."""
    chunks = _chunks_of_queries(torch.nn.functional.pad(states, (0, 0, side, side)), side)
    return torch.cat([chunks[:, :, :-2], chunks[:, :, 1:-1], chunks[:, :, 2:]], 3)


def _band_mask(mask: torch.Tensor, query: torch.Tensor, side: int) -> torch.Tensor:
    """What is added to the scores of chunks with their windows: [batch, 1, chunks, side, 3 * side].

    The least number where the mask of tokens, [batch, tokens], is not 0: such tokens are padding, or global. Tokens
    that are not there, or too far away, cannot be attended to at all.
    """
    added = torch.where(mask != 0, torch.finfo(query.dtype).min, 0.0).to(query.dtype)
    added = torch.nn.functional.pad(added, (side, side), value=-torch.inf)
    chunks = added.reshape(mask.shape[0], -1, side)
    windows = torch.cat([chunks[:, :-2], chunks[:, 1:-1], chunks[:, 2:]], 2)
    places = torch.arange(3 * side, device=mask.device) - side - torch.arange(side, device=mask.device)[:, None]
    return torch.where(places.abs() <= side, windows[:, None, :, None], -torch.inf)
