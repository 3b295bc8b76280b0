"""Gradients in forward, by autograd."""

from __future__ import annotations

import torch
from models.forms.form import floats, form, integers
from torch import nn
from torch.autograd import grad
from torch.nn import functional

__all__: list[str] = []


def _net(inner: int = 8, given: int = 4, returned: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.Linear(given, inner), nn.Tanh(), nn.Linear(inner, returned))


@form(floats("batch", 4))
class ForcesOfNetwork(nn.Module):
    """The negative gradient of an energy, with requires_grad_ on the input itself."""

    def __init__(self) -> None:
        super().__init__()
        self.net = _net()

    def forward(self, x):
        x.requires_grad_(True)
        energy = self.net(x)
        return energy, -grad(energy.sum(), x)[0]


@form(floats("batch", "length", 3))
def forces_of_pairs(positions):
    """The forces of a potential of the distances between all pairs of points."""
    positions = positions.detach().requires_grad_()
    squares = (positions.unsqueeze(2) - positions.unsqueeze(1)).square().sum(-1)
    energy = (1 / (1 + squares)).sum(dim=(1, 2))
    return energy, -grad(energy.sum(), positions)[0]


@form(floats("batch", 4))
class SecondDerivative(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = _net()

    def forward(self, x):
        x = x.clone().requires_grad_()
        first = grad(self.net(x).sum(), x, create_graph=True)[0]
        return first, grad(first.square().sum(), x)[0]


@form(floats("batch", 4), floats("batch", 2))
class GradientOfParameter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 2)

    def forward(self, x, target):
        loss = functional.mse_loss(self.linear(x), target)
        return grad(loss, [self.linear.weight, self.linear.bias])


@form(floats("batch", 4))
class BackwardOfInnerLoss(nn.Module):
    """Tensor.backward, and the gradient from the attribute of a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.net = _net()

    def forward(self, x):
        x = x.detach().clone().requires_grad_()
        self.net(x).square().mean().backward()
        return x.grad


@form(floats("batch", 4), floats("batch", 1), floats("length", 4))
class InnerGradientDescent(nn.Module):
    """Two steps on a support set, as in MAML, then a query with the weights that they give."""

    def __init__(self) -> None:
        super().__init__()
        self.net = _net()

    def forward(self, support, target, query):
        weights = dict(self.net.named_parameters())
        for _ in range(2):
            loss = functional.mse_loss(torch.func.functional_call(self.net, weights, (support,)), target)
            steps = grad(loss, list(weights.values()), create_graph=True)
            weights = {name: weight - 0.1 * step for (name, weight), step in zip(weights.items(), steps, strict=True)}
        return torch.func.functional_call(self.net, weights, (query,))


@form(floats("batch", 4), floats("batch", 4))
class GradientPenalty(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.critic = _net()

    def forward(self, real, fake):
        between = (0.3 * real + 0.7 * fake).requires_grad_(True)
        scores = self.critic(between)
        slopes = grad(scores, between, grad_outputs=torch.ones_like(scores), create_graph=True, retain_graph=True)[0]
        return (slopes.flatten(1).norm(2, dim=1) - 1).square().mean()


@form(floats("batch", 4))
class EnableGradInsideNoGrad(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = _net()

    @torch.no_grad()
    def forward(self, x):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            force = -grad(self.net(x).sum(), x)[0]
        return self.net(x + 0.1 * force)


@form(floats("batch", "length", 4))
class GradientThroughLayerNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4)

    def forward(self, x):
        x = x.detach().requires_grad_()
        return grad(self.norm(x).square().mul(x.detach()).sum(), x)[0]


@form(floats("batch", 2, 6, 6))
class GradientThroughConvolution(nn.Module):
    """A saliency map: the gradient of the highest score with respect to the image."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2))
        self.head = nn.Linear(27, 5)

    def forward(self, image):
        image = image.detach().requires_grad_()
        scores = self.head(self.net(image).flatten(1))
        return grad(scores.amax(dim=1).sum(), image)[0].abs().amax(dim=1)


@form(floats("batch", "length", 8))
class GradientThroughAttention(nn.Module):
    def forward(self, x):
        x = x.detach().requires_grad_()
        heads = x.unflatten(-1, (2, 4)).transpose(1, 2)
        mixed = functional.scaled_dot_product_attention(heads, heads, heads)
        return grad(mixed.square().sum(), x)[0]


@form(integers(7, "batch", "length"))
class GradientThroughEmbedding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 4)

    def forward(self, ids):
        embedded = self.embedding(ids)
        by_token, by_weight = grad(embedded.square().sum(), [embedded, self.embedding.weight])
        return by_token.norm(dim=-1), by_weight


@form(floats(4))
def jacobian_of_function(x):
    return torch.autograd.functional.jacobian(lambda value: value.sin() * value.sum(), x)


@form(floats("length"))
def vectorised_jacobian(x):
    return torch.autograd.functional.jacobian(lambda value: value.sin() * value.sum(), x, vectorize=True)


@form(floats(4))
class JacobianOfModule(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = _net(returned=3)

    def forward(self, x):
        return torch.autograd.functional.jacobian(self.net, x, create_graph=True).square().sum()


@form(floats("batch", 4))
class LangevinSteps(nn.Module):
    """Samples of an energy-based model: a loop in which each step takes the gradient at the last point."""

    def __init__(self) -> None:
        super().__init__()
        self.energy = _net()

    def forward(self, x):
        for _ in range(3):
            x = x.detach().requires_grad_()
            x = x - 0.2 * grad(self.energy(x).sum(), x)[0]
        return x.detach()


@form(floats("batch", 4), floats("batch", 4))
class HessianVectorProduct(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = _net()

    def forward(self, x, direction):
        x = x.detach().requires_grad_()
        slope = grad(self.net(x).sum(), x, create_graph=True)[0]
        return grad((slope * direction).sum(), x)[0]


@form(floats("batch", 4))
def gradient_past_detach(x):
    """What is detached is a constant of the gradient: a straight-through estimator."""
    x = x.clone().requires_grad_()
    rounded = x + (x.round() - x).detach()
    return rounded, grad((rounded * x.detach()).sum(), x)[0]


@form(floats("batch", 4), floats("batch", 4))
def gradient_of_unused_input(x, y):
    x, y = x.clone().requires_grad_(), y.clone().requires_grad_()
    by_x, by_y = grad(x.exp().sum(), [x, y], allow_unused=True)
    return by_x, torch.zeros_like(y) if by_y is None else by_y


@form(floats("batch", 4))
def gradient_changed_by_hook(x):
    x = x.clone().requires_grad_()
    inner = x.tanh()
    inner.register_hook(lambda slope: slope.clamp(-0.5, 0.5))
    return grad((inner.square() * 3).sum(), x)[0]


@form(floats("batch", "length", 4))
class GradientThroughRecurrence(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(4, 4)

    def forward(self, x):
        x = x.detach().requires_grad_()
        state = x[:, 0]
        for step in range(2):
            state = self.cell(x[:, step], state)
        return grad(state.sum(), x)[0]
