"""Modules and functions of TorchScript: control flow, lists, state, and sizes."""

from __future__ import annotations

import torch
from models.forms.form import floats, form
from torch import nn

__all__: list[str] = []


class _Branches(nn.Module):
    def __init__(self, deep: bool) -> None:
        super().__init__()
        self.deep = deep
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.register_buffer("shift", torch.ones(4))

    def forward(self, x: torch.Tensor, scale: float = 2.0) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        found: list[torch.Tensor] = []
        if self.deep and x.dim() == 2:
            for layer in self.layers:
                x = torch.relu(layer(x))
                found.append(x)
        else:
            found.append(x * scale)
        if x.size(-1) != 4:
            raise ValueError(f"The last size is {x.size(-1)}.")
        return torch.cat(found, dim=0) + self.shift, {"last": found[-1][:, 1:]}


@form(floats("batch", 4), builds=True)
def scripted_branches():
    return torch.jit.script(_Branches(deep=True).eval())


@form(floats("batch", 4), builds=True)
def scripted_other_branch():
    return torch.jit.script(_Branches(deep=False).eval())


@torch.jit.script
def _normalised(x: torch.Tensor, dim: int = -1, shift: torch.Tensor | None = None) -> torch.Tensor:
    y = x.to(torch.float64)
    if shift is not None:
        y = y + shift
    size = y.shape[dim] // 1
    zeros = torch.zeros([y.shape[0], 1], dtype=torch.float64)
    return ((y - y.mean(dim, keepdim=True)) / (size + 1) + zeros).float()


@form(floats("batch", "length"))
def scripted_function_of_sizes(x):
    return _normalised(x), _normalised(x, 0, shift=x[:1])


@form(floats("batch", 4), builds=True)
def scripted_function_itself():
    return torch.jit.script(_weighted)


def _weighted(x: torch.Tensor) -> torch.Tensor:
    total = torch.zeros_like(x[:, 0])
    for i in range(x.size(1)):
        total = total + x[:, i] * float(i + 1)
    return total


class _Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.scale = nn.Parameter(torch.full((4,), 3.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return x * self.scale + self.count


@form(floats("batch", 4))
class ScriptThatWritesToBuffer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.jit.script(_Counting())

    def forward(self, x):
        return self.inner(x)


@form(floats("batch", 1, 6, 6), builds=True)
def traced_convolutions():
    layers = nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(12, 2)
    )
    return torch.jit.trace(layers.eval(), torch.randn(2, 1, 6, 6))


class _Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        return x + self.attention(y, y, y, need_weights=False)[0]


@form(floats("batch", "length", 4), builds=True)
def scripted_attention():
    return torch.jit.script(_Encoder().eval())
