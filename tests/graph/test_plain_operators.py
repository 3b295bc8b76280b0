"""Operators that have no translation and that torch has no decomposition of: each compared with eager PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.matching import assert_matches

from opbridge.graph import plain_operators

aten = torch.ops.aten


def some(*shape: int) -> torch.Tensor:
    return torch.randn(shape)


def symmetric(size: int) -> torch.Tensor:
    x = torch.randn(size, size)
    return x @ x.mT + torch.eye(size)


MASK = torch.rand(2, 1, 4, 4) > 0.5
MASK[0, 0, 0] = True  # a row that leaves nothing

CASES: dict[str, tuple[Any, tuple[torch.Tensor, ...]]] = {
    "_add_relu.Tensor": (lambda x, y: aten._add_relu.Tensor(x, y, alpha=2), (some(3, 4), some(4))),
    "_add_relu.Scalar": (lambda x: aten._add_relu.Scalar(x, 0.5, 2), (some(3, 4),)),
    "_aminmax": (lambda x: aten._aminmax(x), (some(3, 4),)),
    "_aminmax.dim": (lambda x: aten._aminmax.dim(x, 1, True), (some(3, 4),)),
    "_cholesky_solve_helper": (
        lambda x, y: aten._cholesky_solve_helper(x, torch.linalg.cholesky(y), False),
        (some(4, 2), symmetric(4)),
    ),
    "_compute_linear_combination": (
        lambda x, y: aten._compute_linear_combination(x, y),
        (
            some(3, 2, 5),
            some(4, 3),
        ),
    ),
    "_efficientzerotensor": (lambda x: x + aten._efficientzerotensor([3, 4]), (some(3, 4),)),
    "_jagged_to_padded_dense_forward": (
        lambda x, y: aten._jagged_to_padded_dense_forward(x, [y], [4], 0.5),
        (some(6, 2), torch.tensor([0, 2, 2, 6])),
    ),
    "_logcumsumexp": (lambda x: aten._logcumsumexp(x, 1), (some(3, 4),)),
    "_masked_softmax": (lambda x: aten._masked_softmax(x, MASK, 3, 2), (some(2, 1, 4, 4),)),
    "_masked_softmax, by row": (lambda x: aten._masked_softmax(x, MASK[:, 0, 0], 3, 1), (some(2, 3, 4, 4),)),
    "_masked_softmax, of all": (lambda x: aten._masked_softmax(x, MASK[0, 0], 3, 0), (some(2, 3, 4, 4),)),
    "_neg_view": (lambda x: aten._neg_view(x) + 1, (some(3, 4),)),
    "_neg_view_copy": (lambda x: aten._neg_view_copy(x) + 1, (some(3, 4),)),
    "_reshape_alias_copy": (lambda x: aten._reshape_alias_copy(x, [4, 3], [3, 1]), (some(3, 4),)),
    "_slow_conv2d_forward": (
        lambda x, w, b: aten._slow_conv2d_forward(x, w, [3, 2], b, [1, 2], [1, 0]),
        (some(2, 3, 6, 5), some(4, 3, 3, 2), some(4)),
    ),
    "_transform_bias_rescale_qkv": (
        lambda x, y: aten._transform_bias_rescale_qkv(x, y, 2),
        (some(2, 3, 24), some(24)),
    ),
    "_weight_int8pack_mm": (
        lambda x, w, s: aten._weight_int8pack_mm(x, w, s),
        (some(3, 32), torch.randint(-128, 128, (16, 32), dtype=torch.int8), torch.rand(16)),
    ),
    **{
        f"segment_reduce, {how}, {initial}": (
            lambda x, n, how=how, initial=initial: torch.segment_reduce(x, how, lengths=n, axis=0, initial=initial),
            (some(7, 3), torch.tensor([2, 0, 4, 1])),
        )
        for how in ("sum", "mean", "prod", "max", "min")
        for initial in (None, 0.5)
    },
    "segment_reduce, offsets": (
        lambda x, n: torch.segment_reduce(x, "sum", offsets=n, axis=1),
        (some(2, 5), torch.tensor([[0, 2, 5], [0, 1, 5]])),
    ),
    "batch_norm_update_stats": (lambda x: aten.batch_norm_update_stats(x, None, None, 0.1)[0], (some(4, 3, 2),)),
    "fake_quantize_per_channel_affine_cachemask": (
        lambda x: aten.fake_quantize_per_channel_affine_cachemask(
            x, torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0, 3, -2], dtype=torch.int32), 0, -8, 7
        ),
        (some(3, 4),),
    ),
    "fake_quantize_per_tensor_affine_cachemask": (
        lambda x: aten.fake_quantize_per_tensor_affine_cachemask(x, 0.1, 2, -8, 7),
        (some(3, 4),),
    ),
    "linalg__powsum": (lambda x: aten.linalg__powsum(x, 3, [1]), (some(3, 4),)),
    "linalg_lstsq": (lambda x, y: torch.linalg.lstsq(x, y)[0], (some(5, 3), some(5, 2))),
    "linalg_lstsq, of more unknowns": (lambda x, y: torch.linalg.lstsq(x, y)[0], (some(3, 5), some(3, 2))),
    "linalg_lstsq, of batches": (lambda x, y: torch.linalg.lstsq(x, y)[0], (some(2, 5, 3), some(2, 5, 1))),
    "linalg_lstsq, rank": (
        lambda x, y: torch.linalg.lstsq(x, y, driver="gelsd")[2:],
        (some(5, 3), some(5, 2)),
    ),
    "linalg_matrix_sqrth": (lambda x: aten.linalg_matrix_sqrth(x), (symmetric(3),)),
    "linalg_pinv.atol_rtol_tensor": (lambda x: torch.linalg.pinv(x, atol=torch.tensor(0.1)), (some(4, 3),)),
    "linalg_polar": (lambda x: aten.linalg_polar(x), (some(4, 3),)),
    "slow_conv3d_forward": (
        lambda x, w: aten.slow_conv3d_forward(x, w, [2, 2, 2], None, [1, 1, 1], [0, 1, 0]),
        (some(2, 3, 4, 4, 4), some(4, 3, 2, 2, 2)),
    ),
    "slow_conv_dilated2d": (
        lambda x, w: aten.slow_conv_dilated2d(x, w, [2, 2], None, [1, 1], [0, 0], [2, 2]),
        (some(2, 3, 6, 6), some(4, 3, 2, 2)),
    ),
    "slow_conv_dilated3d": (
        lambda x, w: aten.slow_conv_dilated3d(x, w, [2, 2, 2], None, [1, 1, 1], [0, 0, 0], [2, 1, 2]),
        (some(3, 5, 5, 5), some(4, 3, 2, 2, 2)),
    ),
    "slow_conv_transpose2d": (
        lambda x, w: aten.slow_conv_transpose2d(x, w, [3, 3], None, [2, 2], [1, 1], [1, 1], [1, 1]),
        (some(2, 3, 4, 4), some(3, 4, 3, 3)),
    ),
    "slow_conv_transpose3d": (
        lambda x, w: aten.slow_conv_transpose3d(x, w, [2, 2, 2], None, [2, 2, 2], [0, 0, 0], [0, 0, 0], [1, 1, 1]),
        (some(2, 3, 3, 3, 3), some(3, 4, 2, 2, 2)),
    ),
}


def operator_of(name: str) -> Any:
    base, _, overload = name.partition(",")[0].partition(".")
    return getattr(getattr(aten, base, None), overload or "default", None)


@pytest.mark.parametrize("name", CASES)
def test_same_as_eager(name):
    function, inputs = CASES[name]
    if operator_of(name) is None:
        pytest.skip("This torch has no such operator.")
    program = assert_matches(function, *inputs, rtol=1e-4, atol=1e-4)
    assert all(row.route in ("standard", "function") for row in program.plan.rows)


def test_each_has_a_case():
    tested = {operator_of(name) for name in CASES}
    assert not plain_operators.DECOMPOSITIONS.keys() - tested
