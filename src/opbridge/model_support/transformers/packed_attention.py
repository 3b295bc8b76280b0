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
from opbridge.model_support.transformers.vision_grids import checked

__all__ = [
    "attention",
    "attentions",
    "in_one_product",
    "of_cosmos",
    "of_hunyuan",
    "of_radio",
    "with_weights",
    "with_weights_and_mask",
]

_Interface = Callable[..., tuple[torch.Tensor, Any]]

_SMALLEST_CHUNK = 128
_SCALED = "scaling=self.scaling, dropout=0.0 if not self.training else self.attention_dropout"
_SETTINGS = f"attention_mask=None, {_SCALED}, is_causal=False, **kwargs"
_STATES = "query_states, key_states, value_states"
_SPLITS = {f"splits = [torch.split(tensor, lengths.tolist(), dim=2) for tensor in ({_STATES})]": "splits = ()"}
_FUNCTIONS = f"__import__({__name__!r}, fromlist=['attentions'])"
_GIVEN = f"attention_interface, cu_seqlens, self, {_STATES}"

in_one_product = with_statements(
    _SPLITS
    | {
        f"attn_outputs = [attention_interface(self, q, k, v, {_SETTINGS})[0] for q, k, v in zip(*splits)]": (
            f"attn_outputs, _ = {_FUNCTIONS}.attentions({_GIVEN}, {_SETTINGS})"
        )
    }
)
"""The code of a method with one attention in the place of one for each part; None where it has other statements."""

with_weights = with_statements(
    _SPLITS
    | {
        "attn_outputs, attn_weights = ([], [])": (
            f"attn_outputs, attn_weights = {_FUNCTIONS}.attentions({_GIVEN}, {_SETTINGS})"
        ),
        "for q, k, v in zip(*splits):": "pass",
    }
)
"""The same of a method that keeps the weights of each part too."""

with_weights_and_mask = with_statements(
    _SPLITS
    | {
        "attn_outputs, attn_weights = ([], [])": (
            f"attn_outputs, attn_weights = {_FUNCTIONS}.attentions({_GIVEN}, attention_mask=attention_mask, "
            "scaling=self.scaling, dropout=0.0, is_causal=False, **kwargs)"
        ),
        "for q, k, v in zip(*splits):": "pass",
    }
)
"""The same of Lfm3's, which is also given a mask."""

_OF_HUNYUAN = "scaling=self.scaling, is_causal=False, **kwargs"
of_hunyuan = with_statements(
    _SPLITS
    | {
        f"attn_outputs = [attention_interface(self, q, k, v, {_OF_HUNYUAN})[0] for q, k, v in zip(*splits)]": (
            f"attn_outputs, _ = {_FUNCTIONS}.attentions({_GIVEN}, {_OF_HUNYUAN})"
        )
    }
)
"""The same of HunYuan's, whose mask is among its other arguments."""

_OF_COSMOS = (
    "attention_mask=None, scaling=self.scale, dropout=0.0 if not self.training else self.dropout, "
    "is_causal=False, **kwargs"
)
of_cosmos = with_statements(
    _SPLITS
    | {
        f"attn_output = torch.cat([attention_interface(self, query, key, value, {_OF_COSMOS})[0] "
        "for query, key, value in zip(*splits)], dim=1)": (
            f"attn_output = torch.cat({_FUNCTIONS}.attentions({_GIVEN}, {_OF_COSMOS})[0], dim=1)"
        )
    }
)
"""The same of Cosmos', whose attributes have other names."""

_OF_RADIO = "attention_mask=None, **attention_kwargs, **kwargs"
of_radio = with_statements(
    _SPLITS
    | {
        f"outputs = [attention_interface(self, query, key, value, {_OF_RADIO}) "
        "for query, key, value in zip(*splits)]": (
            f"outputs = list(zip(*{_FUNCTIONS}.attentions({_GIVEN}, {_OF_RADIO})))"
        )
    }
)
"""The same of RADIO's, which puts the weights of all parts into one matrix."""


def attentions(
    interface: _Interface,
    bounds: torch.Tensor,
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    **settings: Any,
) -> tuple[list[torch.Tensor], list[Any]]:
    """What an attention gives for the parts of a sequence, and its weights: of all at once, where there are no weights.

    The arguments are those of `attention`. Where a mask is given, where the order of tokens matters, and where the
    interface gives weights, each part is attended to by itself.
    """
    is_causal = settings.get("is_causal")
    is_causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    if settings.get("attention_mask") is None and not is_causal:
        result, weights = _attended(interface, bounds, module, query, key, value, **settings)
        if weights is None:
            count = bounds.shape[0] - 1
            return [result], [None] * (count if isinstance(count, int) else 1)
    lengths = (bounds[1:] - bounds[:-1]).tolist()
    splits = [torch.split(each, lengths, dim=2) for each in (query, key, value)]
    settings.setdefault("attention_mask", None)
    found = [interface(module, *each, **settings) for each in zip(*splits, strict=True)]
    return [result for result, _ in found], [weights for _, weights in found]


def attention(
    interface: _Interface,
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
        bounds: Where the parts begin and end, int32 or int64, [parts + 1]. Their lengths add up to the number of
            tokens, or else it is an error, as in `torch.split`: an index out of range.
        module: The module that attends.
        query: [batch, heads, tokens, size].
        key: [batch, heads of keys, tokens, size].
        value: [batch, heads of keys, tokens, size of values].
        **settings: The other arguments of `interface`. `attention_mask` is replaced.

    Returns:
        [batch, tokens, heads, size of values].
    """
    return _attended(interface, bounds, module, query, key, value, **settings)[0]


def _attended(
    interface: _Interface,
    bounds: torch.Tensor,
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    **settings: Any,
) -> tuple[torch.Tensor, Any]:
    """What `attention` returns, and the weights that the interface gives for chunks."""
    lengths = (bounds[1:] - bounds[:-1]).long()
    ends = lengths.cumsum(0)
    ends = checked(ends, (lengths < 0).any() | (ends[-1] != query.shape[2]))
    starts = ends - lengths
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
    result, weights = interface(module, _rows(query, queries), _rows(key, keys), _rows(value, keys), **settings)

    token, part = _segments(ends, query.shape[2])
    within = token - starts[part]
    row = _quotient(within, chunk)
    found = result[None] if _is_one(query.shape[0]) else result.unflatten(0, (query.shape[0], number.shape[0]))
    return found[:, firsts[part] + row, within - row * chunk], weights


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
