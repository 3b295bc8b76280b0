"""Parametrisations, hooks, and parts that are compiled or scripted."""

from __future__ import annotations

import torch
from models.forms.form import floats, form
from torch import nn
from torch.nn.utils import parametrizations, parametrize

__all__: list[str] = []

_X = floats("batch", 4)


class _Symmetric(nn.Module):
    def forward(self, weight):
        return weight.triu() + weight.triu(1).transpose(-1, -2)


@form(_X, builds=True)
def symmetric_weight():
    layer = nn.Linear(4, 4)
    parametrize.register_parametrization(layer, "weight", _Symmetric())
    return layer.eval()


@form(_X)
class CachedParametrization(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        parametrize.register_parametrization(self.layer, "weight", _Symmetric())

    def forward(self, x):
        with parametrize.cached():
            return self.layer(self.layer(x))


@form(_X, builds=True)
def weight_norm():
    return parametrizations.weight_norm(nn.Linear(4, 3)).eval()


@form(_X, builds=True)
def spectral_norm():
    return parametrizations.spectral_norm(nn.Linear(4, 3)).eval()


@form(_X, builds=True)
def orthogonal_weight():
    return parametrizations.orthogonal(nn.Linear(4, 4)).eval()


@form(_X, builds=True)
def old_weight_norm():
    return nn.utils.weight_norm(nn.Linear(4, 3)).eval()


@form(_X, builds=True)
def old_spectral_norm():
    return nn.utils.spectral_norm(nn.Linear(4, 3)).eval()


def _layers() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2)).eval()


@form(_X, builds=True)
def pre_hook():
    layers = _layers()
    layers[2].register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    return layers


@form(_X, builds=True)
def hook_that_changes_output():
    layers = _layers()
    layers[0].register_forward_hook(lambda module, args, output: output + args[0])
    return layers


@form(_X, builds=True)
def hook_on_model():
    layers = _layers()
    layers.register_forward_hook(lambda module, args, output: {"scores": output, "best": output.argmax(-1)})
    return layers


@form(_X, builds=True)
def unused_backward_hook():
    layers = _layers()
    layers[0].register_full_backward_hook(lambda module, given, returned: None)
    layers[2].register_full_backward_pre_hook(lambda module, returned: None)
    return layers


@form(_X)
class FeaturesByHook(nn.Module):
    """A hook that stores the activations of a layer for forward to return."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = _layers()
        self.seen = {}
        self.layers[1].register_forward_hook(lambda module, args, output: self.seen.update(inner=output))

    def forward(self, x):
        return self.layers(x), self.seen.pop("inner")


@form(_X)
class CompiledSubmodule(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.compile(_layers(), backend="eager")

    def forward(self, x):
        return self.layers(x) + 1


@torch.compile(backend="eager")
def _compiled(x):
    return x.sin() + x.cos()


@form(_X)
def compiled_function(x):
    return _compiled(x) * 2


@form(_X, builds=True)
def compiled_model():
    return torch.compile(_layers(), backend="eager")


@form(_X)
class DynamoDisabled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = _layers()

    @torch.compiler.disable
    def after(self, x):
        return x.relu()

    def forward(self, x):
        return self.after(self.layers(x))


class _Loop(nn.Module):
    """Python that a script keeps: a loop over a size."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, steps: int) -> torch.Tensor:
        for _ in range(steps):
            x = torch.tanh(self.linear(x))
        return x


@form(_X)
class ScriptedSubmodule(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.loop = torch.jit.script(_Loop())

    def forward(self, x):
        return self.loop(x, 2)


@form(_X)
class TracedSubmodule(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.jit.trace(_layers(), torch.randn(2, 4))

    def forward(self, x):
        return self.layers(x).relu()


@torch.jit.script
def _scripted(x: torch.Tensor, shift: float) -> torch.Tensor:
    y = x * x.size(0)
    return torch.relu(y + shift)


@form(_X)
def scripted_function(x):
    return _scripted(x, 0.5)


@form(_X, builds=True)
def scripted_model():
    return torch.jit.script(_layers())


@form(_X, builds=True)
def symbolically_traced_model():
    return torch.fx.symbolic_trace(_layers())
