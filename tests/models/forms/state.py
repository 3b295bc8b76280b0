"""Tied weights, buffers, and writes in place."""

from __future__ import annotations

import copy

import torch
from models.forms.form import floats, form, integers
from torch import nn

__all__: list[str] = []


@form(integers(9, "batch", "length"))
class TiedWeights(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(9, 4)
        self.head = nn.Linear(4, 9, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids):
        return self.head(self.embedding(ids))


@form(
    floats("batch", 3, 4, 4),
    builds=True,
)
def batch_norm_in_training():
    return nn.Sequential(nn.Conv2d(3, 2, 1), nn.BatchNorm2d(2), nn.ReLU()).train()


@form(floats("batch", 4))
class CountedCalls(nn.Module):
    """A buffer that each call writes to before it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.calls += 1
        return x * self.calls


@form(floats("batch", 4))
class ReassignedBuffer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.ones(4))

    def forward(self, x):
        self.mean = 0.9 * self.mean + 0.1 * x.mean(dim=0)
        return x - self.mean


@form(floats(2, "length", 4))
class WrittenCache(nn.Module):
    """A cache of fixed size that holds what each call gives it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(2, 16, 4), persistent=False)

    def forward(self, x):
        self.cache[:, : x.shape[1]] = x
        return self.cache.sum(dim=1)


@form(floats("batch", "length", 4))
def writes_to_views(x):
    x = x.clone()
    x[:, 0].mul_(2)
    x[..., 1:3] += 1
    x.view(-1, 4)[:, 3].zero_()
    x.transpose(0, 1)[0].neg_()
    return x


@form(floats("batch", 4))
def writes_by_mask(x):
    y = x.clone()
    y[y < 0] = 0.5
    y.masked_fill_(x > 1, 1.0)
    return y


@form(floats("batch", 4), integers(4, "batch"))
def writes_by_index(x, at):
    y = torch.zeros_like(x)
    y[torch.arange(x.shape[0]), at] = 1.0
    return y.scatter_add_(1, at[:, None], x[:, :1])


@form(floats("batch", 4))
def changed_input(x):
    x.mul_(2)
    x[:, 0] = 1
    return x + 1


@form(floats("batch", 4))
def copied_tensor(x):
    kept = copy.deepcopy(x)
    x = x.clone().add_(1)
    return kept * x


@form(floats("batch", 4))
class CopiedModule(nn.Module):
    """A module that forward copies and changes."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        other = copy.deepcopy(self.linear)
        with torch.no_grad():
            other.weight.mul_(0.5)
        return other(x) + self.linear(x)


@form(floats("batch", 4))
class PlainTensorAttribute(nn.Module):
    """Tensors that are neither parameters nor buffers, one made in forward and kept."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.arange(4.0)
        self.kept = None

    def forward(self, x):
        if self.kept is None:
            self.kept = torch.tensor([1.0, 2.0, 3.0, 4.0])
        return x * self.scale + self.kept


@form(floats("batch", 4))
class UpdatedWithoutGrad(nn.Module):
    """An exponential moving average, as vector quantisation keeps it."""

    def __init__(self) -> None:
        super().__init__()
        self.codes = nn.Parameter(torch.randn(5, 4))

    def forward(self, x):
        nearest = torch.cdist(x, self.codes).argmin(dim=-1)
        with torch.no_grad():
            self.codes.mul_(0.5)
        return self.codes[nearest]


@form(floats("batch", 4))
def list_of_tensors(x):
    rows = []
    for step in range(3):
        rows.append(x * step)
    rows[1] += 1
    return torch.stack(rows, dim=1)
