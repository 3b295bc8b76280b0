"""Messages along the edges of graphs, by scatter operators: what torch_geometric does in plain torch."""

from __future__ import annotations

import torch
from models.forms.form import floats, form, integers
from torch import nn
from torch.nn import functional

__all__: list[str] = []

_NODES = floats("batch", 4)
_EDGES = integers(2, 2, "length")  # below every number of nodes but one, which is given its own sizes
_SIZES = {"others": ({"batch": 2, "length": 4}, {"batch": 4, "length": 7}, {"batch": 6, "length": 3})}


def _broadcast(index, values):
    return index.view(-1, *[1] * (values.dim() - 1)).expand_as(values)


def _scattered(values, index, count, reduce="sum"):
    """torch_geometric.utils.scatter."""
    if reduce in ("sum", "add"):
        return values.new_zeros(count, *values.shape[1:]).scatter_add_(0, _broadcast(index, values), values)
    if reduce == "mean":
        sizes = values.new_zeros(count).scatter_add_(0, index, values.new_ones(values.shape[0]))
        total = values.new_zeros(count, *values.shape[1:]).scatter_add_(0, _broadcast(index, values), values)
        return total / sizes.clamp(min=1).view(-1, *[1] * (values.dim() - 1))
    made = values.new_zeros(count, *values.shape[1:])
    return made.scatter_reduce_(0, _broadcast(index, values), values, reduce, include_self=False)


def _softmax_of(values, index, count):
    """torch_geometric.utils.softmax."""
    largest = _scattered(values.detach(), index, count, "amax").index_select(0, index)
    exponents = (values - largest).exp()
    return exponents / (_scattered(exponents, index, count).index_select(0, index) + 1e-16)


@form(_NODES, _EDGES, **_SIZES)
class GraphAttention(nn.Module):
    """GAT, with loops added to the edges and a softmax over the neighbours of each node."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 6, bias=False)
        self.source, self.target = nn.Parameter(torch.randn(1, 2, 3)), nn.Parameter(torch.randn(1, 2, 3))
        self.bias = nn.Parameter(torch.randn(6))

    def forward(self, x, edges):
        count = x.size(0)
        kept = edges[0] != edges[1]
        loops = torch.arange(count).unsqueeze(0).repeat(2, 1)
        edges = torch.cat([edges[:, kept], loops], dim=1)
        features = self.linear(x).view(-1, 2, 3)
        alpha = (features * self.source).sum(-1)[edges[0]] + (features * self.target).sum(-1)[edges[1]]
        alpha = _softmax_of(functional.leaky_relu(alpha, 0.2), edges[1], count)
        mixed = _scattered(features[edges[0]] * alpha.unsqueeze(-1), edges[1], count)
        return mixed.view(-1, 6) + self.bias


@form(_NODES, _EDGES, **_SIZES)
class NormalisedConvolution(nn.Module):
    """GCN: edges are weighted by the degrees of both ends."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3, bias=False)

    def forward(self, x, edges):
        source, target = torch.cat([edges, torch.arange(x.size(0)).expand(2, -1)], dim=1)
        degree = torch.zeros(x.size(0)).scatter_add_(0, target, torch.ones(target.numel()))
        scale = degree.pow(-0.5)
        scale[scale == float("inf")] = 0
        weights = scale[source] * scale[target]
        return _scattered(self.linear(x)[source] * weights[:, None], target, x.size(0))


@form(_NODES, _EDGES, **_SIZES)
class SampledNeighbours(nn.Module):
    """GraphSAGE with means, and GIN."""

    def __init__(self) -> None:
        super().__init__()
        self.own, self.others = nn.Linear(4, 3), nn.Linear(4, 3)

    def forward(self, x, edges):
        means = _scattered(x[edges[0]], edges[1], len(x), "mean")
        largest = _scattered(x[edges[0]], edges[1], len(x), "amax")
        return self.own(x) + self.others(means) + largest.sum(-1, keepdim=True)


@form(_NODES, _EDGES, floats("length", 3), **_SIZES)
class EdgeFeatures(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(11, 5), nn.ReLU(), nn.Linear(5, 2))

    def forward(self, x, edges, features):
        source, target = edges
        messages = self.net(torch.cat([x[source], x[target], features], dim=-1))
        return torch.zeros(x.shape[0], 2).index_add_(0, target, messages), messages


@form(_NODES, integers(2, "batch"))
def pooled_graphs(x, batch):
    """The mean and the largest of each graph; how many graphs there are is the largest index plus 1."""
    count = 2
    return _scattered(x, batch, count, "mean"), _scattered(x, batch, count, "amax"), _scattered(x, batch, count, "amin")


@form(_NODES, integers(2, "batch"))
def graphs_by_data(x, batch):
    count = int(batch.max()) + 1
    return _scattered(x, batch, count).sum(0)


@form(floats("batch", 3), **_SIZES)
def edges_by_radius(positions):
    distances = torch.cdist(positions, positions)
    source, target = torch.where((distances < 1.5) & ~torch.eye(len(positions), dtype=torch.bool))
    return torch.zeros(len(positions)).index_add(0, target, distances[source, target])


@form(_NODES, _EDGES, **_SIZES)
def dense_adjacency(x, edges):
    adjacency = torch.zeros(x.shape[0], x.shape[0])
    adjacency[edges[0], edges[1]] = 1
    adjacency.index_put_((edges[1], edges[0]), torch.tensor(1.0), accumulate=True)
    return adjacency @ x


@form(integers(5, "length"))
def counted(ids):
    found, inverse, counts = torch.unique(ids, return_inverse=True, return_counts=True)
    return found, inverse, counts, torch.bincount(ids, minlength=5), torch.unique_consecutive(ids)


@form(_NODES, integers(2, "batch"))
def repeated_rows(x, counts):
    return x.repeat_interleave(counts, dim=0), torch.arange(x.shape[0]).repeat_interleave(counts + 1)


@form(_NODES)
def nearest_neighbours(x):
    distances = torch.cdist(x, x)
    nearest = distances.topk(1, largest=False).indices
    return x[nearest] - x.unsqueeze(1), nearest


@form(floats("batch", "length", 4), integers(3, "batch", "length"))
def segments(x, at):
    """Sums over the segments of each sequence."""
    total = torch.zeros(x.shape[0], 3, 4).scatter_add(1, at[..., None].expand_as(x), x)
    return total, total.gather(1, at[..., None].expand_as(x))


@form(floats("batch", "length", 4), integers(2, "batch", "length"))
def masked_positions(x, mask):
    """Masked autoencoders: what is kept moves to the front, and comes back to its place."""
    order = mask.argsort(dim=1, stable=True)
    moved = x.gather(1, order[..., None].expand(-1, -1, 4))
    back = order.argsort(dim=1)
    return moved[:, :2], moved.gather(1, back[..., None].expand(-1, -1, 4))


@form(floats("batch", "length", 4), integers(2, "batch", "length"))
def selected_rows(x, mask):
    kept = x[mask.bool()]
    filled = torch.zeros_like(x).masked_scatter(mask.bool()[..., None], kept * 2)
    return kept, filled, torch.masked_select(x, mask.bool()[..., None])
