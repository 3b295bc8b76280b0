"""Operators that torch cannot capture by itself, or only for the example's sizes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers.matching import assert_matches
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import Dim

import opbridge
from opbridge.capture import capture, fake_implementations

F = torch.nn.functional


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_a_check_of_values_is_left_out(full: bool, reduction: str) -> None:
    def loss(x: torch.Tensor, y: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
        return F.gaussian_nll_loss(x, y, variance, full=full, reduction=reduction)

    assert_matches(loss, torch.randn(3, 4), torch.randn(3, 4), torch.rand(3, 4) - 0.0)
    assert_matches(loss, torch.randn(3, 4), torch.randn(3, 4), torch.zeros(3))
    assert_matches(lambda x: F.gaussian_nll_loss(x, x + 1, 0.5, full=full, reduction=reduction), torch.randn(3, 4))


def test_the_gradient_of_gaussian_nll_loss_passes_over_its_bound() -> None:
    def gradient(x: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
        variance = variance.detach().requires_grad_()
        return torch.autograd.grad(F.gaussian_nll_loss(x, x + 1, variance, eps=0.5), variance)[0]

    program = opbridge.export(gradient, (torch.randn(6), torch.tensor([0.1, 0.4, 0.5, 0.6, 2.0, 3.0])))
    assert program.verification is not None and program.verification.ok


def test_one_hot_of_as_many_classes_as_there_are() -> None:
    others = [[torch.tensor([[0, 7], [1, 1]])], [torch.tensor([[0, 0], [0, 0]])]]
    assert_matches(F.one_hot, torch.tensor([[1, 2], [0, 4]]), others=others)
    assert_matches(lambda x: F.one_hot(x).sum(0) + 1, torch.tensor([1, 2, 0]), others=[[torch.tensor([0, 0, 0])]])


def test_parts_of_a_length_that_data_decide_have_that_length() -> None:
    def attention(x: torch.Tensor, begin: torch.Tensor, length: torch.Tensor) -> torch.Tensor:
        query, key, value = (each.narrow(1, begin.item(), length.item()) for each in (x, x.cos(), x.sin()))
        return torch.nn.functional.scaled_dot_product_attention(query, key, value)

    x = torch.randn(2, 6, 4)
    sizes = [(x, torch.tensor(begin), torch.tensor(length)) for begin, length in ((1, 3), (0, 6), (5, 1), (-3, 2))]
    assert_matches(attention, *sizes[0], others=sizes[1:])


def test_narrow_from_where_a_tensor_says() -> None:
    x = torch.randn(5, 4)
    assert_matches(lambda x, start: torch.narrow(x, 0, start, 2), x, torch.tensor(1), others=[[x, torch.tensor(-3)]])


def test_tensor_split_where_a_tensor_says() -> None:
    x = torch.randn(3, 7)
    others = [[x, torch.tensor(each)] for each in ([0, 7], [5, 2], [-3, -1], [3, 30])]
    assert_matches(lambda x, places: torch.tensor_split(x, places, 1), x, torch.tensor([1, 3]), others=others)


@pytest.mark.slow
def test_tensor_split_into_as_many_parts_as_a_tensor_says() -> None:
    with pytest.raises(opbridge.CaptureError, match="Python needs a number here"):
        opbridge.export(lambda x, count: torch.tensor_split(x, count), (torch.randn(6), torch.tensor(2)))


@pytest.mark.parametrize("layer", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
@pytest.mark.parametrize("batch_first", [False, True])
def test_recurrent_layers_of_any_length(layer: type[torch.nn.Module], batch_first: bool) -> None:
    model = layer(4, 5, num_layers=2, bidirectional=True, batch_first=batch_first).eval()
    others = [[torch.randn(1, 6, 4)], [torch.randn(9, 1, 4)]]
    program = assert_matches(model, torch.randn(3, 2, 4), others=others, dynamic_shapes="auto", rtol=1e-4, atol=1e-5)
    assert [note for note in program.plan.notes if "valid only for" in note] == [
        "the file is valid only for input.shape[2] == 4; other sizes are not covered"
    ]
    assert not any("forward() sets" in note for note in program.plan.notes)


def test_distances_between_few_and_many() -> None:
    sizes = {"x": {0: Dim("m")}, "y": {0: Dim("n")}}
    others = [[torch.randn(m, 3), torch.randn(n, 3)] for m, n in ((1, 1), (25, 25), (26, 2), (2, 40))]
    assert_matches(
        lambda x, y: torch.cdist(x, y), torch.randn(4, 3), torch.randn(5, 3), others=others, dynamic_shapes=sizes,
        rtol=1e-3, atol=1e-3,
    )  # fmt: skip


def test_nothing_is_left_behind() -> None:
    before = {name: dict(getattr(torch.ops.aten, name).default.py_kernels) for name in ("cov", "cdist", "one_hot")}
    opbridge.export(torch.cov, (torch.randn(3, 5),), verify=False)
    after = {name: dict(getattr(torch.ops.aten, name).default.py_kernels) for name in before}
    assert after == before


def of_shape(function: Callable[..., Any], *inputs: torch.Tensor) -> list[Any]:
    """The shape and the strides of what a function gives on tensors without values."""
    with FakeTensorMode() as mode, fake_implementations.replacing_fake_implementations():
        result = function(*(mode.from_tensor(each) for each in inputs))
    return [result.shape, result.stride(), result.dtype]


@pytest.mark.parametrize("batch", [(), (0,), (1,), (3,)], ids=str)
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"stride": 2},
        {"padding": 1, "stride": 3},
        {"dilation": 2, "padding": 2, "groups": 2},
        {"padding": "same"},
        {"padding": "valid", "groups": 4},
        {"transposed": True},
        {"transposed": True, "stride": 3, "padding": 1, "output_padding": 2},
        {"transposed": True, "stride": 2, "output_padding": 1, "dilation": 2, "groups": 2},
    ],
    ids=str,
)
def test_the_shapes_of_convolutions(batch: tuple[int, ...], rank: int, settings: dict[str, Any]) -> None:
    transposed = settings.pop("transposed", False) if (settings := dict(settings)) else False
    weight = torch.randn(4, 4 if transposed else 4 // settings.get("groups", 1), *[3] * rank, dtype=torch.float64)
    x = torch.randn(*batch, 4, *[7, 8, 9][:rank], dtype=torch.float64)
    function = getattr(F, f"conv{'_transpose' if transposed else ''}{rank}d")
    for bias in (None, torch.randn(weight.shape[1] * settings.get("groups", 1) if transposed else 4).double()):
        given = () if bias is None else (bias,)
        expected = function(x, weight, *given, **settings)
        found = of_shape(functools.partial(function, **settings), x, weight, *given)
        assert found == [expected.shape, expected.stride(), torch.float64]


@pytest.mark.slow
@pytest.mark.parametrize("size", [(2, 4, 7, 8), (2, 4, 5, 7, 8)], ids=str)
def test_convolutions_keep_the_channels_last(size: tuple[int, ...]) -> None:
    rank = len(size) - 2
    function = F.conv2d if rank == 2 else F.conv3d
    x, weight = torch.randn(size), torch.randn(6, 4, *[3] * rank)
    order = torch.channels_last if rank == 2 else torch.channels_last_3d
    for given in ((x.to(memory_format=order), weight), (x, weight.to(memory_format=order)), (x, weight)):
        expected = function(*given)
        assert of_shape(function, *given) == [expected.shape, expected.stride(), torch.float32]


@pytest.mark.parametrize(
    "x, weight, settings, told",
    [
        ((2, 3, 8, 8), (4, 4, 3, 3), {}, "expected input\\[2, 3, 8, 8\\] to have 4 channels, but got 3"),
        ((2, 4, 2, 8), (4, 4, 3, 3), {}, "larger than the padded input"),
        ((2, 4, 2, 8), (4, 4, 1, 1), {"transposed": True, "padding": 1}, "too small"),
    ],
)
def test_what_no_convolution_takes(
    x: tuple[int, ...], weight: tuple[int, ...], settings: dict[str, Any], told: str
) -> None:
    transposed = settings.pop("transposed", False) if (settings := dict(settings)) else False
    function = functools.partial(F.conv_transpose2d if transposed else F.conv2d, **settings)
    with pytest.raises(RuntimeError):
        function(torch.randn(x), torch.randn(weight))
    with pytest.raises(RuntimeError, match=told):
        of_shape(function, torch.randn(x), torch.randn(weight))


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("size", [1, 2, 3, None])
@pytest.mark.parametrize("batch", [(), (0,), (1,), (3,)], ids=str)
def test_the_shapes_of_adaptive_pools(rank: int, size: int | None, batch: tuple[int, ...]) -> None:
    x = torch.randn(*batch, 4, *[7, 8, 9][:rank])
    for kind in ("avg", "max"):
        if size is None and rank == 1:
            continue
        function = functools.partial(getattr(F, f"adaptive_{kind}_pool{rank}d"), output_size=[size] * rank)
        assert of_shape(function, x)[0] == function(x).shape


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv1d(3, 4, 3),
        nn.Conv2d(3, 4, 3, padding=1, stride=2),
        nn.Conv2d(3, 6, 3, groups=3),
        nn.Conv3d(3, 4, 2),
        nn.ConvTranspose2d(3, 4, 2, stride=2),
        nn.AdaptiveAvgPool2d(1),
        nn.AdaptiveAvgPool2d(2),
        nn.AdaptiveMaxPool2d(1),
        nn.MaxPool2d(2),
        nn.AvgPool2d(2),
        nn.BatchNorm2d(3),
        nn.GroupNorm(1, 3),
        nn.Upsample(scale_factor=2, mode="bilinear"),
        nn.Upsample(scale_factor=2, mode="nearest"),
        nn.Upsample(scale_factor=2, mode="bicubic"),
        nn.PixelShuffle(2),
        nn.ReflectionPad2d(1),
    ],
    ids=lambda layer: str(layer).partition("\n")[0],
)
def test_layers_ask_nothing_of_the_batch(layer: nn.Module) -> None:
    sizes = {nn.Conv1d: (3, 8), nn.Conv3d: (3, 6, 6, 6), nn.PixelShuffle: (4, 8, 8)}.get(type(layer), (3, 8, 8))
    model = nn.Sequential(nn.Identity(), layer, nn.ReLU()).eval()
    for x in (torch.randn(4, *sizes), torch.randn(4, *sizes[1:], sizes[0]).movedim(-1, 1)):
        taken = capture(model, x, dynamic_shapes=({0: "batch"},))
        assert taken.notes == () and taken.graph.conditions == ()


@pytest.mark.parametrize("settings", [{}, {"stride": 2, "padding": 1}, {"dilation": 2, "ceil_mode": True}])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_max_pool1d_of_a_dynamic_length(settings: dict[str, Any], batch: tuple[int, ...]) -> None:
    others = [[torch.randn(*batch, 3, length)] for length in (5, 6, 17)]
    shapes = {"x": {len(batch) + 1: "length"}}
    assert_matches(
        lambda x: F.max_pool1d(x, 3, **settings), torch.randn(*batch, 3, 10), others=others, dynamic_shapes=shapes
    )


@pytest.mark.parametrize("dim", [0, 1, -1, None])
def test_take_along_dim_of_dynamic_sizes(dim: int | None) -> None:
    def taken(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        return x.take_along_dim(places, dim)

    shapes = {"x": {0: "rows", 1: "columns"}, "places": {0: "rows", 1: "columns"}}
    others = [[torch.randn(rows, 2), torch.randint(0, min(rows, 2), (rows, 2))] for rows in (1, 2, 6)]
    given = torch.randn(3, 4), torch.randint(0, 3, (3, 4))
    assert_matches(taken, *given, others=others, dynamic_shapes=shapes)


def test_take_along_dim_broadcasts() -> None:
    x, places = torch.randn(3, 1, 4), torch.randint(0, 4, (5, 2))
    others = [[torch.randn(2, 1, 4), torch.randint(0, 4, (7, 2))]]
    shapes = {"x": {0: "batch"}, "places": {0: "rows"}}
    assert_matches(lambda x, places: x.take_along_dim(places[None], 2), x, places, others=others, dynamic_shapes=shapes)


@pytest.mark.slow
@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_cross_entropy_of_dynamic_sizes(reduction: str) -> None:
    def loss(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(x, target, reduction=reduction)

    shapes = {"x": {0: "batch", 2: "length"}, "target": {0: "batch", 1: "length"}}
    others = [[torch.randn(batch, 5, 3), torch.randint(0, 5, (batch, 3))] for batch in (1, 4)]
    given = torch.randn(2, 5, 10), torch.randint(0, 5, (2, 10))
    assert_matches(loss, *given, others=others, dynamic_shapes=shapes)
    likely = torch.randn(2, 5, 10).softmax(1)
    both = {"x": {0: "batch", 2: "length"}, "target": {0: "batch", 2: "length"}}
    assert_matches(loss, given[0], likely, others=[[given[0][:1], likely[:1]]], dynamic_shapes=both)
    of_one = torch.randn(5), torch.tensor(3)
    assert_matches(loss, *of_one)


def test_bilinear_of_dynamic_sizes() -> None:
    layer = nn.Bilinear(5, 6, 3)
    shapes = {"input1": {0: "batch", 1: "length"}, "input2": {0: "batch", 1: "length"}}
    given = torch.randn(2, 4, 5), torch.randn(2, 4, 6)
    others = [[torch.randn(1, 7, 5), torch.randn(1, 7, 6)]]
    assert_matches(layer, *given, others=others, dynamic_shapes=shapes, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_fold_to_a_dynamic_size() -> None:
    def windows(x: torch.Tensor) -> torch.Tensor:
        return F.fold(F.unfold(x, 2, stride=2), (x.shape[-2], x.shape[-1]), 2, stride=2)

    shapes = {"x": {0: "batch", 2: "height", 3: "width"}}
    others = [[torch.randn(1, 3, *size)] for size in ((2, 4), (6, 10))]
    assert_matches(windows, torch.randn(2, 3, 8, 10), others=others, dynamic_shapes=shapes)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_attention_of_a_dynamic_width(dtype: torch.dtype) -> None:
    shapes = {name: {1: "length", 2: "width"} for name in ("q", "k", "v")}

    def given(length: int, width: int) -> list[torch.Tensor]:
        return [torch.randn(2, length, width).to(dtype) for _ in range(3)]

    tolerance = {torch.float16: 1e-2}.get(dtype, 1e-5)
    assert_matches(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        *given(5, 4),
        others=[given(1, 1), given(7, 9)],
        dynamic_shapes=shapes,
        rtol=tolerance,
        atol=tolerance,
    )


@pytest.mark.parametrize("mode", ["linear", "bilinear", "bicubic", "trilinear"])
@pytest.mark.parametrize("given", [{"size": 7}, {"scale_factor": 1.7}, {"scale_factor": 2.0}], ids=["size", "1.7", "2"])
@pytest.mark.parametrize("is_channels_last", [False, True])
def test_a_resized_image_has_the_shape_and_strides_of_eager_mode(
    mode: str, given: dict[str, Any], is_channels_last: bool
) -> None:
    x = torch.randn(2, 3, *{"linear": (5,), "trilinear": (5, 6, 4)}.get(mode, (5, 6)))
    if is_channels_last and x.dim() > 3:
        x = x.to(memory_format=torch.channels_last if x.dim() == 4 else torch.channels_last_3d)
    expected = F.interpolate(x, mode=mode, **given)
    with fake_implementations.replacing_fake_implementations(), FakeTensorMode() as fakes, torch.no_grad():
        found = F.interpolate(fakes.from_tensor(x), mode=mode, **given)
    assert (found.shape, found.stride(), found.dtype) == (expected.shape, expected.stride(), expected.dtype)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_a_resize_asks_nothing_of_its_sizes(mode: str) -> None:
    taken = capture(
        lambda x: x + F.interpolate(F.avg_pool2d(x, 2), size=x.shape[2:], mode=mode),
        (torch.randn(1, 3, 6, 8),),
        dynamic_shapes=({0: "b", 2: "h", 3: "w"},),
    )
    assert not [each for each in taken.graph.conditions if "max" in each.expression]


def test_a_bicubic_resize_by_a_factor_asks_nothing_of_its_sizes() -> None:
    taken = capture(
        lambda x: F.interpolate(x, scale_factor=1.5, mode="bicubic"),
        (torch.randn(1, 3, 6, 8),),
        dynamic_shapes=({0: "b", 2: "h", 3: "w"},),
    )
    assert not taken.graph.conditions


_FAKE_QUANTISED = {
    "tensors": lambda x, s, z: torch.fake_quantize_per_tensor_affine(x, s, z, 0, 255),
    "numbers": lambda x, s, z: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 255),
    "channels": lambda x, s, z: torch.fake_quantize_per_channel_affine(x, s.expand(4), z.expand(4), 1, 0, 255),
}


@pytest.mark.parametrize("form", _FAKE_QUANTISED)
def test_fake_quantised_tensors_of_dynamic_sizes(form: str) -> None:
    scale, zero = torch.tensor(0.1), torch.tensor(3, dtype=torch.int32)
    others = [[torch.randn(rows, 4), scale, zero] for rows in (1, 5)]
    shapes = ({0: "n"}, None, None)
    assert_matches(_FAKE_QUANTISED[form], torch.randn(3, 4), scale, zero, others=others, dynamic_shapes=shapes)


@pytest.mark.parametrize("name", ["Dirichlet", "Beta", "Binomial"])
def test_samples_of_dynamic_sizes(name: str) -> None:
    def sample(x: torch.Tensor) -> torch.Tensor:
        if name == "Dirichlet":
            return torch.distributions.Dirichlet(x.abs() + 1).sample()
        return torch.distributions.Beta(x.abs() + 1, 2.0).sample() if name == "Beta" else torch.binomial(x, x * 0.0)

    taken = capture(sample, torch.ones(3, 4), dynamic_shapes={"x": {0: "n"}})
    value = taken.graph.outputs[0].node.meta["val"]
    assert len(value.shape) == 2 and isinstance(value.shape[0], torch.SymInt)


@pytest.mark.parametrize("enabled", [torch.tensor([1], dtype=torch.uint8), torch.tensor([0], dtype=torch.uint8)])
def test_fake_quantization_has_the_shape_of_its_input(enabled: torch.Tensor) -> None:
    x, scale, zero_point = torch.randn(2, 3), torch.tensor([0.1]), torch.tensor([3], dtype=torch.int32)
    names = ("fake_quantize_per_tensor_affine", "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams")
    with FakeTensorMode() as mode, fake_implementations.replacing_fake_implementations():
        fakes = [mode.from_tensor(each) for each in (x, scale, zero_point, enabled)]
        assert getattr(torch.ops.aten, names[0])(*fakes[:3], 0, 255).shape == x.shape
        output, mask = getattr(torch.ops.aten, names[1])(*fakes, 0, 255)
        channels = torch.fake_quantize_per_channel_affine(fakes[0], fakes[0][:, 0], fakes[2].expand(2), 0, 0, 255)
    assert output.shape == mask.shape == channels.shape == x.shape
    assert (output.dtype, mask.dtype) == (torch.float32, torch.bool)
