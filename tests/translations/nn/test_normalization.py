"""Normalisation, against PyTorch, with statistics of the batch and given ones."""

from __future__ import annotations

import pytest
import torch
from helpers.matching import assert_matches
from helpers.tables import assert_all_match

F = torch.nn.functional
AUTO = torch.export.Dim.AUTO
aten = torch.ops.aten

WEIGHT, BIAS, MEAN = torch.randn(6), torch.randn(6), torch.randn(6)
VARIANCE = torch.rand(6) + 0.5


def _like(x, *tensors):
    """Copies: in training, PyTorch writes to the statistics."""
    return [tensor.to(x.dtype, copy=True) for tensor in tensors]


def _batch_norm(x, training):
    weight, bias, mean, variance = _like(x, WEIGHT, BIAS, MEAN, VARIANCE)
    return F.batch_norm(x, mean, variance, weight, bias, training, 0.3, 1e-3)


BATCH = {
    "given": lambda x: _batch_norm(x, False),
    "batch": lambda x: _batch_norm(x, True),
    "given, plain": lambda x: F.batch_norm(x, *_like(x, MEAN, VARIANCE)),
    "batch, plain": lambda x: F.batch_norm(x, None, None, training=True),
    "group": lambda x: F.group_norm(x, 3, *_like(x, WEIGHT, BIAS)),
    "group, plain": lambda x: F.group_norm(x, 2),
    "group, one": lambda x: F.group_norm(x, 1, *_like(x, WEIGHT, BIAS), eps=0.1),
    "group, each": lambda x: F.group_norm(x, 6, *_like(x, WEIGHT, BIAS)),
}

INSTANCE = {
    "input's": lambda x: F.instance_norm(x, None, None, *_like(x, WEIGHT, BIAS), True, eps=1e-2),
    "plain": lambda x: F.instance_norm(x),
    "given": lambda x: F.instance_norm(x, *_like(x, MEAN, VARIANCE, WEIGHT, BIAS), False),
}

LAYER = {
    "layer": lambda x: F.layer_norm(x, (6, 5), *_like(x, torch.linspace(1, 2, 30).view(6, 5)), torch.ones(6, 5).to(x)),
    "layer, plain": lambda x: F.layer_norm(x, (5,)),
    "layer, no bias": lambda x: F.layer_norm(x, (5,), torch.arange(5).to(x), eps=0.5),
    "layer, no weight": lambda x: F.layer_norm(x, (5,), None, torch.arange(5).to(x)),
    "rms": lambda x: F.rms_norm(x, (6, 5), torch.linspace(1, 2, 30).view(6, 5).to(x)),
    "rms, small": lambda x: F.rms_norm(x * 1e-2, (5,)),
    "rms, eps": lambda x: F.rms_norm(x, (5,), None, 0.5),
    "normalize": lambda x: F.normalize(x, dim=1),
    "local response": lambda x: F.local_response_norm(x, 3),
}


def _tolerance(dtype):
    """Few numbers lie close together at times, and then their variance has few digits, in PyTorch too."""
    return {"rtol": 1e-4, "atol": 1e-4} if dtype == torch.float32 else {}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(5, 6, 4), (2, 6, 3, 4)])
def test_batch_and_group(shape, dtype):
    x, y = torch.randn(shape, dtype=dtype) * 3 + 1, torch.randn(shape, dtype=dtype) * 2
    assert_all_match(BATCH | INSTANCE, x, others=[(y,)], **_tolerance(dtype))


def test_of_a_matrix():
    table = {name: BATCH[name] for name in list(BATCH)[:4]}
    assert_all_match(table, torch.randn(9, 6), others=[(torch.randn(9, 6),)], **_tolerance(torch.float32))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_layer(dtype):
    x, y = torch.randn(2, 6, 5, dtype=dtype) * 3 + 1, torch.randn(2, 6, 5, dtype=dtype)
    assert_all_match(LAYER, x, others=[(y,)])


@pytest.mark.slow
def test_half_precision():
    x, y = torch.randn(3, 6, 5).half(), torch.randn(3, 6, 5).half()
    assert_all_match(BATCH | INSTANCE | LAYER, x, others=[(y,)], rtol=4e-3, atol=4e-3)


@pytest.mark.slow
def test_bfloat16():
    table = {name: (lambda x, f=f: f(x.bfloat16()).float()) for name, f in (BATCH | INSTANCE | LAYER).items()}
    assert_all_match(table, torch.randn(3, 6, 5), others=[(torch.randn(3, 6, 5),)], rtol=3e-2, atol=3e-2)


