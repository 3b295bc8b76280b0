"""The shapes, dtypes and strides that are given without asking torch are torch's."""

from __future__ import annotations

import pytest
import torch
from helpers.captures import assert_same
from helpers.matching import assert_matches
from torch.nn import functional as F
from torch.utils import _pytree as pytree

import opbridge
from opbridge.base.torch_private import capabilities, torch_sizes
from opbridge.capture import capture
from opbridge.capture.guards.expressions import holds_at
from opbridge.capture.tracer import shape_functions
from opbridge.capture.tracer.shape_functions import shape_function

aten = torch.ops.aten
X = torch.randn(2, 3, 4)
IMAGE = torch.randn(2, 3, 5, 6)
LAST = IMAGE.to(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    "function, args",
    [
        (aten.linear.default, (X, torch.randn(5, 4), torch.randn(5))),
        (aten.linear.default, (X[:0], torch.randn(5, 4))),
        (aten.layer_norm.default, (X, [4], torch.randn(4), torch.randn(4), 1e-5)),
        (aten.layer_norm.default, (X.transpose(0, 1), [4])),
        (aten.batch_norm.default, (IMAGE, *[torch.rand(3)] * 4, False, 0.1, 1e-5, False)),
        (
            aten.batch_norm.default,
            (IMAGE.to(memory_format=torch.channels_last), None, None, *[torch.rand(3)] * 2, False),
        ),
        (aten.mul.Tensor, (X, 2.5)),
        (aten.mul.Tensor, (X.transpose(0, 2), torch.randn(1, 3, 1))),
        (aten.add.Tensor, (torch.randn(4), X)),
        (aten.add.Tensor, (X, X)),
        (aten.div.Tensor, (X.half(), X.half())),
        (aten.neg.default, (X.transpose(1, 2),)),
        (aten.silu.default, (X[:0],)),
        (aten.pow.Tensor_Scalar, (X.transpose(0, 2), 2)),
        (aten.pow.Tensor_Scalar, (X.half(), 0.5)),
        (aten.mean.dim, (X, [-1], True)),
        (aten.mean.dim, (X.transpose(0, 2), [0, 2])),
        (aten.mean.dim, (IMAGE, [2, 3])),
        (aten.mean.dim, (LAST, [2, 3], True)),
        (aten.mean.dim, (LAST, [1], True)),
        (aten.mean.dim, (LAST.transpose(0, 2), [1])),
        (aten.mean.dim, (X[:0], [0, 1, 2])),
        (aten.sum.dim_IntList, (X.transpose(0, 1), [-1])),
        (aten.sum.dim_IntList, (LAST, [1, 2], True)),
        (aten.grid_sampler.default, (IMAGE, torch.rand(2, 3, 4, 2), 0, 0, False)),
        (aten.grid_sampler_2d.default, (LAST, torch.rand(2, 1, 7, 2), 2, 1, True)),
        (aten.grid_sampler_3d.default, (torch.randn(1, 2, 3, 4, 5), torch.rand(1, 2, 6, 3, 3), 0, 0, False)),
        (aten.grid_sampler.default, (IMAGE[:, :0], torch.rand(2, 0, 4, 2), 0, 0, False)),
    ],
)
def test_they_are_torchs(function, args):
    missing = (0.1, 1e-5, False) if function is aten.batch_norm.default and len(args) == 6 else ()
    args = (*args, *missing)
    made = shape_function(function, args)(*args)
    expected = function(*args)
    assert (made.shape, made.dtype, made.stride()) == (expected.shape, expected.dtype, expected.stride())


@pytest.mark.parametrize(
    "function, args",
    [
        (aten.linear.default, (X, torch.randn(5, 3))),  # which fails
        (aten.linear.default, (X, torch.randn(5, 4).double())),
        (aten.layer_norm.default, (X, [3])),
        (aten.batch_norm.default, (IMAGE, *[torch.rand(3)] * 4, True, 0.1, 1e-5, False)),
        (aten.mul.Tensor, (X, X.double())),
        (aten.mul.Tensor, (X.long(), 2)),
        (aten.mul.Tensor, (X[:1], X[:, :1])),  # neither has the shape of the result
        (aten.add.Tensor, (X.transpose(0, 1).contiguous().transpose(0, 1), X)),  # of other strides
        (aten.neg.default, (X.long(),)),
        (aten.pow.Tensor_Scalar, (X.long(), 2)),
        (aten.mean.dim, (X, [0, -3])),  # which fails
        (aten.mean.dim, (X, [])),  # over all of them
        (aten.mean.dim, (X.sum(), [0])),
    ],
)
def test_torch_is_asked_for_the_others(function, args):
    assert shape_function(function, args) is None


