"""Sparse tensors, which are dense in the graph."""

from __future__ import annotations

import pytest
import torch
from helpers.matching import assert_matches

import opbridge
from opbridge.errors import CaptureError

MATRIX = torch.tensor([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]])


class Weighted(torch.nn.Module):
    def __init__(self, matrix, call):
        super().__init__()
        self.register_buffer("matrix", matrix)
        self.call = call

    def forward(self, x):
        return self.call(self.matrix, x)


def test_a_weight_is_dense_and_a_note_says_so():
    program = assert_matches(Weighted(MATRIX.to_sparse(), torch.sparse.mm), torch.randn(3, 4))
    assert "tensors that are sparse in the model are dense in the file: matrix" in program.plan.notes
    (weight,) = program.model.graph.initializers.values()
    assert torch.equal(torch.from_numpy(weight.const_value.numpy()), MATRIX)


@pytest.mark.parametrize("layout", ["sparse", "sparse_csr", "sparse_csc"])
def test_products_of_all_layouts(layout):
    matrix = getattr(MATRIX, f"to_{layout}")()
    assert_matches(Weighted(matrix, lambda a, x: a @ x), torch.randn(3, 4))


def test_what_is_stored_of_a_weight_is_a_constant():
    matrix = torch.sparse_coo_tensor([[0, 0, 1], [1, 1, 2]], [1.0, 2.0, 3.0], (2, 3)).coalesce()
    assert_matches(Weighted(matrix, lambda a, x: x * a.values().sum() + a.indices().sum() + a._nnz()), torch.randn(3))


def test_duplicates_are_added():
    def model(indices, values):
        return torch.sparse_coo_tensor(indices, values, (2, 3)).to_dense()

    assert_matches(model, torch.tensor([[0, 0, 1], [1, 1, 2]]), torch.randn(3))


def test_of_as_many_rows_and_columns_as_data_say():
    """As a table of how often labels occur together."""

    def model(first, second):
        rows, places = torch.unique(first, return_inverse=True)
        columns, others = torch.unique(second, return_inverse=True)
        values = torch.ones(places.shape[0], dtype=torch.int64)
        table = torch.sparse_coo_tensor(torch.stack([places, others]), values, (rows.shape[0], columns.shape[0]))
        return table.to_dense() * 2.0

    first, second = torch.tensor([3, 1, 1, 9]), torch.tensor([0, 5, 5, 7])
    others = [(torch.tensor([2, 2]), torch.tensor([4, 4])), (torch.arange(5), torch.arange(5) % 2)]
    assert_matches(model, first, second, others=others, dynamic_shapes=({0: "count"}, {0: "count"}))


def test_compressed_rows_made_in_forward():
    def model(starts, columns, values):
        return torch.sparse_csr_tensor(starts, columns, values, (2, 3)).to_dense()

    assert_matches(model, torch.tensor([0, 1, 3]), torch.tensor([1, 0, 2]), torch.randn(3))


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (lambda x: x.to_sparse().values(), "which elements of a sparse tensor are stored"),
        (lambda x: torch.sparse.softmax(x.to_sparse(), 1).to_dense(), "from a stored zero"),
        (lambda x: torch.sparse_coo_tensor(torch.tensor([[0], [1]]), x[0, :1]).to_dense(), "Pass size="),
    ],
)
def test_what_a_dense_tensor_does_not_say_is_refused(model, said):
    with pytest.raises(CaptureError, match=said):
        opbridge.export(model, (torch.randn(2, 3),))
