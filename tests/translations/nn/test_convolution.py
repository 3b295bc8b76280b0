"""Convolutions, against PyTorch: groups, dilation, padding by name, and types without kernels."""

from __future__ import annotations

import pytest
import torch
from helpers.matching import assert_matches

F = torch.nn.functional
AUTO = torch.export.Dim.AUTO
CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
LONGER = {1: (9,), 2: (7, 6), 3: (5, 6, 4)}

# Kernel, and the arguments behind the bias: stride, padding, dilation, groups.
CASES = [
    ((3,), (1, 0, 1, 1)),
    ((3,), (2, 1, 2, 2)),
    ((2,), (1, "same", 1, 1)),
    ((2, 3), (1, "same", (2, 1), 2)),
    ((4, 2), (1, "same", 1, 1)),
    ((3, 2), ((2, 1), "valid", 1, 1)),
    ((3, 3), (2, (1, 2), 1, 4)),
    ((2, 1, 2), (1, (1, 0, 1), 1, 2)),
    ((1, 2, 2), (1, "same", 1, 1)),
]

# Stride, padding, output_padding, groups, dilation.
TRANSPOSED_CASES = [
    ((3,), (2, 1, 1, 1, 1)),
    ((2,), (3, 0, 2, 2, 1)),
    ((3, 2), ((2, 3), (1, 0), (1, 2), 2, 1)),
    ((3, 2), (1, (2, 1), 0, 1, 2)),
    ((2, 3), ((3, 2), (1, 2), (2, 3), 2, 4)),
    ((2, 2), (1, 0, 2, 1, 3)),
    ((2, 1, 2), (2, (1, 0, 0), 1, 2, 1)),
]


def _random(*shape, dtype=torch.float32):
    return torch.randint(-9, 9, shape).to(dtype) if dtype == torch.int64 else torch.randn(shape, dtype=dtype)


def _tolerance(dtype):
    return {torch.float16: {"rtol": 1e-2, "atol": 2e-2}, torch.float32: {"rtol": 1e-5, "atol": 2e-5}}.get(dtype, {})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.int64, torch.complex64])
