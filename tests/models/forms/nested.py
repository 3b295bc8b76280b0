"""Nested tensors that are made in forward and end padded."""

from __future__ import annotations

import torch
from models.forms.form import floats, form, integers
from torch import nn
from torch.nn import functional

__all__: list[str] = []

_X = floats("batch", "length", 4)
_LENGTHS = integers(3, "batch")


def _jagged(x, lengths):
    """The rows of each sequence up to its length; the lengths that are given start at 0."""
    kept = torch.arange(x.shape[1]) < lengths[:, None] + 1
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), (lengths + 1).cumsum(0)])
    return torch.nested.nested_tensor_from_jagged(x[kept], offsets)


@form(_X, _LENGTHS)
def jagged_padded(x, lengths):
    return torch.nested.to_padded_tensor(_jagged(x, lengths), 0.0)


@form(_X, _LENGTHS)
class JaggedLinear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.norm = nn.LayerNorm(3)

    def forward(self, x, lengths):
        return self.norm(self.linear(_jagged(x, lengths)).relu()).to_padded_tensor(-1.0)


@form(_X, _LENGTHS)
def jagged_arithmetic(x, lengths):
    nested = _jagged(x, lengths)
    return (nested * 2 + nested.sin() - 1).to_padded_tensor(0.0)


@form(_X, _LENGTHS)
def jagged_softmax(x, lengths):
    return _jagged(x, lengths).softmax(-1).to_padded_tensor(0.0)


@form(_X, _LENGTHS)
def jagged_mean(x, lengths):
    return _jagged(x, lengths).mean(dim=1), _jagged(x, lengths).sum(dim=1), _jagged(x, lengths).sum(dim=-1).values()


@form(_X, _LENGTHS)
class JaggedAttention(nn.Module):
    """Projections of the jagged rows, and attention over the padded ones; attention over jagged ones needs a GPU."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(4, 12)

    def forward(self, x, lengths):
        padded = self.project(_jagged(x, lengths)).to_padded_tensor(0.0, (x.shape[0], x.shape[1], 12))
        query, key, value = padded.unflatten(-1, (3, 2, 2)).permute(2, 0, 3, 1, 4)
        kept = (torch.arange(x.shape[1]) < lengths[:, None] + 1)[:, None, None]
        return functional.scaled_dot_product_attention(query, key, value, attn_mask=kept)


@form(floats(3, 4), floats(2, 4))
def jagged_of_list(x, y):
    return torch.nested.nested_tensor([x, y * 2], layout=torch.jagged).to_padded_tensor(0.0)


@form(floats("batch", 4), floats("length", 4))
def jagged_of_tensors(x, y):
    return torch.nested.as_nested_tensor([x, y], layout=torch.jagged).to_padded_tensor(9.0)


@form(floats(3, 4), floats(2, 4), refused="no fake \\(meta\\) implementation")
def strided_nested(x, y):
    """The older form of nested tensors, which torch cannot run on tensors without values."""
    return torch.nested.as_nested_tensor([x, y]).to_padded_tensor(0.0)


@form(floats("batch", 3, 4))
def jagged_of_batch(x):
    return (torch.nested.as_nested_tensor(x, layout=torch.jagged) * 2).to_padded_tensor(0.0)


@form(_X, _LENGTHS)
def jagged_values(x, lengths):
    nested = _jagged(x, lengths)
    return nested.values() * 2, nested.offsets()


@form(_X, _LENGTHS)
def jagged_concatenated(x, lengths):
    nested = _jagged(x, lengths)
    return torch.cat([nested, nested * 2], dim=-1).to_padded_tensor(0.0, (x.shape[0], x.shape[1], 8))


@form(_X, _LENGTHS, refused="Python needs a number")
def narrowed(x, lengths):
    """torch reads the largest length as a number of Python's."""
    starts = torch.zeros_like(lengths)
    nested = torch.nested.narrow(x, 1, starts, lengths + 1, layout=torch.jagged)
    return nested.contiguous().to_padded_tensor(0.0)


@form(_X, _LENGTHS)
class EncoderWithPadding(nn.Module):
    """torch.nn.TransformerEncoder, which makes its input nested in eager mode."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=True)

    def forward(self, x, lengths):
        padding = torch.arange(x.shape[1]) > lengths[:, None]
        return self.encoder(x, src_key_padding_mask=padding).masked_fill(padding[..., None], 0.0)
