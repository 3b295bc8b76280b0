"""Pooling, against PyTorch: borders, ceil_mode, divisors, indices, and sizes that do not divide."""

from __future__ import annotations

import pytest
import torch
from helpers.matching import assert_matches
from helpers.tables import assert_all_match

import opbridge

F = torch.nn.functional
AUTO = torch.export.Dim.AUTO
PLANE = {"x": {0: AUTO, 2: AUTO, 3: AUTO}}

AVERAGE = {
    "plain": lambda x: F.avg_pool2d(x, 2),
    "padding": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "padding not counted": lambda x: F.avg_pool2d(x, (3, 2), (2, 1), (1, 0), False, False),
    "ceil": lambda x: F.avg_pool2d(x, 3, 2, 1, True, True),
    "ceil, last window dropped": lambda x: F.avg_pool2d(x, 2, 3, 1, True, True),
    "ceil, padding not counted": lambda x: F.avg_pool2d(x, 4, 3, 1, True, False),
    "divisor": lambda x: F.avg_pool2d(x, (3, 2), (2, 1), (1, 0), False, True, 7),
    "divisor, padding not counted": lambda x: F.avg_pool2d(x, 3, 1, 1, False, False, 2),
    "divisor, ceil": lambda x: F.avg_pool2d(x, 3, 2, 1, True, True, 5),
    "negative divisor": lambda x: F.avg_pool2d(x, 2, (), 0, False, True, -2),
}

MAXIMUM = {
    "plain": lambda x: F.max_pool2d(x, 2),
    "padding": lambda x: F.max_pool2d(x, 3, 2, 1),
    "dilation": lambda x: F.max_pool2d(x, 2, 1, 1, 2),
    "ceil": lambda x: F.max_pool2d(x, 3, 2, 1, 1, True),
    "indices": lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True),
    "indices, dilation, ceil": lambda x: F.max_pool2d(x, 2, 2, 1, 2, True, return_indices=True),
}

ADAPTIVE = {
    "average, one": lambda x: F.adaptive_avg_pool2d(x, 1),
    "average, evenly": lambda x: F.adaptive_avg_pool2d(x, (3, 4)),
    "average, unevenly": lambda x: F.adaptive_avg_pool2d(x, (4, 5)),
    "average, more than there are": lambda x: F.adaptive_avg_pool2d(x, (7, 11)),
    "average, one dimension": lambda x: F.adaptive_avg_pool2d(x, (None, 3)),
    "maximum, one": lambda x: F.adaptive_max_pool2d(x, 1, return_indices=True),
    "maximum, evenly": lambda x: F.adaptive_max_pool2d(x, (3, 4), return_indices=True),
    "maximum, unevenly": lambda x: F.adaptive_max_pool2d(x, (4, 5), return_indices=True),
    "maximum, more than there are": lambda x: F.adaptive_max_pool2d(x, (7, 11)),
}


def _random(*shape, dtype=torch.float32):
    return torch.randn(shape).to(dtype) if dtype.is_floating_point else torch.randint(-9, 9, shape).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
@pytest.mark.parametrize("table", [AVERAGE, MAXIMUM, ADAPTIVE], ids=["average", "maximum", "adaptive"])
def test_of_images(table, dtype):
    if dtype == torch.int64 and table is ADAPTIVE:
        table = {"maximum of floats": lambda x: F.adaptive_max_pool2d(x.float(), (4, 5))}
    assert_all_match(table, _random(2, 3, 6, 8, dtype=dtype), others=[(_random(2, 3, 6, 8, dtype=dtype),)])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("table", [AVERAGE, MAXIMUM], ids=["average", "maximum"])
def test_of_dynamic_sizes(table, dtype):
    others = [(_random(1, 3, 9, 7, dtype=dtype),), (_random(3, 3, 4, 12, dtype=dtype),)]
    assert_all_match(table, _random(2, 3, 6, 8, dtype=dtype), others=others, dynamic_shapes=PLANE)


def test_adaptive_of_dynamic_sizes():
    assert_all_match(ADAPTIVE, _random(2, 3, 6, 8), others=[(_random(1, 3, 13, 10),)], dynamic_shapes=PLANE)


@pytest.mark.parametrize("opset", [18, 22])
def test_opsets(opset):
    assert_all_match(AVERAGE | MAXIMUM | ADAPTIVE, _random(2, 3, 6, 8), opset_version=opset)


def test_half_precision():
    x = _random(2, 3, 6, 8, dtype=torch.float16)
    assert_all_match(AVERAGE | MAXIMUM | ADAPTIVE, x, rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int32])
def test_maximum_of_integers(dtype):
    x = torch.randint(0, 100, (2, 3, 6, 8)).to(dtype)
    assert_all_match(MAXIMUM, x)


def test_maximum_of_the_lowest_int64():
    x = torch.full((1, 1, 3, 3), torch.iinfo(torch.int64).min)
    assert_matches(lambda x: F.max_pool2d(x, 2, 1, 1, return_indices=True), x)


def test_equal_elements_give_the_first_index():
    assert_matches(lambda x: F.max_pool2d(x, 3, 1, 1, return_indices=True), torch.zeros(1, 2, 4, 5))