@pytest.mark.parametrize(("kernel", "arguments"), CASES)
def test_convolution(kernel, arguments, dtype):
    rank = len(kernel)
    x, y = (_random(2, 4, *LONGER[rank], dtype=dtype) for _ in range(2))
    weight, bias = _random(8, 4 // arguments[-1], *kernel, dtype=dtype), _random(8, dtype=dtype)
    tolerance = {"rtol": 1e-4, "atol": 1e-4} if dtype == torch.complex64 else _tolerance(dtype)
    assert_matches(
        lambda x, w, b: CONV[rank](x, w, b, *arguments), x, weight, bias, others=[(y, weight, bias)], **tolerance
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64])
@pytest.mark.parametrize(("kernel", "arguments"), TRANSPOSED_CASES)
def test_transposed(kernel, arguments, dtype):
    rank = len(kernel)
    x, y = (_random(2, 4, *LONGER[rank], dtype=dtype) for _ in range(2))
    weight, bias = _random(4, 6 // arguments[3], *kernel, dtype=dtype), _random(6, dtype=dtype)
    tolerance = {"rtol": 1e-4, "atol": 1e-4} if dtype == torch.complex64 else _tolerance(dtype)
    assert_matches(
        lambda x, w, b: TRANSPOSED[rank](x, w, b, *arguments), x, weight, bias, others=[(y, weight, bias)], **tolerance
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dynamic_sizes(dtype):
    weight, back = _random(6, 4, 3, 2, dtype=dtype), _random(6, 4, 3, 2, dtype=dtype)

    def model(x):
        y = F.conv2d(F.conv2d(x, weight, None, 1, "same"), weight[:, :2].repeat(1, 3, 1, 1), None, 2, 1)
        return F.conv_transpose2d(y, back, None, 2, 1, 1)

    assert_matches(
        model,
        _random(2, 4, 7, 8, dtype=dtype),
        others=[(_random(3, 4, 10, 5, dtype=dtype),)],
        dynamic_shapes=({0: AUTO, 2: AUTO, 3: AUTO},),
        rtol=1e-4,
        atol=1e-4,
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64])
def test_an_output_size_that_is_asked_for(dtype):
    weight, bias = _random(4, 3, 3, 2, dtype=dtype), _random(3, dtype=dtype)

    def model(x):
        padding = [size - ((size + 2) // 3 - 1) * 3 - 1 for size in x.shape[2:]]  # 0, 1 or 2
        part = x[:, :, ::3, ::3]
        return F.conv_transpose2d(part, weight, bias, 3, (1, 0), (padding[0], padding[1]), 1, (1, 2))

    assert_matches(
        model,
        _random(2, 4, 7, 8, dtype=dtype),
        others=[(_random(1, 4, height, width, dtype=dtype),) for height, width in ((9, 6), (8, 10), (10, 9))],
        dynamic_shapes=({0: AUTO, 2: AUTO, 3: AUTO},),
        rtol=1e-4,
        atol=1e-4,
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_without_a_batch(dtype):
    weight = _random(6, 4, 3, dtype=dtype)
    x = _random(4, 9, dtype=dtype)
    assert_matches(lambda x: F.conv1d(x, weight, None, 1, "same"), x, others=[(x * 2,)], **_tolerance(dtype))
    assert_matches(lambda x: F.conv_transpose1d(x, weight[:4]), x, others=[(x * 2,)], **_tolerance(dtype))


@pytest.mark.parametrize("transposed", [False, True])
def test_the_general_operator(transposed):
    weight = _random(4, 2, 3, 3)
    arguments = ([2, 1], [1, 1], [1, 1], transposed, [1, 0] if transposed else [0, 0], 2)
    assert_matches(
        lambda x: torch.ops.aten.convolution(x, weight, None, *arguments),
        _random(2, 4, 6, 5),
        others=[(_random(2, 4, 6, 5),)],
        opset_version=18,
        **_tolerance(torch.float32),
    )


def test_of_time_batch_channels():
    assert_matches(
        lambda x, w, b: torch.conv_tbc(x, w, b, 1),
        _random(7, 2, 3),
        _random(3, 3, 4),
        _random(4),
        others=[(_random(7, 2, 3), _random(3, 3, 4), _random(4))],
        **_tolerance(torch.float32),
    )


def test_batch_norm_is_left_for_the_runtime_to_merge():
    """A convolution and its normalisation stay one node each: onnxruntime makes them one."""
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)).eval()
    program = assert_matches(model, _random(1, 3, 6, 6), **_tolerance(torch.float32))
    assert [node.op_type for node in program.model.graph] == ["Conv", "BatchNormalization"]


def _one_filter_each(x):
    """The same filter for each of as many channels as the input has."""
    return torch.nn.functional.conv1d(x, torch.arange(-2.0, 3.0).repeat(x.shape[1], 1, 1), padding=2, groups=x.shape[1])


def _one_transposed_filter_each(x):
    filters = torch.arange(20.0).reshape(1, 2, 10)[..., :3].repeat(x.shape[1], 1, 1)
    return torch.nn.functional.conv_transpose1d(x, filters, stride=2, padding=1, groups=x.shape[1])


def _filters_of_another_tensor(x, filters):
    """The full convolution of each pair of signals."""
    return torch.nn.functional.conv1d(
        x[None], filters.flip(-1)[:, None], groups=x.shape[0], padding=filters.shape[1] - 1
    )


def test_filters_of_any_length():
    assert_matches(
        _filters_of_another_tensor,
        _random(2, 12),
        _random(2, 5),
        others=[(_random(3, 9), _random(3, 1)), (_random(1, 9), _random(1, 9))],
        dynamic_shapes=({0: "count", 1: "length"}, {0: "count", 1: "taps"}),
        **_tolerance(torch.float32),
    )


@pytest.mark.parametrize(
    ("function", "filters"),
    [
        (lambda x, y: torch.nn.functional.conv2d(x, y, stride=(1, 2), dilation=(2, 1)), (4, 3, 3, 5)),
        (lambda x, y: torch.nn.functional.conv_transpose2d(x, y, stride=2), (3, 4, 3, 5)),
    ],
)
def test_filters_of_any_size_in_float64(function, filters):
    x = _random(2, 3, 12, 13, dtype=torch.float64)
    others = [(x, _random(*filters[:2], *sizes, dtype=torch.float64)) for sizes in ((1, 1), (2, 6))]
    y = _random(*filters, dtype=torch.float64)
    assert_matches(function, x, y, others=others, dynamic_shapes=({}, {2: "height", 3: "width"}))


@pytest.mark.parametrize("function", [_one_filter_each, _one_transposed_filter_each])
def test_as_many_groups_as_a_size(function):
    assert_matches(
        function,
        _random(2, 5, 9),
        others=[(_random(1, 3, 4),), (_random(3, 1, 12),)],
        dynamic_shapes=({0: "batch", 1: "channels", 2: "length"},),
        **_tolerance(torch.float32),
    )
