"""Layers over tensors whose sizes data decide."""

from __future__ import annotations

import torch
from models.forms.form import floats, form
from torch import nn
from torch.nn import functional

__all__: list[str] = []

_SIZES = ({"length": 12}, {"length": 21}, {"length": 40})


def _chosen(*shape, **settings):
    """A form of a tensor of which some elements are chosen."""
    return form(floats(*(shape or ("length",))), example={"length": 16}, others=_SIZES, **settings)


@_chosen()
class InstanceNormOfChosen(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.InstanceNorm1d(1, affine=True)

    def forward(self, x):
        return self.norm(x[x > 0][None, None])


@_chosen("length", 4)
class GroupNormOfChosen(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(2, 4)

    def forward(self, x):
        return self.norm(x[x[:, 0] > 0].t()[None])


@_chosen("length", 4)
class BatchNormOfChosen(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        return self.norm(x[x[:, 0] > 0])


@_chosen("length", 4)
class LayerNormOfChosen(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4)

    def forward(self, x):
        return self.norm(x[x[:, 0] > 0]), functional.layer_norm(x[x[:, 1] > 0], (4,))


@_chosen("length", 4)
class ConvolutionOfChosen(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(4, 6, 3, padding=1)
        self.second = nn.Conv1d(6, 2, 3, stride=2, padding=1)

    def forward(self, x):
        return self.second(self.first(x[x[:, 0] > -5].t()[None]).relu())


@_chosen("length", 4)
class TransposedConvolutionOfChosen(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.ConvTranspose1d(4, 3, 4, stride=2, padding=1)

    def forward(self, x):
        return self.layer(x[x[:, 0] > 0].t()[None])


@_chosen("length", 4)
def max_pool_of_chosen(x):
    chosen = x[x[:, 0] > -5].t()[None]
    return functional.max_pool1d(chosen, 2), functional.max_pool1d(chosen, 3, 2, 1)


@_chosen("length", 4)
def average_pool_of_chosen(x):
    chosen = x[x[:, 0] > -5].t()[None]
    return functional.avg_pool1d(chosen, 2), functional.avg_pool1d(chosen, 3, 2, 1)


@_chosen("length", 4)
def adaptive_pool_of_chosen(x):
    chosen = x[x[:, 0] > 0].t()[None]
    return functional.adaptive_avg_pool1d(chosen, 1), functional.adaptive_max_pool1d(chosen, 1)


@_chosen("length", 4)
def unfold_of_chosen(x):
    return x[x[:, 0] > -5].unfold(0, 3, 1), x[x[:, 0] > -5].unfold(0, 2, 2).sum(-1)


@_chosen("length", 4)
def interpolation_of_chosen(x):
    chosen = x[x[:, 0] > 0].t()[None]
    return functional.interpolate(chosen, scale_factor=2.0), functional.interpolate(chosen, size=6, mode="linear")


@_chosen("length", 4)
class RecurrenceOfChosen(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(4, 3, batch_first=True)

    def forward(self, x):
        found, last = self.layer(x[x[:, 0] > -5][None])
        return found, last


@_chosen("length", 4)
class AttentionOfChosen(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x):
        chosen = x[x[:, 0] > -5][None]
        return self.layer(chosen, chosen, chosen, need_weights=False)[0]


@_chosen("length", 4)
def statistics_of_chosen(x):
    chosen = x[x[:, 0] > -5]
    return chosen.std(0), chosen.var(0, unbiased=False), chosen.amax(0), functional.normalize(chosen, dim=0)


@_chosen("length", 4)
def order_of_chosen(x):
    chosen = x[x[:, 0] > -5]
    return chosen.sort(0).values, chosen.cumsum(0), chosen.flip(0), chosen.roll(1, 0), chosen.topk(2, 0).values


@_chosen("length", 4)
def padded_to_a_multiple_of_chosen(x):
    chosen = x[x[:, 0] > -5]
    count = chosen.shape[0]
    return functional.pad(chosen, (0, 0, 0, -count % 4)).view(-1, 4, 4).sum(1)


@form(
    floats("batch", 2, "height", "width"),
    example={"batch": 2, "height": 16, "width": 24},
    others=({"batch": 1, "height": 8, "width": 16}, {"batch": 3, "height": 24, "width": 8}),
    multiples={"height": 8, "width": 8},
)
def windows_of_multiples(x):
    """Positions of a window, repeated over an image whose sizes are multiples of the window's."""
    positions = torch.arange(32.0).view(1, 2, 4, 4)
    x = x + positions.tile([1, 1, x.shape[2] // 4, x.shape[3] // 4])
    batch, channels, height, width = x.shape
    found = x.view(batch, channels, height // 8, 8, width // 8, 8).permute(0, 2, 4, 3, 5, 1).reshape(-1, 64, channels)
    return found.softmax(1)


@form(
    floats("batch", 2, "height", "width"),
    example={"batch": 2, "height": 16, "width": 24},
    others=({"batch": 1, "height": 8, "width": 16}, {"batch": 3, "height": 24, "width": 8}),
    multiples={"height": 8, "width": 8},
)
def windows_of_multiples_padded(x):
    """The same with padding to a multiple of another window, which is then removed."""
    height, width = x.shape[2:]
    y = functional.pad(x, (0, -width % 3, 0, -height % 3))
    y = y + torch.ones(1, 2, 3, 3).tile([1, 1, y.shape[2] // 3, y.shape[3] // 3])
    return y[:, :, :height, :width] + x, functional.avg_pool2d(x, 8)
