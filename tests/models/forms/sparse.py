"""Weights, buffers and values in forward that are sparse: a file holds them dense."""

from __future__ import annotations

import torch
from models.forms.form import floats, form, integers
from torch import nn

__all__: list[str] = []

_X = floats("batch", 4)


def _matrix(rows: int = 3, columns: int = 4) -> torch.Tensor:
    matrix = torch.randn(rows, columns)
    return matrix * (matrix > 0)


class _WithMatrix(nn.Module):
    def __init__(self, matrix: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("matrix", matrix)


@form(_X)
class SparseBuffer(_WithMatrix):
    def __init__(self) -> None:
        super().__init__(_matrix().to_sparse())

    def forward(self, x):
        return torch.sparse.mm(self.matrix, x.transpose(0, 1)).transpose(0, 1)


@form(_X)
class SparseBufferTimesDense(_WithMatrix):
    def __init__(self) -> None:
        super().__init__(_matrix().to_sparse())

    def forward(self, x):
        return self.matrix @ x.t(), torch.mm(self.matrix, x.t()), self.matrix.matmul(x[0]), torch.mv(self.matrix, x[0])


@form(_X)
class CompressedRows(_WithMatrix):
    def __init__(self) -> None:
        super().__init__(_matrix().to_sparse_csr())

    def forward(self, x):
        return (self.matrix @ x.t()).t()


@form(_X)
class CompressedColumns(_WithMatrix):
    def __init__(self) -> None:
        super().__init__(_matrix().to_sparse_csc())

    def forward(self, x):
        return x @ self.matrix.to_dense().t()


@form(_X)
class SparseBlocks(_WithMatrix):
    def __init__(self) -> None:
        super().__init__(_matrix(4, 4).to_sparse_bsr((2, 2)))

    def forward(self, x):
        return nn.functional.linear(x, self.matrix)


@form(_X)
class SparseParameter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(_matrix().to_sparse())

    def forward(self, x):
        return torch.sparse.mm(self.weight, x.t())


@form(_X)
class CompressedParameter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.linear.weight = nn.Parameter(_matrix().to_sparse_csr())

    def forward(self, x):
        return self.linear(x)


@form(_X)
class SparsePlainAttribute(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.matrix = _matrix().to_sparse()

    def forward(self, x):
        return torch.sparse.mm(self.matrix, x.t())


@form(floats("batch", 5, 4))
class GraphConvolution(nn.Module):
    """The adjacency of a graph as a sparse buffer, normalised in forward."""

    def __init__(self) -> None:
        super().__init__()
        edges = torch.tensor([[0, 1, 1, 2, 3, 4, 4], [1, 0, 2, 3, 4, 0, 1]])
        self.register_buffer("adjacency", torch.sparse_coo_tensor(edges, torch.ones(7), (5, 5)))
        self.linear = nn.Linear(4, 3)

    def forward(self, x):
        degree = torch.sparse.sum(self.adjacency, dim=1).to_dense().clamp(min=1)
        columns = x.transpose(0, 1).flatten(1)
        mixed = torch.sparse.mm(self.adjacency, columns).unflatten(1, (-1, 4)).transpose(0, 1)
        return self.linear(mixed / degree[:, None])


@form(_X)
class SparseToDense(_WithMatrix):
    def __init__(self) -> None:
        super().__init__(_matrix().to_sparse().coalesce())

    def forward(self, x):
        return x @ self.matrix.to_dense().t() + self.matrix.values().sum() + self.matrix.indices().sum()


@form(_X)
class ScaledSparse(_WithMatrix):
    def __init__(self) -> None:
        super().__init__(_matrix().to_sparse())

    def forward(self, x):
        return torch.sparse.mm(self.matrix * 2, x.t()), torch.sparse.mm(self.matrix.t(), x[:1, :3].t())


@form(_X)
class AddedSparseProduct(_WithMatrix):
    def __init__(self) -> None:
        super().__init__(_matrix().to_sparse())

    def forward(self, x):
        return torch.sparse.addmm(torch.ones(3, 1), self.matrix, x.t()), torch.addmm(
            torch.ones(3, 1), self.matrix, x.t()
        )


@form(integers(4, 2, 6), floats(6), floats("batch", 4))
def sparse_made_in_forward(edges, values, x):
    adjacency = torch.sparse_coo_tensor(edges, values, (4, 4))
    return torch.sparse.mm(adjacency, x.t()), adjacency.to_dense()


@form(_X)
def dense_made_sparse_in_forward(x):
    return (x * (x > 0)).to_sparse().to_dense()


@form(floats("batch", "length", 4))
class MaskedLinear(nn.Module):
    """torch.nn.utils.prune: a weight with a mask."""

    def __init__(self) -> None:
        super().__init__()
        from torch.nn.utils import prune

        self.linear = nn.Linear(4, 3)
        prune.random_unstructured(self.linear, "weight", 0.5)

    def forward(self, x):
        return self.linear(x)


@form(integers(9, "batch", "length"))
class SparseGradients(nn.Module):
    """Embeddings whose gradients are sparse; their values are not."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(9, 4, sparse=True)
        self.bags = nn.EmbeddingBag(9, 4, sparse=True)

    def forward(self, ids):
        return self.embedding(ids), self.bags(ids)
