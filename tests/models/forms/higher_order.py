"""Higher-order operators: attention by score functions, scans, loops and branches."""

from __future__ import annotations

import torch
from models.forms.form import floats, form
from torch import nn
from torch._higher_order_ops import associative_scan, scan
from torch._higher_order_ops.map import map as map_over
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

__all__: list[str] = []

_HEADS = floats("batch", 2, "length", 16)
_LENGTH = 8


def _causal(batch, head, query, key):
    return query >= key


@form(_HEADS, _HEADS, _HEADS)
class RelativeBias(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.slopes = nn.Parameter(torch.tensor([0.5, 0.25]))

    def forward(self, query, key, value):
        def biased(score, batch, head, at, by):
            return score + self.slopes[head] * (by - at)

        return flex_attention(query, key, value, score_mod=biased)


@form(_HEADS, _HEADS, _HEADS)
def soft_capping(query, key, value):
    return flex_attention(query, key, value, score_mod=lambda score, b, h, q, k: 2.0 * torch.tanh(score / 2.0))


@form(_HEADS, _HEADS, _HEADS)
def causal_scores(query, key, value):
    return flex_attention(
        query, key, value, score_mod=lambda score, b, h, q, k: torch.where(q >= k, score, -float("inf"))
    )


@form(floats("batch", 2, _LENGTH, 16))
class BlockMaskOfModule(nn.Module):
    """A block mask that is built with the module."""

    def __init__(self) -> None:
        super().__init__()
        self.mask = create_block_mask(_causal, None, None, _LENGTH, _LENGTH, device="cpu")

    def forward(self, x):
        return flex_attention(x, x, x, block_mask=self.mask)


@form(_HEADS)
def block_mask_of_forward(x):
    """A block mask that is built for the length of the input."""
    mask = create_block_mask(_causal, None, None, x.shape[2], x.shape[2], device="cpu")
    return flex_attention(x, x, x, block_mask=mask)


@form(floats("batch", "length", 4))
def associative_sum(x):
    return associative_scan(lambda a, b: a + b, x, dim=1, combine_mode="generic")


@form(floats("batch", "length", 4), floats("batch", "length", 4))
def linear_recurrence(decay, x):
    """h[t] = a[t] * h[t - 1] + x[t], as in state space models."""

    def combine(left, right):
        return left[0] * right[0], left[1] * right[0] + right[1]

    return associative_scan(combine, (decay.sigmoid(), x), dim=1, combine_mode="generic")[1]


@form(floats("batch", 4))
class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda given: self.linear(given), lambda given: given.sin(), (x,))


@form(floats("batch", 4))
def branches_within_branches(x):
    def inner(given):
        return torch.cond(given.amax() > 1, lambda each: each * 2, lambda each: each + 1, (given,))

    return torch.cond(x.mean() > 0, inner, lambda given: given.cos(), (x,))


@form(floats("batch", 4))
def branch_by_size(x):
    return torch.cond(x.shape[0] > 2, lambda given: given * 2, lambda given: given - 1, (x,))


@form(floats("batch", 4))
def halving_loop(x):
    """Halves until the sum of squares is small; the number of passes depends on the values."""
    steps, last = torch.while_loop(
        lambda step, given: given.square().sum() > 0.5,
        lambda step, given: (step + 1, given / 2),
        (torch.zeros((), dtype=torch.int64), x),
    )
    return steps, last


@form(floats("length", "batch", 4))
class ScannedCell(nn.Module):
    """A recurrence over the first dimension."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        def step(state, given):
            state = torch.tanh(self.linear(state) + given)
            return state, state * 2

        return scan(step, torch.zeros_like(x[0]), x)


@form(floats("batch", 4), floats(4))
def mapped_rows(x, shift):
    return map_over(lambda row, by: (row * by).cumsum(0), x, shift)
