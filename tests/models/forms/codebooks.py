"""Vector quantisation: codebooks, straight-through gradients, and buffers that each call updates."""

from __future__ import annotations

import torch
from models.forms.form import floats, form
from torch import nn
from torch.nn import functional

__all__: list[str] = []

_X = floats("batch", "length", 4)


class _Codebook(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.codes = nn.Embedding(6, 4)

    def nearest(self, x):
        flat = x.reshape(-1, 4)
        weight = self.codes.weight
        distances = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ weight.t() + weight.pow(2).sum(1)
        return distances.argmin(dim=1)


@form(_X)
class StraightThrough(_Codebook):
    """VQ-VAE: the value of the code, the gradient of the input, and the loss between the two."""

    def forward(self, x):
        at = self.nearest(x)
        quantised = self.codes(at).view_as(x)
        loss = functional.mse_loss(quantised.detach(), x) + 0.25 * functional.mse_loss(quantised, x.detach())
        return x + (quantised - x).detach(), loss, at.view(x.shape[:-1])


@form(_X)
class OneHotCodes(_Codebook):
    """Codes by products with one-hot rows, and how evenly they are used."""

    def forward(self, x):
        at = self.nearest(x).unsqueeze(1)
        rows = torch.zeros(at.shape[0], 6, device=x.device)
        rows.scatter_(1, at, 1)
        used = rows.mean(dim=0)
        return (rows @ self.codes.weight).view(x.shape), torch.exp(-(used * (used + 1e-10).log()).sum())


@form(_X)
class AverageOfCodes(nn.Module):
    """Codes that follow an exponential moving average, also in evaluation."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("codes", torch.randn(6, 4))
        self.register_buffer("sizes", torch.ones(6))
        self.register_buffer("total", torch.randn(6, 4))
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        flat = x.flatten(0, 1)
        rows = functional.one_hot(torch.cdist(flat, self.codes).argmin(-1), 6).type(flat.dtype)
        quantised = (rows @ self.codes).view_as(x)
        self.sizes.mul_(0.9).add_(rows.sum(0), alpha=0.1)
        self.total.data.mul_(0.9).add_(rows.t() @ flat, alpha=0.1)
        size = self.sizes.sum()
        smoothed = (self.sizes + 1e-5) / (size + 6e-5) * size
        self.codes.copy_(self.total / smoothed.unsqueeze(1))
        self.updates += 1
        return quantised, self.codes * self.updates


@form(_X)
class ResidualCodes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.levels = nn.ModuleList([_Codebook() for _ in range(3)])

    def forward(self, x):
        residual, total, found = x, torch.zeros_like(x), []
        for level in self.levels:
            at = level.nearest(residual)
            quantised = level.codes(at).view_as(x)
            residual, total = residual - quantised, total + quantised
            found.append(at)
        return total, torch.stack(found, dim=-1)


@form(_X)
def finite_scalars(x):
    """FSQ: levels by rounding, and an index of them."""
    levels = torch.tensor([8, 5, 5, 3])
    half = (levels - 1) * 1.001 / 2
    offset = torch.where(levels % 2 == 0, 0.5, 0.0)
    bounded = (x + (offset / half).atanh()).tanh() * half - offset
    rounded = bounded + (bounded.round() - bounded).detach()
    basis = torch.cumprod(torch.cat([torch.ones(1, dtype=torch.int64), levels[:-1]]), 0)
    return rounded / (levels // 2), ((rounded + levels // 2) * basis).sum(-1).to(torch.int32)


@form(_X)
def binary_codes(x):
    signs = torch.where(x > 0, 1.0, -1.0)
    return x + (signs - x).detach(), ((x > 0).int() * 2 ** torch.arange(3, -1, -1, dtype=torch.int32)).sum(-1)


@form(_X)
class GumbelCodes(nn.Module):
    """Hard choices without noise, with the gradient of the soft ones."""

    def __init__(self) -> None:
        super().__init__()
        self.logits, self.codes = nn.Linear(4, 6), nn.Parameter(torch.randn(6, 4))

    def forward(self, x):
        soft = self.logits(x).softmax(-1)
        hard = torch.zeros_like(soft).scatter_(-1, soft.max(-1, keepdim=True)[1], 1.0)
        return (hard - soft.detach() + soft) @ self.codes


@form(_X)
class MemoryBank(nn.Module):
    """A queue in a buffer, with the place of the next row in another."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("queue", functional.normalize(torch.randn(4, 8), dim=0))
        self.register_buffer("next", torch.zeros(1, dtype=torch.long))

    def forward(self, x):
        keys = functional.normalize(x.mean(1), dim=1)
        scores = keys @ self.queue.clone().detach()
        self.queue[:, 0:1] = keys[:1].t()
        self.next[0] = (self.next + 1) % 8
        return scores, self.queue.sum(0) + self.next
