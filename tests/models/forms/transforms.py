"""torch.func: maps over a batch, derivatives, and modules as functions of their weights."""

from __future__ import annotations

import copy

import torch
from models.forms.form import floats, form
from torch import nn
from torch.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)
from torch.nn import functional

__all__: list[str] = []


def _net(returned: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, returned))


class _WithNet(nn.Module):
    def __init__(self, returned: int = 1) -> None:
        super().__init__()
        self.net = _net(returned)


@form(floats("batch", 4), floats("batch", 4))
def mapped(x, y):
    return vmap(torch.dot)(x, y)


@form(floats(4, "batch"), floats(4))
def mapped_over_other_dimensions(x, y):
    return vmap(lambda one, other: one * other + one.sum(), in_dims=(1, None), out_dims=1)(x, y)


@form(floats("batch", 4), floats("length", 4))
def mapped_twice(x, y):
    """Every pair of rows."""
    return vmap(vmap(lambda one, other: (one - other).square().sum(), (None, 0)), (0, None))(x, y)


@form(floats("batch", 4))
class MappedModule(_WithNet):
    def forward(self, x):
        return vmap(self.net)(x)


@form(floats("batch", "length", 4))
def mapped_with_conditions(x):
    def one(row):
        kept = torch.where(row > 0, row, torch.zeros_like(row))
        return kept.cumsum(0) / (1 + kept.amax())

    return vmap(one)(x)


@form(floats("batch", 4))
class EnsembleOfStackedState(nn.Module):
    """An ensemble whose weights are stacked when it is built."""

    def __init__(self) -> None:
        super().__init__()
        members = [_net(2) for _ in range(3)]
        self.base = copy.deepcopy(members[0])
        weights, _ = stack_module_state(members)
        self.names = tuple(weights)
        self.stacked = nn.ParameterList(weight.detach() for weight in weights.values())

    def forward(self, x):
        weights = dict(zip(self.names, self.stacked, strict=True))
        return vmap(lambda each: functional_call(self.base, each, (x,)))(weights).mean(dim=0)


@form(floats("batch", 4))
class EnsembleStackedInForward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.members = nn.ModuleList(nn.Linear(4, 2) for _ in range(3))

    def forward(self, x):
        weights = {name: torch.stack([dict(m.named_parameters())[name] for m in self.members]) for name in _LINEAR}
        return vmap(lambda each, given: functional_call(self.members[0], each, (given,)), in_dims=(0, None))(weights, x)


_LINEAR = ("weight", "bias")


@form(floats("batch", 4))
class GradientFunction(_WithNet):
    def forward(self, x):
        return grad(lambda given: self.net(given).sum())(x)


@form(floats("batch", 4))
class GradientAndValue(_WithNet):
    def forward(self, x):
        slope, value = grad_and_value(lambda given: self.net(given).square().sum())(x)
        return value, slope


@form(floats("batch", 4), floats("batch", 1))
class PerSampleGradients(_WithNet):
    def forward(self, x, target):
        def loss(weights, one, wanted):
            return functional.mse_loss(functional_call(self.net, weights, (one,)), wanted)

        weights = {name: weight.detach() for name, weight in self.net.named_parameters()}
        return vmap(grad(loss), in_dims=(None, 0, 0))(weights, x, target)


@form(floats("length"))
def reverse_jacobian(x):
    return jacrev(lambda given: given.sin() * given.sum())(x)


@form(floats("length"))
def forward_jacobian(x):
    return jacfwd(lambda given: given.sin() * given.sum())(x)


@form(floats(4))
class HessianOfNetwork(_WithNet):
    def forward(self, x):
        return hessian(lambda given: self.net(given).sum())(x)


@form(floats("batch", 4), floats("batch", 3))
class VectorJacobianProduct(_WithNet):
    def __init__(self) -> None:
        super().__init__(3)

    def forward(self, x, direction):
        value, pull = vjp(self.net, x)
        return value, pull(direction)[0]


@form(floats("batch", 4), floats("batch", 4))
class JacobianVectorProduct(_WithNet):
    def forward(self, x, direction):
        return jvp(self.net, (x,), (direction,))


@form(floats("batch", 4))
class JacobianOfEachSample(_WithNet):
    def __init__(self) -> None:
        super().__init__(3)

    def forward(self, x):
        return vmap(jacrev(self.net))(x)


@form(floats("batch", 3))
def laplacian_of_each_sample(x):
    def potential(point):
        return torch.exp(-point.square().sum())

    return vmap(hessian(potential))(x).diagonal(dim1=-2, dim2=-1).sum(-1)


@form(floats("batch", 4))
class ChangedWeights(_WithNet):
    """A module called with weights that forward computes."""

    def forward(self, x):
        weights = {name: weight * 0.5 + 0.1 for name, weight in self.net.named_parameters()}
        return functional_call(self.net, weights, (x,)) - self.net(x)


@form(floats("batch", 4), floats("batch", 4))
class Linearised(_WithNet):
    def forward(self, x, direction):
        value, push = linearize(self.net, x)
        return value, push(direction)


@form(floats("batch", 4), floats("batch", 4))
class TangentOfGradient(_WithNet):
    """A Hessian-vector product: forward mode over reverse mode."""

    def forward(self, x, direction):
        return jvp(grad(lambda given: self.net(given).sum()), (x,), (direction,))[1]


@form(floats("batch", 4))
class FunctionalCallOfState(nn.Module):
    """functional_call with buffers as well, in evaluation mode."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))

    def forward(self, x):
        state = dict(self.net.state_dict(keep_vars=True))
        state["1.running_mean"] = x.mean() + state["1.running_mean"]
        return functional_call(self.net, state, (x,))
