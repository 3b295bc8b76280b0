"""The tokens that each query of Qwen4-Exp attends to, selected for all queries at once.

Its indexer goes over the queries in Python. It cuts the tokens that a query sees into blocks, scores each block by the
mean of its keys, and selects those that score highest, beside the tokens after the last whole block. `selected` gives
the same for all queries: the order of the tokens that each sees, its blocks as one product, and the highest of them,
where blocks that a query does not have score below all others.

Under a causal mask, padded or not, all queries have the first of the same blocks, so that their keys are computed once.
Where another mask gives a query other blocks, each query has its own. How many there are of each is a size of data.

Checked on transformers 5.24.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from opbridge.model_support.transformers.changed_statements import with_statements
from opbridge.model_support.transformers.sizes_of_data import size_of

__all__ = ["for_all_queries", "selected"]

_FUNCTION = f"__import__({__name__!r}, fromlist=['selected']).selected"

for_all_queries = with_statements(
    {
        "for batch_idx in range(batch_size):": (
            f"return {_FUNCTION}(self, q, raw_keys, full_cos, full_sin, visible_token_indices, apply_rotary_pos_emb)"
        )
    }
)
"""The code of the method that selects for all queries; None where it does not go over them."""


def selected(
    indexer: Any,
    queries: torch.Tensor,
    keys: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    mask: torch.Tensor,
    rotated: Callable[..., torch.Tensor],
) -> torch.Tensor:
    """Which of the tokens each query attends to.

    Args:
        indexer: The module: how many tokens a block has, how many blocks are selected, and the norm of their keys.
        queries: [batch, queries, heads, size].
        keys: [batch, tokens, size].
        cos: Of the positions of all tokens, [batch, tokens, rotated size].
        sin: The same.
        mask: Which tokens each query sees, bool, [batch, 1, queries, tokens].
        rotated: Rotates a tensor, as `apply_rotary_pos_emb` does.

    Returns:
        bool, [batch, 1, queries, tokens].
    """
    visible, side, most = mask[:, 0], indexer.compress_ratio, indexer.block_topk
    counts = visible.sum(-1, keepdim=True)
    whole = counts // side
    order = _orders(visible, counts)
    blocks = order.shape[-1] // side + 1  # and one after the last, so that there is one
    order = torch.nn.functional.pad(order, (0, side))[..., : blocks * side].unflatten(-1, (blocks, side))

    row = torch.arange(visible.shape[0], device=visible.device)[:, None, None]
    pooled = indexer.k_layernorm(keys[row[..., None], order].float().mean(-2).to(keys.dtype))
    first = order[..., 0]
    states = rotated(pooled.unsqueeze(3), cos=cos[row, first], sin=sin[row, first], unsqueeze_dim=3).squeeze(3)

    grouped = queries.reshape(queries.shape[0], first.shape[1], -1, queries.shape[-1])
    scores = torch.matmul(grouped.float(), states.float().transpose(-1, -2)).unflatten(2, (-1, queries.shape[2]))
    scores = (torch.relu(scores).sum(3) / math.sqrt(indexer.index_head_dim)).reshape(*visible.shape[:2], blocks)

    scores = torch.nn.functional.pad(scores, (0, most))  # so that there are as many as are selected
    numbers = torch.arange(blocks + most, device=visible.device)
    highest = torch.where(numbers < whole, scores, -torch.inf).topk(most).indices
    chosen = torch.zeros_like(scores, dtype=torch.bool).scatter(-1, highest, True) & (numbers < whole)
    block = (visible.cumsum(-1) - 1).clamp(min=0) // side
    return (visible & ((block >= whole) | chosen.gather(-1, block))).unsqueeze(1)


def _orders(visible: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """The tokens that queries see, in order, before those that they do not see.

    Args:
        visible: bool, [batch, queries, tokens].
        counts: How many each query sees, [batch, queries, 1].

    Returns:
        int64, [batch, orders, tokens]: one order for all queries, of which each sees the first, or one for each query.
    """
    seen = visible.any(1, keepdim=True)
    is_common = ((seen & (seen.cumsum(-1) <= counts)) == visible).all()
    number = size_of(1 + (~is_common).long() * (visible.shape[1] - 1), 1)
    rows = torch.where(is_common, seen, visible)[:, :number]
    tokens = torch.arange(visible.shape[-1], device=visible.device)
    return torch.where(rows, tokens, tokens + visible.shape[-1]).argsort(-1)
