"""Masks that are computed again, and how many elements of them are true."""

from __future__ import annotations

import operator

import pytest
import torch
from helpers.matching import assert_matches
from torch.fx import Graph
from torch.nn.functional import scaled_dot_product_attention
from torch.nn.utils.rnn import pad_sequence

from opbridge.base.torch_private import torch_decisions
from opbridge.capture.tracer.counted_masks import CountedMasks

_aten = torch.ops.aten


def _pruned(tokens: torch.Tensor, mask: torch.Tensor, keep: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    keep = keep.masked_fill(mask == 0, torch.tensor(False))
    kept, kept_mask = ([part[own] for part, own in zip(tensor, keep, strict=True)] for tensor in (tokens, keep))
    return pad_sequence(kept, batch_first=True), pad_sequence(kept_mask, batch_first=True)


def attention_to_what_is_kept_twice(x: torch.Tensor) -> torch.Tensor:
    tokens = torch.stack([x, x.flip(1)])
    mask = torch.ones(tokens.shape[:2], dtype=torch.bool)
    tokens, mask = _pruned(tokens, mask, tokens[..., 0] > -0.5)
    tokens, mask = _pruned(tokens, mask, tokens[..., 1] > -0.5)
    queries = tokens[:, None]
    return scaled_dot_product_attention(queries, queries, queries, attn_mask=mask[:, None, None, :])


def attention_with_the_mask_of_one_query(x: torch.Tensor) -> torch.Tensor:
    kept = x[x[:, 0] > 0][None, None]
    mask = torch.ones(1, 1, kept[:, :, 0:1].shape[2], kept.shape[2], dtype=torch.bool)
    return scaled_dot_product_attention(kept, kept, kept, attn_mask=mask)


def two_lists_by_the_rows_of_masks(x: torch.Tensor) -> torch.Tensor:
    masks = torch.stack([x[:, 0] > 0, x[:, 1] > 0, x[:, 0] <= 0])
    left, right = [x[each] for each in masks], [x.flip(1)[each] for each in masks]
    return torch.cat([one * other for one, other in zip(left, right, strict=True)])


def the_same_mask_after_a_write(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    before = x[x[:, 0] > 0]
    mask = x[:, 0] > 0
    mask[0] = True
    return before.sum(0) + before.shape[0], x[mask] * 2


def a_mask_that_is_written_through_a_part(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    mask, unchanged = x[:, 0] > 0, x[:, 0] > 0
    mask[:1].fill_(True)
    left, right = x[mask], x[unchanged]
    return torch.cat([left, right]), torch.tensor(left.shape[0] - right.shape[0])


def masks_of_random_numbers(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    none, all_rows = x[torch.rand(x.shape[0]) > 2], x[torch.rand(x.shape[0]) > -1]
    return none.sum(0) + none.shape[0], all_rows + all_rows.shape[0]


_MODELS = [
    attention_to_what_is_kept_twice,
    attention_with_the_mask_of_one_query,
    two_lists_by_the_rows_of_masks,
    the_same_mask_after_a_write,
    a_mask_that_is_written_through_a_part,
    masks_of_random_numbers,
]


@pytest.mark.parametrize("model", _MODELS, ids=lambda model: model.__name__)
def test_masks_are_counted(model):
    rows = (1, 2, 5, 9)
    others = [(torch.randn(count, 4),) for count in rows] + [(torch.tensor([[-1.0, 1, 1, 1], [1, 1, 1, -1]]),)]
    if model is not attention_to_what_is_kept_twice:  # whose attention needs a token for each query
        others.append((-torch.rand(3, 4),))
    assert_matches(model, torch.randn(6, 4), others=others, dynamic_shapes=({0: "rows"},))


class _Counted:
    """A mask of which only the count is told."""

    nonzero_memo: int | None = None


def _masks(monkeypatch: pytest.MonkeyPatch) -> tuple[CountedMasks, Graph]:
    monkeypatch.setattr(
        "opbridge.capture.tracer.counted_masks._masks", lambda nodes, fakes: zip(nodes, fakes, strict=True)
    )
    return CountedMasks(), Graph()


def test_a_node_that_is_the_same_call_has_the_same_count(monkeypatch):
    masks, graph = _masks(monkeypatch)
    x = graph.placeholder("x")
    nodes = [graph.call_function(_aten.gt.Scalar, (x, 0)) for _ in range(2)]
    parts = [graph.call_function(operator.getitem, (node, 0)) for node in nodes]
    other = graph.call_function(_aten.gt.Scalar, (x, 0.0))  # another number for torch, which tells 0 from 0.0
    for node in (*nodes, other):
        masks.add(_aten.gt.Scalar, node)
    for node in parts:
        masks.add(operator.getitem, node)
    first, second, third = _Counted(), _Counted(), _Counted()
    torch_decisions.give_count(first, 7)
    masks.note([parts[0]], [first])
    masks.share([parts[1], other], [second, third])
    assert (torch_decisions.count_of(second), torch_decisions.count_of(third)) == (7, None)


@pytest.mark.parametrize("writes", [_aten.fill_.Scalar, _aten.detach_.default], ids=["fill_", "detach_"])
def test_what_is_written_to_has_a_count_of_its_own(monkeypatch, writes):
    masks, graph = _masks(monkeypatch)
    x = graph.placeholder("x")
    first, second = (graph.call_function(_aten.gt.Scalar, (x, 0)) for _ in range(2))
    masks.add(_aten.gt.Scalar, first)
    counted, again = _Counted(), _Counted()
    torch_decisions.give_count(counted, 7)
    masks.note([first], [counted])
    masks.add(writes, graph.call_function(writes, (first,)))
    masks.add(_aten.gt.Scalar, second)
    masks.share([second], [again])
    assert torch_decisions.count_of(again) == (None if writes is _aten.fill_.Scalar else 7)
