"""Scatter, gather, masks, sets and counts."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reported_models.report import Case, module, reported


@reported("pytorch/pytorch", 125835)
def scatter_add_opset_11() -> Case:
    return Case(
        module(lambda data, indices, updates: torch.scatter_add(data, 0, indices, updates)),
        lambda n: (torch.randn(n, 4), torch.randint(0, 4, (n, 4)), torch.randn(n, 4)),
        (10,),
        [(10,)],
        None,
        opset=11,
    )


@reported("pytorch/pytorch", 125835, "int64, fewer updates than rows, both dynamic, none of them")
def scatter_add_integers() -> Case:
    return Case(
        module(lambda data, indices, updates: data.scatter_add(-1, indices, updates)),
        lambda n, m: (
            torch.randint(-9, 9, (3, n)),
            torch.randint(0, n, (3, m)),
            torch.randint(-9, 9, (3, m)),
        ),
        (10, 6),
        [(4, 9), (5, 0)],
        ({1: "n"}, {1: "m"}, {1: "m"}),
    )


@reported("pytorch/pytorch", 111159)
def index_add_duplicates() -> Case:
    def add(x: Tensor, index: Tensor, source: Tensor) -> Tensor:
        return x.clone().index_add_(0, index, source)

    return Case(
        module(add),
        lambda n, m: (torch.randn(n, 3), torch.randint(0, n, (m,)), torch.randn(m, 3)),
        (5, 8),
        [(5, 8), (2, 20)],
        ({0: "n"}, {0: "m"}, {0: "m"}),
    )


@reported("pytorch/pytorch", 111159, "into a slice of the input, last dimension, alpha, float16")
def index_add_slice() -> Case:
    def add(x: Tensor, index: Tensor, source: Tensor) -> Tensor:
        y = x.clone()
        y[:, 1:].index_add_(-1, index, source, alpha=-2)
        return y

    return Case(
        module(add),
        lambda b, m: (torch.randn(b, 6).half(), torch.randint(0, 5, (m,)), torch.randn(b, m).half()),
        (2, 4),
        [(1, 9), (3, 1)],
        ({0: "b"}, {0: "m"}, {0: "b", 1: "m"}),
    )


@reported("pytorch/pytorch", 61034)
def index_put_accumulate() -> Case:
    return Case(
        module(lambda index, a, b: a.index_put((index,), b, accumulate=True)),
        lambda m: (torch.randint(0, 5, (m,)), torch.ones(5, 3), torch.randn(m, 3)),
        (5,),
        [(9,), (1,)],
        ({0: "m"}, None, {0: "m"}),
    )


@reported("pytorch/pytorch", 61034, "a mask beside an index, a scalar value, bool tensors")
def index_put_mask() -> Case:
    def put(mask: Tensor, index: Tensor, a: Tensor) -> tuple[Tensor, Tensor]:
        counted = a.index_put((mask,), torch.tensor(2.0), accumulate=True)
        flags = torch.zeros_like(mask)
        flags[index % mask.shape[0]] = mask[index % mask.shape[0]].logical_not()
        return counted, flags

    return Case(
        module(put),
        lambda n, m: (torch.rand(n) > 0.5, torch.arange(m), torch.randn(n, 3)),
        (5, 3),
        [(7, 2), (2, 1)],
        ({0: "n"}, {0: "m"}, {0: "n"}),
    )


@reported("pytorch/pytorch", 126856)
def constant_mask_assignment() -> Case:
    def zeroed(x: Tensor) -> Tensor:
        mask = torch.ones((1, 3, 3), dtype=torch.bool)
        x[mask] = 0
        return x

    return Case(module(zeroed), lambda: (torch.randn(1, 3, 3),), (), [()])


@reported("pytorch/pytorch", 126856, "a mask of the data, values from another tensor, dynamic, nothing selected")
def data_mask_assignment() -> Case:
    def replaced(x: Tensor, values: Tensor) -> Tensor:
        y = x.clone()
        mask = x > 0.5
        y[mask] = values.expand_as(x)[mask] * 2
        y[:, 0][y[:, 0] < -1] = -1
        return y

    return Case(
        module(replaced),
        lambda b, n: (torch.randn(b, n), torch.randn(n)),
        (2, 5),
        [(1, 1), (4, 9)],
        ({0: "b", 1: "n"}, {0: "n"}),
    )


@reported("pytorch/pytorch", 84260)
def scatter_reduce_amax() -> Case:
    def reduce(x: Tensor, index: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        return start.scatter_reduce(0, index, x, reduce="amax"), start.scatter_reduce(0, index, x, reduce="sum")

    return Case(
        module(reduce),
        lambda m: (torch.randn(m), torch.randint(0, 4, (m,)), torch.tensor([1.0, 2.0, 3.0, 8.0])),
        (6,),
        [(3,), (11,)],
        ({0: "m"}, {0: "m"}, None),
        opset=16,
    )


@reported("pytorch/pytorch", 84260, "mean and prod without the start, int32 amin, two dimensions")
def scatter_reduce_others() -> Case:
    def reduce(x: Tensor, index: Tensor, start: Tensor) -> tuple[Tensor, ...]:
        return (
            start.scatter_reduce(1, index, x, reduce="mean", include_self=False),
            start.scatter_reduce(1, index, x, reduce="prod", include_self=False),
            start.mul(4).int().scatter_reduce(1, index, x.mul(4).int(), reduce="amin"),
        )

    return Case(
        module(reduce),
        lambda n, m: (torch.randn(2, m), torch.randint(0, n, (2, m)), torch.randn(2, n)),
        (4, 6),
        [(2, 9), (7, 3)],
        ({1: "m"}, {1: "m"}, {1: "n"}),
    )


def _softmax(source: Tensor, index: Tensor, nodes: int) -> Tensor:
    spread = index.unsqueeze(-1).expand_as(source)
    largest = source.new_zeros(nodes, source.shape[1]).scatter_reduce_(
        0, spread, source, reduce="amax", include_self=False
    )
    out = (source - largest.index_select(0, index)).exp()
    total = source.new_zeros(nodes, source.shape[1]).scatter_add_(0, spread, out)
    return out / (total.index_select(0, index) + 1e-16)


class _Attention(nn.Module):
    """Attention over the edges of a graph, normalized, then pooled by graph."""

    def __init__(self, pooled: bool) -> None:
        super().__init__()
        self.query, self.key, self.value = nn.Linear(6, 4), nn.Linear(6, 4), nn.Linear(6, 4)
        self.gate = nn.Linear(4, 1)
        self.pooled = pooled

    def forward(self, x: Tensor, edges: Tensor, batch: Tensor) -> Tensor:
        source, target = edges
        scores = (self.query(x)[target] * self.key(x)[source]).sum(-1, keepdim=True)
        weights = _softmax(scores, target, x.size(0))
        out = torch.zeros(x.size(0), 4).index_add(0, target, weights * self.value(x)[source])
        if not self.pooled:
            return out
        graphs = int(batch.max()) + 1
        gates = _softmax(self.gate(out), batch, graphs)
        return torch.zeros(graphs, 4).index_add_(0, batch, gates * out)


def _graph(nodes: int, edges: int, graphs: int) -> tuple[Tensor, Tensor, Tensor]:
    batch = torch.cat([torch.arange(graphs), torch.randint(0, graphs, (nodes - graphs,))]).sort().values
    return torch.randn(nodes, 6), torch.randint(0, nodes, (2, edges)), batch


@reported("pyg-team/pytorch_geometric", 8415)
def graph_attention() -> Case:
    sizes = ({0: "nodes"}, {1: "edges"}, {0: "nodes"})
    return Case(_Attention(False), _graph, (10, 20, 1), [(7, 13, 1), (30, 8, 1)], sizes)


@reported("pyg-team/pytorch_geometric", 8415, "pooled over as many graphs as the data says")
def graph_attention_pooled() -> Case:
    sizes = ({0: "nodes"}, {1: "edges"}, {0: "nodes"})
    return Case(_Attention(True), _graph, (10, 20, 2), [(7, 13, 1), (30, 8, 5)], sizes)


@reported("pytorch/pytorch", 65138)
def sage_mean() -> Case:
    linear, root = nn.Linear(6, 4), nn.Linear(6, 4, bias=False)

    def convolve(x: Tensor, edges: Tensor) -> Tensor:
        summed = x.new_zeros(x.size(0), 6).scatter_add_(0, edges[1][:, None].expand(-1, 6), x[edges[0]])
        count = x.new_zeros(x.size(0)).scatter_add_(0, edges[1], x.new_ones(edges.size(1)))
        return torch.relu(linear(summed / count.clamp(min=1)[:, None]) + root(x))

    return Case(
        module(convolve),
        lambda n, e: _graph(n, e, 1)[:2],
        (6, 12),
        [(10, 5), (3, 40)],
        ({0: "nodes"}, {1: "edges"}),
    )


@reported("pytorch/pytorch", 65138, "edges between the nearest points, found in the model; max pooling; no edges left")
def edge_convolution() -> Case:
    linear = nn.Linear(12, 4)

    def convolve(x: Tensor) -> Tensor:
        near = torch.cdist(x, x).topk(3, largest=False).indices
        target = torch.arange(x.size(0)).repeat_interleave(3)
        source = near.flatten()
        kept = source != target
        source, target = source[kept], target[kept]
        messages = linear(torch.cat([x[target], x[source] - x[target]], -1))
        return x.new_full((x.size(0), 4), 0.0).scatter_reduce(
            0, target[:, None].expand(-1, 4), messages, "amax", include_self=False
        )

    return Case(module(convolve), lambda n: (torch.randn(n, 6),), (8,), [(3,), (20,)], ({0: "nodes"},))


@reported("pytorch/pytorch", 112718)
def unique_consecutive_keys() -> Case:
    def deduplicated(keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        return keys.unique_consecutive(dim=2), values.unique_consecutive(dim=2)

    def inputs(n: int) -> tuple[Tensor, Tensor]:
        steps = torch.randn(1, 2, n, 4).repeat_interleave(2, 2)
        return steps, steps.flip(1)

    return Case(module(deduplicated), inputs, (3,), [(1,), (7,)], ({2: "n"}, {2: "n"}))


@reported("pytorch/pytorch", 112718, "with inverse and counts, integers, then used as an index")
def unique_consecutive_runs() -> Case:
    def runs(tokens: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        values, inverse, counts = tokens.unique_consecutive(return_inverse=True, return_counts=True)
        summed = torch.zeros(values.shape[0], 4).index_add(0, inverse, features)
        return values[values != 0], summed / counts[:, None]

    return Case(
        module(runs),
        lambda n: (torch.randint(0, 3, (n,)), torch.randn(n, 4)),
        (9,),
        [(1,), (30,)],
        ({0: "n"}, {0: "n"}),
    )


@reported("AILab-CVC/YOLO-World", 536)
def bincount_labels() -> Case:
    return Case(
        module(lambda labels: torch.bincount(labels, minlength=8)),
        lambda n: (torch.randint(0, 8, (n,)),),
        (12,),
        [(3,), (40,)],
        ({0: "n"},),
    )


@reported("AILab-CVC/YOLO-World", 536, "weights, as many bins as the data says")
def bincount_weights() -> Case:
    def counted(labels: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        found = torch.bincount(labels, weights)
        return found / found.sum(), found.argsort(descending=True, stable=True)[:2]

    return Case(
        module(counted),
        lambda n: (torch.randint(0, 8, (n,)), torch.rand(n)),
        (12,),
        [(30,), (40,)],
        ({0: "n"}, {0: "n"}),
    )


@reported("pytorch/pytorch", 74032)
def histc_equalize() -> Case:
    def equalized(x: Tensor) -> Tensor:
        histogram = torch.histc(x, bins=16, min=0, max=1)
        cdf = histogram.cumsum(0) / histogram.sum()
        return cdf[(x * 15).long()]

    return Case(module(equalized), lambda n: (torch.rand(n, 7),), (5,), [(3,), (20,)], ({0: "n"},))


@reported("pytorch/pytorch", 74032, "the range of the data, one histogram for each row")
def histc_rows() -> Case:
    def histograms(x: Tensor) -> Tensor:
        return torch.stack([torch.histc(row, bins=8) for row in x])

    return Case(module(histograms), lambda b, n: (torch.randn(b, n),), (2, 9), [(1, 30), (4, 5)], ({0: "b", 1: "n"},))


@reported("pytorch/pytorch", 148098)
def bucketize_linspace() -> Case:
    return Case(
        module(lambda x: torch.bucketize(x, torch.linspace(0, 1, 100))),
        lambda n: (torch.rand(n),),
        (100,),
        [(7,), (300,)],
        ({0: "n"},),
    )


@reported("pytorch/pytorch", 148098, "boundaries from the data, int32, right, nan and infinity among the values")
def bucketize_quantiles() -> Case:
    def buckets(x: Tensor) -> tuple[Tensor, Tensor]:
        edges = torch.quantile(x, torch.linspace(0, 1, 5))
        wide = torch.cat([x, torch.tensor([float("inf"), float("-inf"), float("nan")])])
        return torch.bucketize(wide, edges, right=True, out_int32=True), edges

    return Case(module(buckets), lambda n: (torch.randn(n),), (9,), [(2,), (31,)], ({0: "n"},))


@reported("pytorch/pytorch", 151648)
def searchsorted_rows() -> Case:
    return Case(
        module(lambda cdf, u: torch.searchsorted(cdf.cumsum(-1), u, right=True)),
        lambda b, n, m: (torch.rand(b, n), torch.rand(b, m) * n / 2),
        (2, 9, 4),
        [(1, 5, 8), (3, 20, 1)],
        ({0: "b", 1: "n"}, {0: "b", 1: "m"}),
    )


@reported("pytorch/pytorch", 151648, "sampling along rays: sorter, clamp, gather of both neighbours, float64")
def searchsorted_sampling() -> Case:
    def sample(bins: Tensor, weights: Tensor, u: Tensor) -> Tensor:
        pdf = (weights + 1e-5) / (weights + 1e-5).sum(-1, keepdim=True)
        cdf = torch.cat([torch.zeros_like(pdf[..., :1]), pdf.cumsum(-1)], -1)
        order = cdf.argsort(-1)
        above = torch.searchsorted(cdf, u.contiguous(), sorter=order, side="right")
        both = torch.stack([(above - 1).clamp(min=0), above.clamp(max=cdf.shape[-1] - 1)], -1)
        shape = [both.shape[0], both.shape[1], cdf.shape[-1]]
        found = torch.gather(cdf.unsqueeze(1).expand(shape), 2, both)
        places = torch.gather(bins.unsqueeze(1).expand(shape), 2, both)
        width = found[..., 1] - found[..., 0]
        width = torch.where(width < 1e-5, torch.ones_like(width), width)
        return places[..., 0] + (u - found[..., 0]) / width * (places[..., 1] - places[..., 0])

    return Case(
        module(sample),
        lambda b, n, m: (
            torch.rand(b, n + 1, dtype=torch.double).sort(-1).values,
            torch.rand(b, n, dtype=torch.double),
            torch.rand(b, m, dtype=torch.double),
        ),
        (2, 8, 5),
        [(1, 3, 9), (4, 12, 1)],
        ({0: "b", 1: "n1"}, {0: "b", 1: "n"}, {0: "b", 1: "m"}),
    )