def test_views_and_copies_along_dynamic_sizes_are_torchs():
    def model(x):
        views = [x[:, 1], x[:, -1], x[..., 2], x[:, 1:], x[:, -2:-1], x[:, 5:], x[:, 2:1], x.transpose(0, 2)[1]]
        views += [each.unsqueeze(dim) for each in (x, x[:, :, 1:]) for dim in range(-4, 4)]
        copies = [each.clone(memory_format=torch.contiguous_format) for each in views]
        return [*views, *copies, *(each.clone() for each in views), *(torch.neg(each) for each in views)]

    x = torch.randn(2, 3, 4)
    taken = capture(model, (x,), dynamic_shapes={"x": {0: "batch"}})
    made = [leaf.node.meta["val"] for leaf in taken.graph.outputs]
    for one, other in zip(made, model(x), strict=True):
        of_example = [[int(torch_sizes.example_with(each, {})) for each in of] for of in (one.shape, one.stride())]
        if other.numel():
            assert of_example == [list(other.shape), list(other.stride())]
        assert int(torch_sizes.example_with(one.storage_offset(), {})) == other.storage_offset()
    assert_same(taken, torch.randn(5, 3, 4))


def test_a_part_of_nothing_is_nothing():
    class Model(torch.nn.Module):
        def forward(self, x, lengths):
            return x[:, :0][:, : lengths.amax()] + 1, x[:, 1:][:, lengths.amin() :]

    x = torch.randn(3, 1)
    shapes = ({0: "batch"}, {0: "count"})
    program = opbridge.export(Model(), (x, torch.tensor([1, 0, 1])), dynamic_shapes=shapes)
    assert [output.shape[1] for output in program.model.graph.outputs] == [0, 0]


