"""Activation functions, softmax and dropout, against PyTorch."""

from __future__ import annotations

import math

import pytest
import torch
from helpers.matching import assert_matches
from helpers.running import run
from helpers.tables import accepted, assert_all_match

import opbridge

F = torch.nn.functional
aten = torch.ops.aten
NAN, INF = math.nan, math.inf

TABLE = {
    "celu": lambda x: F.celu(x, 0.7),
    "elu": F.elu,
    "elu alpha": lambda x: F.elu(x, 0.7),
    "elu scales": lambda x: aten.elu(x, 0.7, 2.0, 3.0),
    "gelu": F.gelu,
    "gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
    "glu": F.glu,
    "glu of rows": lambda x: F.glu(x, 0),
    "hardshrink": F.hardshrink,
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "hardtanh": lambda x: F.hardtanh(x, -0.5, 2.0),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.3),
    "logsigmoid": F.logsigmoid,
    "mish": F.mish,
    "prelu": lambda x: F.prelu(x, torch.tensor([0.3]).to(x)),
    "prelu of channels": lambda x: F.prelu(x[:, :, None], torch.arange(6).to(x)),
    "prelu of a number": lambda x: F.prelu(x[0, 0], torch.tensor([0.3]).to(x)),
    "relu": F.relu,
    "relu6": F.relu6,
    "rrelu": F.rrelu,
    "selu": F.selu,
    "silu": F.silu,
    "softmin": lambda x: F.softmin(x, 1),
    "softplus": F.softplus,
    "softplus beta": lambda x: F.softplus(x, 2.0, 3.0),
    "softplus threshold": lambda x: F.softplus(x, 0.5, 50.0),
    "softshrink": F.softshrink,
    "softsign": F.softsign,
    "tanhshrink": F.tanhshrink,
    "threshold": lambda x: F.threshold(x, 0.5, -2.0),
}

FORMS = {
    "log_sigmoid_forward": lambda x: aten.log_sigmoid_forward(x)[0],
    "rrelu_with_noise": lambda x: aten.rrelu_with_noise_functional(x, torch.ones_like(x), 0.1, 0.5, False),
    "_softmax": lambda x: aten._softmax(x, 1, False),
    "_log_softmax": lambda x: aten._log_softmax(x, 0, False),
    "_prelu_kernel": lambda x: aten._prelu_kernel(x, torch.full((1, 1), 0.3)),
}

SOFTMAX = {
    "softmax": lambda x: F.softmax(x, 0),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "softmax to double": lambda x: F.softmax(x, 1, dtype=torch.float64),
    "log_softmax to double": lambda x: F.log_softmax(x, 0, dtype=torch.float64),
    "softmax to float": lambda x: F.softmax(x, 1, dtype=torch.float32),
    "special": lambda x: torch.special.log_softmax(x, 1),
    "of a number": lambda x: F.softmax(x[0, 0], 0) + F.log_softmax(x[1, 1], -1),
}

# gelu of infinity is no number in PyTorch, and infinity in onnxruntime, as it should be.
SPECIAL = [NAN, INF, -INF, 0.0, -0.0, 1e-3, -1e-3, 1e-8, -1e-8, 0.5, -0.5, 2.9, -3.0, 6.0, 19.9, 25.0, -25.0, 1e4]


@pytest.mark.slow
@pytest.mark.parametrize("opset", [18, 23])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_random_numbers(dtype, opset):
    x, y = (torch.randn(4, 6, dtype=dtype) * scale for scale in (3, 9))
    assert_all_match(TABLE | SOFTMAX, x, others=[(y,)], opset_version=opset)


def test_forms_inside_others():
    assert_all_match(FORMS, torch.randn(4, 6) * 3, others=[(torch.randn(4, 6) * 9,)])


@pytest.mark.slow
def test_half_precision():
    x = torch.randn(4, 6).half() * 3
    table = {name: TABLE[name] for name in TABLE if name != "prelu of a number"}
    assert_all_match(table | SOFTMAX, x, others=[(x * 2,)], rtol=3e-3, atol=3e-3)


