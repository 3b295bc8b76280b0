"""Calls of operators that PyTorch's own test database does not reach, and that draws from a schema rarely fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

__all__ = ["calls"]

Call = tuple[list[Any], dict[str, Any]]


def calls() -> dict[str, list[Call]]:
    """By overload, calls that run."""
    torch.manual_seed(0)
    made: dict[str, list[Call]] = {}
    for name, gates in (("lstm", 4), ("gru", 3), ("rnn_tanh", 1), ("rnn_relu", 1)):
        made[f"aten::{name}.input"] = [_over_time(gates, **each) for each in _LAYERS]
        made[f"aten::{name}.data"] = [_packed(gates, **each) for each in _LAYERS[:2]]
        made[f"aten::{name}_cell"] = [_one_step(gates)]
    for name, make in _OTHERS.items():
        made[name] = [(make(), {})]
    data, lengths, offsets = torch.randn(6, 2), torch.tensor([2, 4]), torch.tensor([0, 2, 6])
    made["aten::segment_reduce"] = [([data, "sum"], {"lengths": lengths}), ([data, "max"], {"offsets": offsets})]
    # A matrix without a pivot on its diagonal, whose factors are blocks of two rows.
    factors = torch.linalg.ldl_factor(torch.tensor([[0.0, 1, 2, 3], [1, 0, 4, 5], [2, 4, 0, 6], [3, 5, 6, 0]]))
    made["aten::linalg_ldl_solve"] += [([*factors, torch.randn(4, 2)], {}), ([*factors, torch.randn(3, 4, 2)], {})]
    return made


_LAYERS: tuple[dict[str, Any], ...] = (
    {"layers": 1, "directions": 1, "biases": True},
    {"layers": 2, "directions": 2, "biases": False},
    {"layers": 1, "directions": 1, "biases": True, "projected": 2},
)


def _weights(gates: int, layers: int, directions: int, biases: bool, projected: int = 0) -> list[torch.Tensor]:
    made = []
    hidden = 4
    outputs = projected if projected and gates == 4 else hidden
    for layer in range(layers):
        for _ in range(directions):
            features = 3 if layer == 0 else outputs * directions
            made += [torch.randn(gates * hidden, features), torch.randn(gates * hidden, outputs)]
            made += [torch.randn(gates * hidden)] * (2 if biases else 0)
            made += [torch.randn(outputs, hidden)] * (outputs != hidden)
    return made


def _state(gates: int, layers: int, directions: int, projected: int = 0, **_: Any) -> Any:
    hidden = torch.randn(layers * directions, 2, projected if projected and gates == 4 else 4)
    return [hidden, torch.randn(layers * directions, 2, 4)] if gates == 4 else hidden


def _over_time(gates: int, **layers: Any) -> Call:
    bidirectional = layers["directions"] == 2
    weights = _weights(gates, **layers)
    settings = [layers["biases"], layers["layers"], 0.0, False, bidirectional, False]
    return [torch.randn(5, 2, 3), _state(gates, **layers), weights, *settings], {}


def _packed(gates: int, **layers: Any) -> Call:
    bidirectional = layers["directions"] == 2
    weights = _weights(gates, **layers)
    settings = [layers["biases"], layers["layers"], 0.0, False, bidirectional]
    return [torch.randn(5, 3), torch.tensor([2, 2, 1]), _state(gates, **layers), weights, *settings], {}


def _one_step(gates: int) -> Call:
    hidden = torch.randn(2, 4)
    weights = _weights(gates, 1, 1, True)
    return [torch.randn(2, 3), [hidden, hidden] if gates == 4 else hidden, *weights], {}


def _scores() -> torch.Tensor:
    return torch.randn(6, 2, 4).log_softmax(-1)


def _scaled(*rest: Any) -> list[Any]:
    factors = [torch.randn(16, 32), torch.randn(32, 16)]
    return [*(each.to(torch.float8_e4m3fn) for each in factors), *rest]


_ONE = torch.ones(())
_PIVOTS = torch.tensor([2, 2, 3], dtype=torch.int32)
_OTHERS: dict[str, Callable[[], list[Any]]] = {
    "aten::embedding_bag": lambda: [torch.randn(10, 4), torch.tensor([1, 2, 3, 4]), torch.tensor([0, 2])],
    "aten::embedding_bag.padding_idx": lambda: [
        *[torch.randn(10, 4), torch.tensor([1, 2, 3, 4]), torch.tensor([0, 2]), False, 0, False, None, False, 1]
    ],
    "aten::ctc_loss.IntList": lambda: [_scores(), torch.tensor([[1, 2, 3], [2, 1, 3]]), [6, 6], [3, 2]],
    "aten::ctc_loss.Tensor": lambda: [
        *[_scores(), torch.tensor([1, 2, 3, 1, 2]), torch.tensor([6, 6]), torch.tensor([3, 2])]
    ],
    "aten::grid_sampler": lambda: [torch.randn(1, 2, 4, 4), torch.randn(1, 3, 3, 2), 0, 0, True],
    "aten::grid_sampler_2d": lambda: [torch.randn(1, 2, 4, 4), torch.randn(1, 3, 3, 2), 2, 1, False],
    "aten::grid_sampler_3d": lambda: [torch.randn(1, 2, 4, 4, 3), torch.randn(1, 3, 3, 2, 3), 1, 2, True],
    "aten::batch_norm_update_stats": lambda: [torch.randn(2, 3, 4), torch.randn(3), torch.rand(3), 0.1],
    "aten::_native_batch_norm_legit_no_training": lambda: [
        *[torch.randn(2, 3, 4), torch.randn(3), torch.randn(3), torch.randn(3), torch.rand(3), 0.1, 1e-5]
    ],
    "aten::native_batch_norm": lambda: [
        *[torch.randn(2, 3, 4), torch.randn(3), torch.randn(3), torch.randn(3), torch.rand(3), True, 0.1, 1e-5]
    ],
    "aten::batch_norm": lambda: [
        *[torch.randn(2, 3, 4), torch.randn(3), torch.randn(3), torch.randn(3), torch.rand(3), True, 0.1, 1e-5, False]
    ],
    "aten::instance_norm": lambda: [
        *[torch.randn(2, 3, 4), torch.randn(3), torch.randn(3), torch.randn(3), torch.rand(3), True, 0.1, 1e-5, False]
    ],
    "aten::_weight_norm": lambda: [torch.randn(3, 4), torch.randn(3, 1), 0],
    "aten::_weight_norm_interface": lambda: [torch.randn(3, 4), torch.randn(3, 1), 0],
    "aten::scaled_dot_product_attention": lambda: [
        torch.randn(1, 2, 5, 4),
        torch.randn(1, 2, 7, 4),
        torch.randn(1, 2, 7, 4),
    ],
    "aten::_scaled_dot_product_flash_attention_for_cpu": lambda: [
        *[torch.randn(1, 2, 5, 4), torch.randn(1, 2, 7, 4), torch.randn(1, 2, 7, 4)]
    ],
    "aten::slow_conv3d": lambda: [torch.randn(1, 2, 5, 5, 5), torch.randn(3, 2, 2, 2, 2), [2, 2, 2]],
    "aten::slow_conv3d_forward": lambda: [
        *[torch.randn(1, 2, 5, 5, 5), torch.randn(3, 2, 2, 2, 2), [2, 2, 2], torch.randn(3), [1, 1, 1], [0, 0, 0]]
    ],
    "aten::lu_unpack": lambda: [torch.randn(3, 3), _PIVOTS],
    "aten::lu_solve": lambda: [torch.randn(3, 2), torch.randn(3, 3), _PIVOTS],
    "aten::linalg_lu_solve": lambda: [torch.randn(3, 3), _PIVOTS, torch.randn(3, 2)],
    "aten::linalg_ldl_solve": lambda: [torch.randn(3, 3), _PIVOTS, torch.randn(3, 2)],
    "aten::_fft_c2c": lambda: [torch.randn(3, 4, dtype=torch.complex64), [0, 1], 0, True],
    "aten::_fft_r2c": lambda: [torch.randn(3, 4), [0, 1], 0, True],
    "aten::_fft_c2r": lambda: [torch.randn(3, 4, dtype=torch.complex64), [0, 1], 0, 6],
    "aten::native_group_norm": lambda: [*[torch.randn(2, 6, 5), torch.randn(6), torch.randn(6), 2, 6, 5, 3, 1e-5]],
    "aten::_convolution": lambda: [
        *[torch.randn(1, 2, 5, 5), torch.randn(3, 2, 3, 3), torch.randn(3), [1, 1], [0, 0], [1, 1], False, [0, 0]],
        *[1, False, False, False, False],
    ],
    "aten::_convolution.deprecated": lambda: [
        *[torch.randn(1, 2, 5, 5), torch.randn(3, 2, 3, 3), torch.randn(3), [1, 1], [0, 0], [1, 1], False, [0, 0]],
        *[1, False, False, False],
    ],
    "aten::_convolution_mode": lambda: [
        *[torch.randn(1, 2, 5, 5), torch.randn(3, 2, 3, 3), torch.randn(3), [1, 1], "same", [1, 1], 1]
    ],
    "aten::_scaled_mm": lambda: _scaled(_ONE, _ONE, None, None, torch.float32),
    "aten::_scaled_mm_v2": lambda: _scaled([_ONE], [0], [0], [_ONE], [0], [0], None, torch.float32),
    "aten::special_legendre_polynomial_p": lambda: [torch.rand(3), torch.tensor([0.0, 3.0, 4.5])],
    "aten::special_laguerre_polynomial_l.n_scalar": lambda: [torch.rand(3), 5],
    "aten::affine_grid_generator": lambda: [torch.randn(1, 2, 3), [1, 1, 4, 4], False],
    "aten::_native_batch_norm_legit_functional": lambda: [
        *[torch.randn(2, 3, 4), torch.randn(3), torch.randn(3), torch.randn(3), torch.rand(3), True, 0.1, 1e-5]
    ],
    "aten::_batch_norm_no_update": lambda: [
        *[torch.randn(2, 3, 4), torch.randn(3), torch.randn(3), torch.randn(3), torch.rand(3), 0.1, 1e-5]
    ],
    "aten::_upsample_bicubic2d_aa.vec": lambda: [torch.randn(1, 2, 4, 4), None, False, [1.5, 2.0]],
    "aten::_upsample_nearest_exact1d.vec": lambda: [torch.randn(1, 2, 4), [6], None],
    "aten::_upsample_nearest_exact2d.vec": lambda: [torch.randn(1, 2, 4, 4), None, [1.5, 2.0]],
    "aten::upsample_nearest3d.vec": lambda: [torch.randn(1, 2, 4, 4, 4), None, [1.5, 2.0, 1.0]],
    "aten::upsample_trilinear3d.vec": lambda: [torch.randn(1, 2, 4, 4, 4), None, False, [1.5, 2.0, 1.0]],
    "aten::upsample_nearest3d": lambda: [torch.randn(1, 2, 4, 4, 4), [6, 8, 4]],
    "aten::upsample_trilinear3d": lambda: [torch.randn(1, 2, 4, 4, 4), [6, 8, 4], False],
    "aten::narrow.Tensor": lambda: [torch.randn(4, 3), 0, torch.tensor(1), 2],
    "aten::max_pool3d": lambda: [torch.randn(1, 2, 5, 5, 5), [2, 2, 2]],
    "aten::conv3d": lambda: [torch.randn(1, 2, 5, 5, 5), torch.randn(3, 2, 2, 2, 2)],
    "aten::nll_loss": lambda: [torch.randn(3, 4), torch.tensor([1, 3, 0])],
    "aten::nll_loss2d": lambda: [torch.randn(2, 4, 3, 3), torch.ones(2, 3, 3).long()],
    "aten::cross_entropy_loss": lambda: [torch.randn(3, 4), torch.tensor([1, 3, 0])],
    "aten::col2im": lambda: [torch.randn(1, 12, 9), [4, 4], [2, 2], [1, 1], [0, 0], [1, 1]],
    "aten::istft": lambda: [torch.randn(9, 5, dtype=torch.complex64), 16],
    "aten::fractional_max_pool2d": lambda: [torch.randn(1, 2, 8, 8), [2, 2], [3, 3], torch.rand(1, 2, 2)],
    "aten::fractional_max_pool3d": lambda: [torch.randn(1, 2, 8, 8, 8), [2, 2, 2], [3, 3, 3], torch.rand(1, 2, 3)],
    "aten::fake_quantize_per_channel_affine": lambda: [
        *[torch.randn(3, 4), torch.rand(3), torch.zeros(3, dtype=torch.int32), 0, 0, 255]
    ],
    "aten::cosine_embedding_loss": lambda: [torch.randn(3, 4), torch.randn(3, 4), torch.ones(3)],
}
