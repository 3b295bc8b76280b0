"""torch.distributions, with its checks of arguments on."""

from __future__ import annotations

import torch
from models.forms.form import floats, form, integers
from torch import distributions, nn

__all__: list[str] = []

_X = floats("batch", 4)
# Checks of values are operators of their own, which libtorch computes where there is no translation of them.
_CHECKED = {"export": {"allow": ("standard", "function", "kernel", "aten")}}


@form(_X, _X)
def normal_distribution(mean, log_scale):
    """An actor: its log-probabilities and entropy."""
    found = distributions.Normal(mean, log_scale.exp())
    return found.log_prob(mean * 2), found.entropy(), found.cdf(mean + 1), found.mean + found.variance


@form(_X, _X, **_CHECKED)
def independent_normal(mean, log_scale):
    found = distributions.Independent(distributions.Normal(mean, log_scale.exp(), validate_args=True), 1)
    return found.log_prob(mean + 0.5), found.entropy()


@form(_X)
def categorical_distribution(logits):
    found = distributions.Categorical(logits=logits)
    return found.log_prob(logits.argmax(-1)), found.entropy(), found.probs


@form(_X)
def categorical_of_probabilities(logits):
    return distributions.Categorical(logits.softmax(-1)).logits, distributions.OneHotCategorical(logits=logits).mean


@form(_X, integers(2, "batch", 4))
def bernoulli_distribution(logits, taken):
    found = distributions.Bernoulli(logits=logits)
    return found.log_prob(taken.float()), found.entropy(), found.mean


@form(_X, _X)
def divergences(mean, scale):
    left = distributions.Normal(mean, scale.exp())
    right = distributions.Normal(torch.zeros_like(mean), torch.ones_like(mean))
    first, second = distributions.Categorical(logits=mean), distributions.Categorical(logits=scale)
    return distributions.kl_divergence(left, right), distributions.kl_divergence(first, second)


@form(_X, _X)
def squashed_normal(mean, scale):
    """Soft actor-critic: a normal through tanh, by transforms."""
    base = distributions.Normal(mean, scale.exp())
    found = distributions.TransformedDistribution(base, [distributions.TanhTransform(cache_size=1)])
    return found.log_prob(torch.tanh(mean)), torch.tanh(base.mean)


@form(_X)
def mixture(x):
    weights = distributions.Categorical(logits=x)
    parts = distributions.Normal(torch.arange(4.0).expand_as(x), torch.ones_like(x))
    found = distributions.MixtureSameFamily(weights, parts)
    return found.log_prob(x[:, 0]), found.mean


@form(_X)
def other_distributions(x):
    positive = x.exp()
    return (
        distributions.Exponential(positive).log_prob(positive),
        distributions.Gamma(positive, positive).log_prob(positive),
        distributions.Beta(positive, positive).log_prob(x.sigmoid()),
        distributions.Laplace(x, positive).log_prob(x),
        distributions.Poisson(positive).log_prob(torch.ones_like(x)),
        distributions.Uniform(x, x + positive).log_prob(x + positive / 2),
        distributions.LogNormal(x, positive).log_prob(positive),
        distributions.StudentT(positive).log_prob(x),
        distributions.Cauchy(x, positive).log_prob(x),
        distributions.Gumbel(x, positive).log_prob(x),
    )


@form(_X)
def dirichlet(x):
    found = distributions.Dirichlet(x.exp())
    return found.log_prob(x.softmax(-1)), found.entropy(), found.mean


@form(_X)
class MultivariateNormal(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.randn(4, 4))

    def forward(self, x):
        covariance = self.factor @ self.factor.t() + torch.eye(4)
        return distributions.MultivariateNormal(torch.zeros(4), covariance).log_prob(x)


@form(_X, _X)
def low_rank_and_diagonal(x, scale):
    found = distributions.MultivariateNormal(x, scale_tril=torch.diag_embed(scale.exp()))
    return found.log_prob(x + 1), found.entropy()


@form(_X)
def without_checks(x):
    return distributions.Normal(x, x.exp(), validate_args=False).log_prob(x + 1)


@form(_X, **_CHECKED)
def checked_values(x):
    torch._check_tensor_all(x.abs() >= 0, lambda: "negative")
    torch._assert_async((x.abs() >= 0).all())
    torch._assert((x.abs() >= 0).all(), "negative")
    return x * 2


@form(_X, _X)
class VariationalEncoder(nn.Module):
    """The mean in evaluation, a sample in training; the noise is an input."""

    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = nn.Linear(4, 6), nn.Linear(3, 4)

    def forward(self, x, noise):
        mean, log_variance = self.encode(x).chunk(2, dim=-1)
        deviation = (0.5 * log_variance).exp()
        kl = -0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).sum()
        return self.decode(mean + deviation * noise[:, :3]), kl


@form(floats("batch", 3, 6, 6))
class AffineAugmentation(nn.Module):
    """kornia's RandomAffine: parameters from a distribution, whose range is a point, so that the result is known."""

    def forward(self, x):
        batch = x.shape[0]
        angles = distributions.Uniform(10.0, 10.001, validate_args=False).rsample((batch,)).round()
        radians = torch.deg2rad(angles)
        chosen = distributions.Bernoulli(torch.tensor(1.0)).sample((batch,))
        rows = torch.stack([radians.cos(), -radians.sin(), torch.zeros(batch)], -1)
        columns = torch.stack([radians.sin(), radians.cos(), torch.zeros(batch)], -1)
        grid = nn.functional.affine_grid(torch.stack([rows, columns], 1), x.shape, align_corners=False)
        moved = nn.functional.grid_sample(x, grid, align_corners=False)
        return torch.where(chosen.view(-1, 1, 1, 1) == 1, moved, x)


@form(floats("batch", 3, 6, 6))
class ColourJitter(nn.Module):
    """kornia's ColorJitter: factors of each image, in an order that is drawn."""

    def forward(self, x):
        factors = torch.empty(x.shape[0]).uniform_(0.8, 1.2).clamp(1.1, 1.1).view(-1, 1, 1, 1)
        order = torch.randperm(3)
        for at in range(3):
            x = torch.where(order[at] >= 0, (x * factors).clamp(-3, 3), x)
        grey = (x * torch.tensor([0.299, 0.587, 0.114]).view(3, 1, 1)).sum(1, keepdim=True)
        return grey + (x - grey) * factors


@form(_X)
def dropped_in_training(x):
    """Random operators that change nothing by their arguments."""
    return nn.functional.dropout(x, 0.0, training=True) + torch.rand_like(x) * 0 + torch.bernoulli(torch.ones_like(x))