@pytest.mark.slow
def test_bfloat16():
    table = {name: (lambda x, f=f: f(x.bfloat16()).float()) for name, f in TABLE.items()}
    assert_all_match(table, torch.randn(4, 6), others=[(torch.randn(4, 6) * 5,)], rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_special_numbers(dtype):
    table = {name: TABLE[name] for name in TABLE if not name.startswith(("gelu", "glu of rows"))}
    x = torch.tensor(SPECIAL, dtype=dtype).view(3, 6)
    assert_all_match(table, torch.randn(3, 6, dtype=dtype), others=[(x,)])


@pytest.mark.parametrize("dtype", [torch.int64, torch.int16, torch.uint8])
def test_integers(dtype):
    x = torch.randint(0, 9, (4, 6)).to(dtype) - (4 if dtype != torch.uint8 else 0)
    table = accepted({**TABLE, "softmax to float": SOFTMAX["softmax to float"]}, x)
    assert {"relu", "hardtanh", "softmax to float"} <= set(table)
    assert_all_match(table, x)


def test_small_values_keep_their_digits_in_double():
    x = torch.logspace(-12, -1, 12, dtype=torch.float64)
    table = {name: TABLE[name] for name in ("elu", "selu", "celu", "softplus", "logsigmoid")}
    assert_all_match(table, x, others=[(-x,), (-30 * torch.rand(12, dtype=torch.float64),)], rtol=1e-13, atol=0.0)
    # PyTorch's own gelu has 1 + erf(x), of which few digits are left where x is far below zero.
    assert_matches(F.gelu, x, others=[(-x,)], rtol=1e-13, atol=0.0)


def test_an_outer_scale_of_elu_leaves_the_rising_side_alone():
    """elu(x, alpha, scale, input_scale) scales the input of the falling side only."""
    x = torch.tensor([2.0, -2.0])
    expected = torch.tensor([2.0 * 2.0, 0.7 * 2.0 * math.expm1(-2.0 * 3.0)])
    program = opbridge.export(lambda x: aten.elu(x, 0.7, 2.0, 3.0), (x,), verify=False)
    torch.testing.assert_close(torch.from_numpy(run(program, (x,))[0]), expected)


def test_dynamic_batch():
    table = {name: (TABLE | SOFTMAX)[name] for name in ("prelu of channels", "softmax", "log_softmax", "glu", "elu")}
    assert_all_match(
        table,
        torch.randn(3, 6),
        others=[(torch.randn(7, 6),)],
        dynamic_shapes={"x": {0: torch.export.Dim.AUTO}},
    )


DROPOUT = {
    "dropout": F.dropout,
    "alpha_dropout": F.alpha_dropout,
    "feature": F.dropout2d,
    "feature_alpha": F.feature_alpha_dropout,
}


def test_dropout_is_no_node_in_evaluation():
    table = {name: (lambda x, f=f: f(x, 0.5, False)) for name, f in DROPOUT.items()}
    program = opbridge.export(lambda x: [f(x) for f in table.values()], (torch.randn(2, 3, 4, 4),), verify=False)
    assert {node.op_type for node in program.model.graph} == {"Identity"}
    assert_matches(lambda x: aten.native_dropout(x, 0.5, False), torch.randn(2, 3))


def test_dropping_everything_or_nothing():
    x = torch.randn(2, 3, 4, 4)
    assert_all_match({f"{name} all": (lambda x, f=f: f(x, 1.0, True)) for name, f in DROPOUT.items()}, x)
    assert_all_match({f"{name} none": (lambda x, f=f: f(x, 0.0, True)) for name, f in DROPOUT.items()}, x)


def _trained(function, x):
    program = opbridge.export(function, (x,), verify=False)
    return torch.from_numpy(run(program, (x,))[0])


def test_dropout_drops_and_scales():
    result = _trained(lambda x: F.dropout(x, 0.3, True), torch.ones(200, 100))
    assert result.unique().tolist() == [0.0, pytest.approx(1 / 0.7)]
    assert (result == 0).float().mean().item() == pytest.approx(0.3, abs=0.03)


def test_feature_dropout_drops_whole_channels():
    result = _trained(lambda x: F.dropout2d(x, 0.5, True), torch.ones(20, 30, 2, 3)).flatten(2)
    assert torch.equal(result.amin(-1), result.amax(-1))
    assert (result == 0).float().mean().item() == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("function", [F.alpha_dropout, F.feature_alpha_dropout])
def test_alpha_dropout_keeps_mean_and_variance(function):
    result = _trained(lambda x: function(x, 0.4, True), torch.randn(100, 200, 2))
    assert result.mean().item() == pytest.approx(0.0, abs=0.05)
    assert result.std().item() == pytest.approx(1.0, abs=0.05)


def test_rrelu_in_training_takes_slopes_between_its_bounds():
    slopes = _trained(lambda x: F.rrelu(x, 0.2, 0.6, True), -torch.ones(3000))
    assert (slopes <= -0.2).all() and (slopes >= -0.6).all() and slopes.std() > 0.05
    assert torch.equal(_trained(lambda x: F.rrelu(x, 0.2, 0.6, True), torch.ones(5)), torch.ones(5))