LINE = {
    "average": lambda x: F.avg_pool1d(x, 3, 2, 1, True, False),
    "maximum": lambda x: F.max_pool1d(x, 3, 2, 1, 1, True, return_indices=True),
    "adaptive average": lambda x: F.adaptive_avg_pool1d(x, 4),
    "adaptive maximum": lambda x: F.adaptive_max_pool1d(x, 4, return_indices=True),
    "lp": lambda x: F.lp_pool1d(x, 2.0, 3, 2),
}

VOLUME = {
    "average": lambda x: F.avg_pool3d(x, 2, 1, 1, True, False, 2),
    "average, ceil": lambda x: F.avg_pool3d(x, (2, 3, 2), 2, (1, 1, 0), True, True),
    "maximum": lambda x: F.max_pool3d(x, 2, 2, 1, return_indices=True),
    "adaptive average": lambda x: F.adaptive_avg_pool3d(x, (3, 4, 2)),
    "adaptive average, one": lambda x: F.adaptive_avg_pool3d(x, 1),
    "adaptive maximum": lambda x: F.adaptive_max_pool3d(x, (3, 4, 2), return_indices=True),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_of_lines_and_volumes(dtype):
    assert_all_match(LINE, _random(2, 3, 11, dtype=dtype), others=[(_random(2, 3, 11, dtype=dtype),)])
    assert_all_match(VOLUME, _random(2, 2, 4, 5, 6, dtype=dtype), others=[(_random(2, 2, 4, 5, 6, dtype=dtype),)])


@pytest.mark.slow
def test_without_a_batch():
    assert_all_match(LINE, _random(3, 11), others=[(_random(3, 11),)])
    assert_all_match(AVERAGE | MAXIMUM | ADAPTIVE, _random(3, 6, 8), others=[(_random(3, 6, 8),)])
    assert_all_match(VOLUME, _random(2, 4, 5, 6), others=[(_random(2, 4, 5, 6),)])


def _pooled_to_short_segments(x):
    return F.adaptive_avg_pool2d(x, (7, 3)), F.adaptive_avg_pool2d(x, (2, 3)), F.adaptive_avg_pool2d(x[0], (3, 7))


def test_short_segments_of_float16_are_not_cast():
    """vgg16 pools the 2 x 2 pixels that are left of a small image to 7 x 7."""
    x = _random(2, 3, 2, 4, dtype=torch.float16)
    largest = torch.full_like(x, torch.finfo(x.dtype).max)
    program = assert_matches(_pooled_to_short_segments, x, others=[(x * 1e4,), (largest,)])
    assert "Cast" not in {node.op_type for node in program.model.graph}


def test_short_segments_of_bfloat16_are_not_cast():
    x = _random(2, 3, 2, 4, dtype=torch.bfloat16)
    program = opbridge.export(_pooled_to_short_segments, (x,), target="tensorrt:10.15")
    assert program.verification.ok
    assert "Cast" not in {node.op_type for node in program.model.graph}


def test_long_segments_of_half_precision():
    x = _random(1, 2, 101, dtype=torch.float16)
    assert_matches(lambda x: F.adaptive_avg_pool1d(x, 7), x, others=[(x * 1e4,)])


@pytest.mark.parametrize("pool", [F.avg_pool2d, F.avg_pool3d])
def test_a_divisor_takes_the_place_of_the_window(pool):
    """torch.onnx exports the divisor without a warning, and divides by the window's size."""
    rank = 2 if pool is F.avg_pool2d else 3
    x = _random(1, 3, *([9] * rank))

    def model(x):
        return pool(x, 3, 1, 1, True, False, 2)

    assert (model(x) - pool(x, 3, 1, 1, True, False)).abs().max() > 0.5
    assert_matches(model, x, others=[(_random(*x.shape),)])


def test_infinities_stay_in_their_segments():
    x = _random(1, 1, 7, 5)
    x[0, 0, 3, 2] = float("inf")
    assert_matches(lambda x: F.adaptive_avg_pool2d(x, (3, 4)), _random(1, 1, 7, 5), others=[(x,)])


def test_an_empty_batch():
    x = torch.randn(0, 3, 5, 5)
    assert_matches(lambda x: F.adaptive_max_pool2d(x, (2, 2), return_indices=True), x)
    assert_matches(lambda x, s: torch.ops.aten.fractional_max_pool2d(x, [2, 2], [2, 2], s), x, torch.rand(0, 3, 2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_fractional(dtype):
    samples, others = torch.rand(2, 3, 2, dtype=dtype), torch.rand(2, 3, 2, dtype=dtype)
    assert_matches(
        lambda x, s: torch.ops.aten.fractional_max_pool2d(x, (2, 3), (4, 1), s),
        _random(2, 3, 9, 8, dtype=dtype),
        samples,
        others=[(_random(2, 3, 9, 8, dtype=dtype), others)],
    )
    assert_matches(
        lambda x, s: torch.ops.aten.fractional_max_pool3d(x, (2, 1, 2), (3, 2, 4), s),
        _random(2, 3, 5, 6, 7, dtype=dtype),
        torch.rand(2, 3, 3, dtype=dtype),
    )


def test_of_no_segments() -> None:
    """A size that is half of another one is 0 where that is 1; torch gives a tensor without elements."""
    others = [(_random(2, 3, height, 6),) for height in (1, 2, 5)]
    shapes = {"x": {2: "height"}}
    assert_matches(
        lambda x: F.adaptive_avg_pool2d(x, (x.shape[2] // 2, 4)),
        _random(2, 3, 8, 6),
        others=others,
        dynamic_shapes=shapes,
    )