def test_slices_between_sizes_that_are_in_order_have_no_minimum():
    def model(x):
        whole = x.shape[1] // 4 * 4
        return x[:, :whole].view(x.shape[0], x.shape[1] // 4, 4, -1), x[:, whole:]

    given = (torch.randn(3, 10, 6),)
    taken = capture(model, given, dynamic_shapes={"x": {0: "batch", 1: "length"}})
    first, second = (leaf.node.meta["val"] for leaf in taken.graph.outputs)
    assert first.shape[-1] == 6
    assert not any("Min" in str(size) for size in (*first.shape, *second.shape))
    for length in (4, 7, 12):
        assert_same(taken, torch.randn(2, length, 6))


@pytest.mark.parametrize("length", [2, 5, 9])
def test_slices_that_may_end_beyond_the_size_keep_torchs(length):
    def model(x, y):
        return x[:, : y.shape[0]], x[:, y.shape[0] :]

    given = (torch.randn(3, 10), torch.randn(4))
    taken = capture(model, given, dynamic_shapes=({1: "length"}, {0: "other"}))
    assert_same(taken, torch.randn(3, length), torch.randn(6))


class OfKept(torch.nn.Module):
    """Attention among as many tokens as data decide."""

    def __init__(self, order=(0, 1, 2, 3), **settings):
        super().__init__()
        self.order, self.settings = order, settings

    def forward(self, x, keep):
        kept = x[:, :, keep.nonzero()[:, 0]].permute(self.order).contiguous().permute(self.order)
        keys, settings = kept, dict(self.settings)
        if settings.pop("flat", False):
            kept = keys = kept[:, 0]
        if settings.get("enable_gqa"):
            kept = torch.cat([kept, kept + 1], 1)
        mask = settings.pop("mask", None)
        if mask is not None:
            settings["attn_mask"] = mask(kept[..., 0])
        return F.scaled_dot_product_attention(kept, keys * 2, keys + 1, **settings)


ATTENTION = {
    "plain": {},
    "scaled": {"scale": 0.3},
    "in another order": {"order": (0, 2, 1, 3)},
    "causal": {"is_causal": True},
    "grouped": {"enable_gqa": True},
    "grouped and scaled": {"enable_gqa": True, "scale": 0.3, "is_causal": True},
    "of three dimensions": {"flat": True},
    "masked": {"mask": lambda x: (x[:, :1, :, None] + x[:, :1, None, :]) > -1},
    "masked by numbers": {"mask": lambda x: x[0, 0, None, :] - x[0, 0, :, None]},
    "of three dimensions, masked": {"flat": True, "mask": lambda x: x[:, :, None] * x[:, None, :]},
}


@pytest.mark.parametrize("settings", ATTENTION.values(), ids=ATTENTION)
def test_attention_of_sizes_of_data(settings, monkeypatch):
    given = torch.randn(2, 3, 5, 4), torch.tensor([1, 0, 1, 1, 0])
    function = aten.scaled_dot_product_attention.default

    def described():
        found = capture(OfKept(**settings), given, dynamic_shapes=({2: "n"}, {0: "n"}))
        (node,) = [node for node in found.graph.graph.nodes if node.target is function]
        value = node.meta["val"]
        return [str(each) for each in (*value.shape, *value.stride())], value.dtype

    mine = described()
    if capabilities.attends_to_sizes_of_data.present:
        monkeypatch.delitem(shape_functions._FUNCTIONS, function)
        assert described() == mine


def test_attention_of_sizes_of_data_that_do_not_fit_is_torchs():
    one = torch.randn(2, 3, 5, 4)
    assert shape_function(aten.scaled_dot_product_attention.default, (one, one, one)) is None
    assert shape_function(aten.scaled_dot_product_attention.default, (one, one, one), {"scale": 0.5}) is None
    assert shape_function(aten.linear.default, (X, torch.randn(5, 4)), {"scale": 0.5}) is None


@pytest.mark.parametrize("settings", ATTENTION.values(), ids=ATTENTION)
def test_attention_of_sizes_of_data_is_the_models(settings):
    given = torch.randn(2, 3, 5, 4), torch.tensor([1, 0, 1, 1, 0])
    others = [(torch.randn(2, 3, 4, 4), torch.tensor([0, 1, 0, 0])), (torch.randn(2, 3, 1, 4), torch.tensor([1]))]
    program = opbridge.export(OfKept(**settings), given, dynamic_shapes=({2: "n"}, {0: "n"}), inputs=others)
    assert program.verification.ok


@pytest.mark.parametrize("part", [lambda x: x[:, 1], lambda x: x[..., 2], lambda x: x[:, :, :3], lambda x: x])
def test_a_write_into_a_part_of_a_part_is_torchs(part):
    x = torch.randn(2, 5, 4, 6)
    of = part(x)
    for function, args in (
        (aten.slice_scatter.default, (of, of[:1], 0, 0, 1)),
        (aten.select_scatter.default, (of, of[0], 0, 0)),
    ):
        assert shape_function(function, args) is None  # of sizes that are known, which torch is asked for

    def model(x):
        of = part(x)
        return aten.slice_scatter(of, of[:1], 0, 0, 1), aten.select_scatter(of, of[0], 0, 0)

    taken = capture(model, (x,), dynamic_shapes={"x": {0: "batch", 2: "rows"}})
    assert not taken.graph.conditions
    for leaf, expected in zip(taken.graph.outputs, model(x), strict=True):
        made = leaf.node.meta["val"]
        of_example = [[int(torch_sizes.example_with(each, {})) for each in of] for of in (made.shape, made.stride())]
        assert of_example == [list(expected.shape), list(expected.stride())]
    assert_same(taken, torch.randn(1, 5, 3, 6))


def test_a_write_into_a_tensor_that_repeats_its_elements_is_left_to_torch():
    taken = capture(
        lambda x: aten.select_scatter(x.expand(4, -1), x[0], 0, 1), (torch.randn(1, 3),), dynamic_shapes={"x": {1: "n"}}
    )
    (leaf,) = taken.graph.outputs
    assert int(torch_sizes.example_with(leaf.node.meta["val"].stride()[0], {})) == 3


class OfWindows(torch.nn.Module):
    """Attention in windows of an image, in which heads may be inside of the length in memory."""

    def __init__(self, inside=True, keys_inside=True, features=6, **settings):
        super().__init__()
        self.inside, self.keys_inside, self.features, self.settings = inside, keys_inside, features, settings
        self.mask = settings.pop("mask", None)

    def forward(self, x):
        windows = x.view(x.shape[0] // 4, 4, 2, 6)
        keys, windows = windows.transpose(1, 2), windows.transpose(1, 2)
        windows = windows if self.inside else windows.contiguous()
        keys = keys if self.keys_inside else keys.contiguous()
        mask = None if self.mask is None else self.mask(windows[:, 0, :, 0])
        values = (keys - 1)[..., : self.features]
        return F.scaled_dot_product_attention(windows, keys, values, mask, **self.settings)


WINDOWS = {
    "plain": {},
    "contiguous": {"inside": False},
    "contiguous keys": {"keys_inside": False},
    "narrow values": {"features": 5},
    "narrow values, contiguous": {"features": 5, "inside": False},
    "causal": {"is_causal": True, "scale": 0.3},
    "masked by window": {"mask": lambda x: (x[:, None, :, None] + x[:, None, None, :]) > -1},
    "masked by numbers": {"mask": lambda x: x[:, None, :, None] * x[:, None, None, :], "inside": False},
    "masked alike": {"mask": lambda x: torch.ones(4, 4).tril()},
    "masked by heads": {"mask": lambda x: torch.arange(32.0).view(1, 2, 4, 4)},
}


@pytest.mark.parametrize("settings", WINDOWS.values(), ids=WINDOWS)
def test_attention_in_windows_has_the_strides_of_torchs(settings):
    taken = capture(OfWindows(**settings), (torch.randn(12, 12),), dynamic_shapes={"x": {0: "rows"}})
    expected = OfWindows(**settings)(torch.randn(12, 12))
    (leaf,) = taken.graph.outputs
    made = leaf.node.meta["val"]
    of_example = [[int(torch_sizes.example_with(each, {})) for each in of] for of in (made.shape, made.stride())]
    assert of_example == [list(expected.shape), list(expected.stride())]
    for rows in (4, 8, 20):
        assert_same(taken, torch.randn(rows, 12))


@pytest.mark.parametrize("name", WINDOWS)
def test_torch_is_not_asked_for_attention_in_windows(name):
    taken = capture(OfWindows(**WINDOWS[name]), (torch.randn(12, 12),), dynamic_shapes={"x": {0: "rows"}})
    (node,) = [node for node in taken.graph.graph.nodes if node.target is aten.scaled_dot_product_attention.default]
    args = pytree.tree_map_only(torch.fx.Node, lambda each: each.meta["val"], node.args)
    assert (shape_function(node.target, args, node.kwargs) is None) is (name == "narrow values")
    (symbol,) = taken.graph.places
    assert all(holds_at(each.expression, {symbol: 4}) for each in taken.graph.conditions)


def test_attention_with_a_mask_for_one_window_size_does_not_ask_for_the_number_of_windows():
    def model(x):
        side = min(x.shape[1], 2)
        windows = x.view(-1, 2, side * side, 3)
        return F.scaled_dot_product_attention(windows, windows, windows, torch.arange(32.0).view(1, 2, 4, 4))

    taken = capture(model, (torch.randn(3, 8, 6),), dynamic_shapes={"x": {0: "batch", 1: "length"}})
    batch, length = taken.graph.places
    assert all(holds_at(each.expression, {batch: 1, length: 4}) for each in taken.graph.conditions)
    assert any(not holds_at(each.expression, {batch: 4, length: 1}) for each in taken.graph.conditions)
    for shape in ((1, 4, 6), (1, 8, 6), (2, 12, 6)):
        assert_same(taken, torch.randn(shape))


@pytest.mark.slow
@pytest.mark.parametrize("least", [3, 2])
def test_a_part_counted_from_the_end_is_as_long_as_was_asked_for(least):
    def model(x):
        if x.shape[1] >= least:
            return x[:, -3:]
        return x

    program = opbridge.export(model, (torch.randn(3, 10),), dynamic_shapes={"x": {0: "batch", 1: "length"}})
    for length in (1, 2, 3, 4, 11):
        x = torch.randn(1, length)
        (got,) = program.session().run(None, {"x": x.numpy()})
        torch.testing.assert_close(torch.from_numpy(got), model(x))


class Overlapped(torch.nn.Module):
    """The frames that are loud, added where they overlap."""

    def forward(self, frames):
        chosen = frames[frames.abs().sum(1) > 2]
        size = (chosen.shape[0] - 1) * 2 + 4
        return F.fold(chosen.t().unsqueeze(0), (1, size), (1, 4), stride=(1, 2))[0, 0, 0]


def test_blocks_whose_number_data_decide_are_folded():
    others = [(torch.randn(count, 4) * 3,) for count in (1, 2, 9, 20)]
    assert_matches(Overlapped(), torch.randn(8, 4) * 3, others=others, dynamic_shapes=({0: "frames"},))


def test_blocks_are_folded_to_an_image_whose_size_data_decide():
    def model(x, size):
        height, width = size.tolist()
        blocks = F.unfold(x[:, :, :height, :width], 2, stride=2)
        return F.fold(blocks, (height, width), 2, stride=2)

    images = torch.randn(1, 3, 8, 8)
    others = [(images, torch.tensor(size)) for size in ([2, 2], [8, 8], [6, 2], [5, 4])]
    assert_matches(model, images, torch.tensor([4, 6]), others=others)