@pytest.mark.parametrize("opset", [18, 23])
def test_opsets(opset):
    x, y = torch.randn(3, 6, 5), torch.randn(3, 6, 5)
    assert_all_match(BATCH | INSTANCE | LAYER, x, others=[(y,)], opset_version=opset, **_tolerance(x.dtype))


@pytest.mark.slow
def test_dynamic_sizes():
    others = [(torch.randn(7, 6, 3, 8),), (torch.randn(1, 6, 5, 2),)]
    layers = {"rms": lambda x: F.rms_norm(x, x.shape[1:]), "layer": lambda x: F.layer_norm(x, x.shape[2:])}
    assert_all_match(
        BATCH | INSTANCE | layers,
        torch.randn(2, 6, 4, 5),
        others=others,
        dynamic_shapes={"x": {0: AUTO, 2: AUTO, 3: AUTO}},
        **_tolerance(torch.float32),
    )


@pytest.mark.parametrize(
    "operator", ["batch_norm", "native_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update"]
)
def test_training_takes_the_statistics_of_the_batch(operator):
    """torch.onnx exports these three forms without a warning, and takes the running statistics."""
    x, y = torch.randn(4, 6, 5) * 4 + 2, torch.randn(4, 6, 5) * 3

    def model(x):
        mean, variance = MEAN.clone(), VARIANCE.clone()
        if operator == "batch_norm":
            return torch.batch_norm(x, WEIGHT, BIAS, mean, variance, True, 0.5, 0.6, False)
        if operator == "_batch_norm_with_update":
            return aten._batch_norm_with_update(x, WEIGHT, BIAS, mean, variance, 0.5, 0.6)[:3]
        return getattr(aten, operator)(x, WEIGHT, BIAS, mean, variance, True, 0.5, 0.6)

    expected = model(x) if operator == "batch_norm" else model(x)[0]
    running = F.batch_norm(x, MEAN, VARIANCE, WEIGHT, BIAS, False, 0.5, 0.6)
    assert (expected - running).abs().max() > 0.5
    assert_matches(model, x, others=[(y,)])


def test_native_forms():
    assert_all_match(
        {
            "no statistics": lambda x: aten._native_batch_norm_legit.no_stats(x, WEIGHT, None, True, 0.1, 1e-3),
            "no training": lambda x: aten._native_batch_norm_legit_no_training(
                x, WEIGHT, BIAS, MEAN, VARIANCE, 0.1, 1e-3
            ),
            "given": lambda x: torch.native_batch_norm(x, WEIGHT, BIAS, MEAN, VARIANCE, False, 0.1, 1e-3),
            "no update": lambda x: aten._batch_norm_no_update(x, WEIGHT, BIAS, MEAN, VARIANCE, 0.1, 1e-3)[:3],
            "functional": lambda x: aten._native_batch_norm_legit_functional(
                x, WEIGHT, BIAS, MEAN, VARIANCE, True, 0.3, 1e-3
            ),
            "layer": lambda x: torch.native_layer_norm(x, (5,), None, None, 1e-3),
            "fused rms": lambda x: aten._fused_rms_norm(x, [6, 5], None, None),
            "group": lambda x: torch.native_group_norm(x, WEIGHT, BIAS, 4, 6, 5, 3, 1e-3),
        },
        torch.randn(4, 6, 5) * 2 + 1,
        others=[(torch.randn(4, 6, 5),)],
    )


def test_functional_batch_norm_gives_the_new_running_statistics_of_any_batch():
    assert_matches(
        lambda x: aten._native_batch_norm_legit_functional(x, None, None, MEAN, VARIANCE, True, 0.3, 1e-3),
        torch.randn(4, 6, 5),
        others=[(torch.randn(9, 6, 3),)],
        dynamic_shapes={"x": {0: AUTO, 2: AUTO}},
    )


def test_an_empty_batch_stays_empty():
    assert_matches(lambda x: F.batch_norm(x, MEAN, VARIANCE), torch.randn(0, 6, 5))


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_weight_norm(dim):
    g = torch.rand(()) if dim == -1 else torch.rand([4 if dim == 0 else 1, 3 if dim == 1 else 1, 1])
    assert_matches(
        lambda v, g: torch._weight_norm(v, g, dim),
        torch.randn(4, 3, 2),
        g,
        others=[(torch.randn(4, 3, 2), torch.rand_like(g))],
    )


def test_weight_norm_with_its_norm():
    assert_matches(
        lambda v, g: torch._weight_norm_interface(v, g, 0),
        torch.randn(4, 3, 2),
        torch.rand(4, 1, 1),
        others=[(torch.randn(4, 3, 2), torch.rand(4, 1, 1))],
    )
