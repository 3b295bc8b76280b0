"""Loops of transformers over the chunks of a sequence, as one operator where their number is symbolic.

The delta rules keep a state from chunk to chunk. Where the length of the sequence is dynamic, so is the number of
chunks, and a capture of the Python loop executes the model for each number of iterations that it has to tell apart, in
each layer. `in_order` calls torch's `scan` instead, which a capture takes as it is. A number of chunks that is known
stays a loop.

Checked on transformers 5.24.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from opbridge.base.torch_private.torch_higher_order import scan
from opbridge.model_support.transformers.changed_statements import with_statements

__all__ = ["gated", "in_order", "of_gated_delta_rule", "of_kimi_delta_rule"]

_Step = Callable[..., tuple[torch.Tensor, torch.Tensor]]

_IN_ORDER = (
    "core_attn_out, last_recurrent_state = __import__({0!r}, fromlist=['in_order']).in_order({1}, "
    "__import__({0!r}, fromlist=['gated']).gated, core_attn_out, last_recurrent_state, ({2}))"
)
_SOLVED = "opbridge.model_support.transformers.triangular_loops"

of_gated_delta_rule = with_statements(
    {
        "for i in range(num_chunks):": _IN_ORDER.format(
            __name__, "num_chunks", "query, key, new_values, k_cumdecay, intra_chunk_attn, chunk_decay"
        )
    }
)
"""The code of a gated delta rule whose chunks are gone over by `in_order`; None where it has another loop."""

of_kimi_delta_rule = with_statements(
    {
        "for i in range(1, chunk_size):": f"attn = __import__({_SOLVED!r}, fromlist=['solved']).solved(attn)",
        "for i in range(total_sequence_length // chunk_size):": _IN_ORDER.format(
            __name__,
            "total_sequence_length // chunk_size",
            "query * g.exp(), key * (g[..., -1:, :] - g).exp(), value, k_cumdecay, "
            "(query.unsqueeze(-2) * key.unsqueeze(-3) * decay_mask).sum(dim=-1).masked_fill(mask, 0), "
            "g[..., -1, :].exp().unsqueeze(-1)",
        ),
    }
)
"""The same of the delta rule of Kimi, where the decay of a token is one for each channel."""


def in_order(
    count: int, step: _Step, results: torch.Tensor, state: torch.Tensor, chunks: Sequence[torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Goes over the chunks of a sequence in order.

    Args:
        count: How many chunks there are.
        step: The next state and the result for a chunk, of a state and of what each tensor has for the chunk.
        results: A tensor of the shape of the results, which may be written to.
        state: The first state.
        chunks: Tensors whose dimension 2 is the chunk.

    Returns:
        The results, with the chunk as dimension 2, and the last state.
    """
    if isinstance(count, int):
        for number in range(count):
            state, results[:, :, number] = step(state, *(each[:, :, number] for each in chunks))
        return results, state
    last, found = scan(lambda before, of: step(before, *of), state, [each.movedim(2, 0) for each in chunks])
    return found.movedim(0, 2).contiguous(), last


def gated(
    state: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    decayed: torch.Tensor,
    attention: torch.Tensor,
    decay: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The state after a chunk of a gated delta rule, and what the chunk attends to.

    Args:
        state: [batch, heads, size, size of values].
        query: [batch, heads, tokens, size], with the decay up to each token.
        key: The same, with the decay after each token.
        value: [batch, heads, tokens, size of values], solved within the chunk.
        decayed: [batch, heads, tokens, size], keys that read the state, solved within the chunk.
        attention: [batch, heads, tokens, tokens], within the chunk.
        decay: Of the whole chunk, [batch, heads, 1 or size, 1].
    """
    new = value - decayed @ state
    return state * decay + key.transpose(-1, -2) @ new, query @ state + attention @ new
