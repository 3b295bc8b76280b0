"""The attention of images of several sizes in one sequence, in one product in the place of one for each image.

Encoders of transformers cut queries, keys and values into the parts that `cu_seqlens` bounds, attend within each part
in a loop, and join the results. Data decide how many parts there are, and how long each is, so that a capture has to
follow a loop of slices for each layer. `attention` computes all parts at once: queries in chunks of one size, each with
the keys of its part, which are padded to the longest part and masked. Of parts of one size, as windows are, each is one
chunk, and nothing is padded. Of others, there are at most about twice as many products as all tokens have with the
longest part, which are not more than those of all tokens with all.

Checked on transformers 5.24.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from opbridge.model_support.transformers.changed_statements import with_statements
from opbridge.model_support.transformers.sizes_of_data import size_of

__all__ = ["attention", "in_one_product"]

_SMALLEST_CHUNK = 128
_SETTINGS = """\
attention_mask=None, scaling=self.scaling, dropout=0.0 if not self.training else self.attention_dropout, \
is_causal=False, **kwargs"""
_STATES = "query_states, key_states, value_states"
_FUNCTION = f"__import__({__name__!r}, fromlist=['attention']).attention"

in_one_product = with_statements(
    {
        f"splits = [torch.split(tensor, lengths.tolist(), dim=2) for tensor in ({_STATES})]": "splits = ()",
        f"attn_outputs = [attention_interface(self, q, k, v, {_SETTINGS})[0] for q, k, v in zip(*splits)]": (
            f"attn_outputs = {_FUNCTION}(attention_interface, cu_seqlens, self, {_STATES}, {_SETTINGS})"
        ),
        "attn_output = torch.cat(attn_outputs, dim=1)": "attn_output = attn_outputs",
    }
)
"""The code of a method with one attention in the place of one for each part; None where it has other statements."""


def attention(
    interface: Callable[..., tuple[torch.Tensor, Any]],
    bounds: torch.Tensor,
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    **settings: Any,
) -> torch.Tensor:
    """What an attention gives for each part of a sequence, joined.

    Args:
        interface: The attention, a function as transformers registers them.
        bounds: Where the parts begin and end, int32 or int64, [parts + 1]: the first is 0, the last the number of
            tokens.
        module: The module that attends.
        query: [batch, heads, tokens, size].
        key: [batch, heads of keys, tokens, size].
        value: [batch, heads of keys, tokens, size of values].
        **settings: The other arguments of `interface`. `attention_mask` is replaced.

    Returns:
        [batch, tokens, heads, size of values].
    """
    starts, ends = bounds[:-1].long(), bounds[1:].long()
    lengths = ends - starts
    # Two at least, so that no question is asked whether there is just one query, as in the decoding of a text.
    longest = lengths.max().clamp(min=2)
    mean = query.shape[2] // lengths.shape[0]
    chunk = longest.clamp(max=torch.sym_max(mean, _SMALLEST_CHUNK))
    chunks = _quotient(lengths + chunk - 1, chunk)
    lasts = chunks.cumsum(0)
    firsts = lasts - chunks

    number, part = _segments(lasts, size_of(lasts[-1], 0))
    begins, limits = starts[part, None], ends[part, None] - 1
    keys = begins + torch.arange(size_of(longest, 2), device=query.device)
    queries = begins + (number - firsts[part])[:, None] * chunk + torch.arange(size_of(chunk, 2), device=query.device)
    mask = torch.where(keys > limits, -torch.inf, 0.0).to(query.dtype)[:, None, None, :]
    settings["attention_mask"] = _as_batch(mask.expand(query.shape[0], *mask.shape))
    queries, keys = torch.minimum(queries, limits), torch.minimum(keys, limits)
    result, _ = interface(module, _rows(query, queries), _rows(key, keys), _rows(value, keys), **settings)

    token, part = _segments(ends, query.shape[2])
    within = token - starts[part]
    row = _quotient(within, chunk)
    found = result[None] if _is_one(query.shape[0]) else result.unflatten(0, (query.shape[0], number.shape[0]))
    return found[:, firsts[part] + row, within - row * chunk]


def _quotient(number: torch.Tensor, divisor: torch.Tensor) -> torch.Tensor:
    return torch.div(number, divisor, rounding_mode="trunc")


def _segments(ends: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The numbers from 0 on, and for each in which segment it lies, by where these end: both int64, [count]."""
    numbers = torch.arange(count, device=ends.device)
    return numbers, (numbers[:, None] >= ends).sum(1)


def _rows(tensor: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Of [batch, heads, tokens, size], the tokens of an index [parts, rows]: [batch * parts, heads, rows, size]."""
    return _as_batch(tensor[:, :, index].transpose(1, 2))


def _as_batch(tensor: torch.Tensor) -> torch.Tensor:
    """Of [batch, parts, ...], all parts: [batch * parts, ...]."""
    return tensor[0] if _is_one(tensor.shape[0]) else tensor.flatten(0, 1)


def _is_one(size: int | torch.SymInt) -> bool:
    return isinstance(size, int) and size == 1
