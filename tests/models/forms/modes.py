"""Gradient modes, checkpoints and autocast."""

from __future__ import annotations

import torch
from models.forms.form import floats, form
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

__all__: list[str] = []


class _WithLinear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)


@form(floats("batch", 4))
class NoGradInside(_WithLinear):
    def forward(self, x):
        with torch.no_grad():
            scale = self.linear(x).norm(dim=-1, keepdim=True)
        return self.linear(x) / scale


@form(floats("batch", 4))
class EnableGradInside(_WithLinear):
    def forward(self, x):
        with torch.enable_grad():
            x = self.linear(x)
        with torch.set_grad_enabled(False):
            return x.relu()


@form(floats("batch", 4))
class InferenceModeInside(_WithLinear):
    def forward(self, x):
        with torch.inference_mode():
            return self.linear(x).relu()


@form(floats("batch", 4))
class DecoratedByInferenceMode(_WithLinear):
    @torch.inference_mode()
    def forward(self, x):
        return self.linear(x).softmax(dim=-1)


@form(floats("batch", 4))
class Checkpointed(_WithLinear):
    def forward(self, x):
        return checkpoint(lambda given: self.linear(given).relu(), x, use_reentrant=False)


@form(floats("batch", 4))
class CheckpointedReentrantly(_WithLinear):
    def forward(self, x):
        return checkpoint(lambda given: self.linear(given).relu(), x, use_reentrant=True)


@form(floats("batch", 4))
class CheckpointedSequence(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(4, 4) for _ in range(4)))

    def forward(self, x):
        return checkpoint_sequential(self.layers, 2, x, use_reentrant=False)


@form(floats("batch", 4))
class GradientThroughCheckpoint(_WithLinear):
    def forward(self, x):
        x = x.detach().requires_grad_()
        energy = checkpoint(lambda given: self.linear(given).square().sum(), x, use_reentrant=False)
        return torch.autograd.grad(energy, x)[0]


@form(floats("batch", 4), rtol=3e-2, atol=3e-2)
class Autocast(_WithLinear):
    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            x = self.linear(x)
            return x.softmax(dim=-1).float()


@form(floats("batch", 4), rtol=3e-2, atol=3e-2)
class AutocastWithIsland(_WithLinear):
    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            x = self.linear(x)
            with torch.autocast("cpu", enabled=False):
                x = self.linear(x.float())
            return self.linear(x).float()


@form(floats("batch", 4), rtol=3e-2, atol=3e-2)
class DecoratedByAutocast(_WithLinear):
    @torch.autocast("cpu", torch.bfloat16)
    def forward(self, x):
        return (self.linear(x) @ x.transpose(0, 1)).float()


@form(floats("batch", 4))
class RecordedForProfiler(_WithLinear):
    def forward(self, x):
        with torch.profiler.record_function("inner"):
            return self.linear(x)


@form(floats("batch", 4))
class DefaultsChanged(_WithLinear):
    """A context that makes another dtype and device the default of factory functions."""

    def forward(self, x):
        with torch.device("cpu"):
            return self.linear(x) + torch.ones(4)
