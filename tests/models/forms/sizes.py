"""Tensors and branches that depend on sizes and on values."""

from __future__ import annotations

import math

import torch
from models.forms.form import floats, form, integers
from torch import nn

__all__: list[str] = []

_X = floats("batch", 4)
_SEQUENCE = floats("batch", "length", 4)


@form(_X)
def factories_of_sizes(x):
    rows = torch.arange(x.shape[0], dtype=x.dtype)
    return torch.cat([x + rows[:, None], torch.zeros(x.shape[0], 3), torch.full((x.size(0), 1), 2.0)], dim=1)


@form(_SEQUENCE)
def causal_mask(x):
    length = x.shape[1]
    mask = torch.tril(torch.ones(length, length, dtype=torch.bool))
    scores = (x @ x.transpose(1, 2)).masked_fill(~mask, -math.inf)
    return scores.softmax(dim=-1) @ x


@form(_SEQUENCE, integers(4, "batch"))
def padding_mask(x, lengths):
    kept = torch.arange(x.shape[1]) < lengths[:, None] + 1
    return (x * kept[..., None]).sum(dim=1) / kept.sum(dim=1, keepdim=True)


@form(_SEQUENCE)
def sizes_of_each_element(x):
    sizes = [x.shape[1:]] * x.shape[0]
    length, width = sizes[0]
    return x.reshape(x.shape[0], length * width) / sizes[-1][0]


@form(_SEQUENCE)
class SinusoidalPositions(nn.Module):
    def forward(self, x):
        at = torch.arange(x.size(1), device=x.device, dtype=x.dtype).unsqueeze(1)
        rates = torch.exp(torch.arange(0, 4, 2) * (-math.log(1e4) / 4))
        table = torch.zeros(x.size(1), 4)
        table[:, 0::2], table[:, 1::2] = torch.sin(at * rates), torch.cos(at * rates)
        return x + table


@form(
    floats("batch", 4, "length"),
    example={"batch": 3, "length": 16},
    others=({"batch": 1, "length": 10}, {"batch": 2, "length": 17}, {"batch": 5, "length": 12}),
)
class FourierLayer(nn.Module):
    """A layer of a Fourier neural operator: a product of the lowest frequencies, in a spectrum of the input's sizes."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(0.1 * torch.randn(4, 4, 5, dtype=torch.cfloat))
        self.beside = nn.Conv1d(4, 4, 1)

    def forward(self, x):
        spectrum = torch.fft.rfft(x)
        kept = torch.zeros(x.shape[0], 4, spectrum.shape[-1], dtype=spectrum.dtype)
        kept[:, :, :5] = torch.einsum("bix,iox->box", spectrum[:, :, :5], self.weight)
        return nn.functional.gelu(torch.fft.irfft(kept, n=x.shape[-1]) + self.beside(x))


@form(_X)
def selected_by_mask(x):
    return x[x > 0]


@form(_X)
def nonzero_places(x):
    places = (x > 0).nonzero()
    return places, x[places[:, 0], places[:, 1]].sum()


@form(_X)
def places_as_tuple(x):
    rows, columns = torch.where(x > 0.5)
    return rows + columns


@form(_SEQUENCE, integers(3, "batch"))
def item_as_size(x, lengths):
    longest = lengths.max().item() + 1
    torch._check(longest >= 1)
    torch._check(longest <= x.shape[1])
    return x[:, :longest].sum(dim=1)


@form(_X, integers(5, 2))
def item_as_number(x, numbers):
    return x * numbers[0].item() + numbers[1].item()


@form(_SEQUENCE)
def sizes_as_list(x):
    batch, length, width = torch.tensor(x.shape).tolist()
    return x.reshape(batch * length, width)


@form(_X, integers(3, 2))
def list_of_values(x, numbers):
    first, second = numbers.tolist()
    torch._check(first >= 0)
    torch._check(second >= 0)
    return torch.zeros(first + 1, second + 1) + x.sum()


@form(_X, floats("length"))
def device_of_another(x, y):
    return x.to(y.device) + y.to(x).sum() + torch.ones(4, device=y.device, dtype=y.dtype)


@form(_X)
def branch_of_export(x):
    """The branches of an export compute the same."""
    if torch.onnx.is_in_onnx_export():
        return x * 2
    if torch.compiler.is_exporting() or torch.compiler.is_compiling():
        return x + x
    return 2 * x


@form(_X)
def branch_of_size(x):
    if x.shape[0] > 0 and x.size(-1) == 4:
        return x * 2
    return x


@form(_X)
def branch_of_length(x):
    if len(x) == 0:
        return x
    return x / len(x)


@form(_X)
def loop_over_static_size(x):
    total = torch.zeros_like(x[:, 0])
    for column in range(x.shape[1]):
        total = total + x[:, column] * column
    return total


@form(_X)
def arithmetic_of_sizes(x):
    half = (x.shape[0] + 1) // 2
    return x[:half] * x.shape[0] ** 0.5, x.new_zeros(x.shape[0] * 2 + 1)


@form(floats("batch", 1, 4, 1))
def squeezed(x):
    return x.squeeze((1, 3)), x.squeeze(-1).squeeze(1)


@form(floats("batch", 3, "length"))
def reshaped(x):
    return x.reshape(x.shape[0], -1), x.flatten(), x.view(-1, x.shape[-1]), x.unflatten(1, (3, 1))


@form(_X, floats(1, 4), example={"batch": 1}, others=({"batch": 2}, {"batch": 3}, {"batch": 5}))
def example_of_batch_one(x, bias):
    """The example's batch is 1, and the batch is not fixed by it."""
    return x + bias, x.expand(x.shape[0], 4) @ bias.transpose(0, 1), x.sum(dim=0)


@form(_SEQUENCE)
def repeated_and_sliced(x):
    twice = x.repeat(1, 2, 1)
    left, right = twice[:, : x.shape[1]], twice[:, x.shape[1] :]
    return left - right + x, torch.cat(x.chunk(2, dim=-1), dim=0)


@form(
    floats("batch", 2, "length", "length"),
    others=({"batch": 1, "length": 4}, {"batch": 2, "length": 8}, {"batch": 4, "length": 7}),
)
def resized_to_double(x):
    size = (x.shape[2] * 2, x.shape[3] * 2)
    return nn.functional.interpolate(x, size=size, mode="nearest")


@form(_SEQUENCE)
def iterated_tensor(x):
    return sum(part for part in x.unbind(-1)), [row * 2 for row in x.permute(2, 0, 1)]


@form(_SEQUENCE, integers(9, "batch"))
def formatted_and_asserted(x, ids):
    """Python around the tensors that reads sizes and dtypes only."""
    assert x.dim() == 3 and x.dtype == torch.float32, f"not a sequence: {x.shape}"
    assert ids.numel() == x.shape[0]
    return x.mean(dim=tuple(range(1, x.ndim))) + ids
