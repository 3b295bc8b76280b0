"""Embeddings, bags of them, and one-hot vectors."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from helpers.matching import assert_matches


def test_embedding() -> None:
    model = torch.nn.Embedding(10, 4, padding_idx=3)
    model.weight.data.normal_()
    for index in (torch.randint(10, (2, 5)), torch.tensor(3), torch.randint(10, (7,), dtype=torch.int32)):
        assert_matches(model, index, others=[(9 - index,)])


def test_embedding_of_a_dynamic_length() -> None:
    batch = torch.export.Dim("batch")
    model = torch.nn.Embedding(10, 4)
    for opset in (18, 21):
        assert_matches(
            model,
            torch.randint(10, (2, 5)),
            others=[(torch.randint(10, (7, 5)),)],
            dynamic_shapes={"input": {0: batch}},
            opset_version=opset,
        )


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_embedding_bag(mode: str, dtype: torch.dtype) -> None:
    weight = torch.randn(10, 4, dtype=dtype)
    index, offsets = torch.randint(10, (9,)), torch.tensor([0, 3, 3, 5])
    others = [(torch.randn(10, 4, dtype=dtype), torch.randint(10, (9,)), torch.tensor([0, 0, 8, 9]))]
    assert_matches(
        lambda w, i, o: (
            F.embedding_bag(i, w, o, mode=mode, padding_idx=2),
            F.embedding_bag(i, w, o, mode=mode, padding_idx=-1),
            F.embedding_bag(i, w, torch.cat([o, o.new_tensor([9])]), mode=mode, include_last_offset=True),
        ),
        weight,
        index,
        offsets,
        others=others,
    )
    assert_matches(lambda w, i, o: F.embedding_bag(i, w, o, mode=mode), weight, index, offsets, others=others)
    assert_matches(lambda w, i: F.embedding_bag(i, w, mode=mode), weight, index.view(3, 3))


def test_embedding_bag_with_weights_and_nan() -> None:
    weight = torch.randn(6, 3)
    weight[5] = torch.nan
    index, offsets, factor = torch.tensor([0, 1, 2, 5]), torch.tensor([0, 2, 3]), torch.randn(4)
    assert_matches(
        lambda w, i, o, f: F.embedding_bag(i, w, o, mode="sum", per_sample_weights=f), weight, index, offsets, factor
    )


def test_a_bag_module_of_a_dynamic_size() -> None:
    assert_matches(
        torch.nn.EmbeddingBag(10, 4, mode="mean"),
        torch.randint(10, (3, 5)),
        others=[(torch.randint(10, (6, 5)),), (torch.randint(10, (2, 5)),)],
        dynamic_shapes={"input": {0: torch.export.Dim("batch", min=2)}},
    )


def test_one_hot() -> None:
    index = torch.tensor([[0, 2], [4, 1]])
    assert_matches(lambda x: F.one_hot(x, 5), index, others=[(4 - index,)])
    assert_matches(lambda x: F.one_hot(x, 7).float(), index[0, 1])
    assert_matches(
        lambda x: F.one_hot(x, 5),
        torch.tensor([0, 3, 2]),
        others=[(torch.tensor([4, 1]),)],
        dynamic_shapes={"x": {0: torch.export.Dim("batch", min=2)}},
    )
