"""Shapes, movement, and the joining and splitting of tensors."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from helpers.matching import assert_matches
from helpers.tables import accepted, assert_all_match

SHAPES = {
    "view": lambda x: (
        x.view(6, 4),
        x.view(-1),
        x.view(2, -1, 2),
        x.view(2, 3, 4),
        x.reshape(1, 24, 1),
        x[:, :, None].squeeze(2),
    ),
    "view_as": lambda x: (x.view_as(x.new_zeros(4, 6)), x.reshape_as(x.new_zeros(24))),
    "transposed": lambda x: (
        x.transpose(0, 2).reshape(8, 3),
        x.permute(2, 0, 1),
        x.permute(-1, 0, 1).contiguous().view(4, 6),
    ),
    "flatten": lambda x: (x.flatten(), x.flatten(1), x.flatten(0, 1), x.flatten(-2, -1), x.flatten(1, 1), x.ravel()),
    "unflatten": lambda x: (x.unflatten(2, (2, 2)), x.unflatten(-1, (-1, 1)), x.unflatten(0, (1, 2))),
    "squeeze": lambda x: (
        x[:1].squeeze(),
        x[:1].squeeze(0),
        x.squeeze(1),
        x[:1, :1].squeeze((0, 1)),
        x[:1].squeeze((0, -1)),
    ),
    "unsqueeze": lambda x: (x.unsqueeze(0), x.unsqueeze(-1), x.unsqueeze(2), x.unsqueeze(-4)),
    "expand": lambda x: (
        x[:1].expand(5, -1, -1),
        x.expand(6, 2, 3, 4),
        x[:, :1].expand_as(x),
        x[:, :, :1].broadcast_to(2, 3, 5),
    ),
    "broadcast_tensors": lambda x: torch.broadcast_tensors(x[:1], x[0], x[:, :1, :1]),
    "transpose": lambda x: (
        x.transpose(0, -1),
        x.swapaxes(0, 1),
        x.swapdims(1, 2),
        x[0].t(),
        x[0].T,
        x.mT,
        x.mH,
        x.adjoint(),
    ),
    "movedim": lambda x: (
        x.movedim(0, 2),
        x.movedim((0, 1), (2, 0)),
        x.moveaxis(-1, 0),
        torch.moveaxis(x, (2, 1), (0, 1)),
    ),
    "atleast": lambda x: (
        torch.atleast_1d(x[0, 0, 0]),
        torch.atleast_2d(x[0, 0]),
        torch.atleast_3d(x[0]),
        torch.atleast_3d(x),
    ),
    "atleast lists": lambda x: (
        *torch.atleast_1d([x, x[0, 0, 0]]),
        *torch.atleast_2d([x[0, 0], x]),
        *torch.atleast_3d([x[0, 0]]),
    ),
    "repeat": lambda x: (
        x.repeat(2, 1, 3),
        x.repeat(2, 1, 1, 1),
        x[:1].repeat(4, 1, 1),
        x.repeat(1, 1, 1),
        x.repeat(0, 1, 1),
    ),
    "tile": lambda x: (x.tile(2), x.tile(2, 1), x.tile(1, 2, 1, 2)),
    "repeat_interleave": lambda x: (x.repeat_interleave(2), x.repeat_interleave(3, 1), x.repeat_interleave(2, -1)),
    "repeat_interleave counts": lambda x: x.repeat_interleave(torch.tensor([2, 0, 3]), 1),
    "repeat_interleave count": lambda x: (
        x.repeat_interleave(torch.tensor([2]), 0),
        x.repeat_interleave(torch.tensor(2), 2),
    ),
    "flip": lambda x: (x.flip(0), x.flip(1, -1), x.flip([0, 1, 2]), x.flip([]), x.fliplr(), x.flipud()),
    "rot90": lambda x: (x.rot90(), x.rot90(2), x.rot90(3, (1, 2)), x.rot90(-1, (0, 2)), x.rot90(4), x.rot90(1, (2, 0))),
    "roll": lambda x: (
        x.roll(1),
        x.roll(-5),
        x.roll(1, 1),
        x.roll((1, -1), (0, 2)),
        x.roll(7, 2),
        x.roll(0, 0),
        x.roll((1, 1), (0, 0)),
    ),
    "narrow": lambda x: (x.narrow(1, 1, 2), x.narrow(-1, -3, 2), x.narrow(0, 0, 0), x.narrow(2, torch.tensor(1), 2)),
    "select": lambda x: (x.select(1, 2), x.select(-1, -1), x[1], x[:, -1], x[0, 1, 2]),
    "slice": lambda x: (x[1:], x[:-1], x[..., ::2], x[:, 1:100:2], x[:, -100:2], x[5:], x[:, 2:1], x[..., -3:-1], x[:]),
    "unfold": lambda x: (
        x.unfold(2, 2, 1),
        x.unfold(0, 2, 2),
        x.unfold(-1, 3, 2),
        x[0, 0, 0].unfold(0, 1, 1),
        x.unfold(1, 3, 1),
    ),
    "diagonal": lambda x: (
        x.diagonal(),
        x.diagonal(1),
        x.diagonal(-1, 1, 2),
        x.diagonal(2, -1, 0),
        x.diagonal(9),
        x.diagonal(-2),
    ),
    "linalg.diagonal": lambda x: (torch.linalg.diagonal(x), torch.linalg.diagonal(x, offset=1, dim1=0)),
    "diag": lambda x: (x[0].diag(), x[0].diag(1), x[0, 0].diag(), x[0, 0].diag(-2), x[0, 0].diag(1)),
    "diag_embed": lambda x: (
        x.diag_embed(),
        x.diag_embed(1),
        x.diag_embed(-2, 0, 2),
        x.diag_embed(1, 2, 1),
        x.diag_embed(0, -1, 0),
    ),
    "diagflat": lambda x: (x.diagflat(), x[0].diagflat(-1), x[0, 0, 0].diagflat(1)),
    "triangles": lambda x: (x.tril(), x.tril(-1), x.triu(2), x.triu(-5), x.tril(100)),
    "split": lambda x: (
        *x.split(2, 1),
        *x.split(1),
        *x.split(3, -1),
        *x.split(9, 2),
        *x.split([1, 0, 3], 2),
        *x.split([3, 1], 2),
    ),
    "chunk": lambda x: (*x.chunk(2, 1), *x.chunk(3, 2), *x.chunk(7, 2), *x.chunk(1), *torch.unsafe_chunk(x, 2, 2)),
    "unsafe_split": lambda x: (*torch.unsafe_split(x, 2, 2), *torch.unsafe_split_with_sizes(x, [1, 3], 2)),
    "tensor_split": lambda x: (
        *x.tensor_split(3, 2),
        *x.tensor_split(5, 1),
        *x.tensor_split((1, 3), 2),
        *x.tensor_split((2, 9), 1),
    ),
    "named splits": lambda x: (
        *x.hsplit(3),
        *x.vsplit(2),
        *x.dsplit((1, 3)),
        *x[0, 0].hsplit(2),
        *x.hsplit([1]),
        *x.dsplit(2),
    ),
    "unbind": lambda x: (*x.unbind(), *x.unbind(-1), *x[:, 1].unbind(1)),
    "cat": lambda x: (
        torch.cat([x, x[:1]]),
        torch.cat([x, x], -1),
        torch.concat([x], 1),
        torch.concatenate([x, x[:, :0]], 1),
    ),
    "cat of nothing": lambda x: (torch.cat([x, x.new_zeros(0)], 1), torch.cat([x.new_zeros(0), x.new_zeros(0)])),
    "stack": lambda x: (
        torch.stack([x, x]),
        torch.stack([x, x], -1),
        torch.stack([x], 2),
        torch.stack([x[0, 0, 0], x[1, 1, 1]]),
    ),
    "stacks": lambda x: (
        torch.hstack([x, x]),
        torch.vstack([x, x]),
        torch.dstack([x, x]),
        torch.column_stack([x[0], x[0]]),
    ),
    "stacks of rows": lambda x: (
        torch.hstack([x[0, 0], x[0, 1]]),
        torch.vstack([x[0, 0], x[0, 1]]),
        torch.dstack([x[0, 0], x[0, 1]]),
    ),
    "column_stack": lambda x: (torch.column_stack([x[0, 0], x[0].T]), torch.row_stack([x[0, 0], x[0]])),
    "meshgrid": lambda x: (
        *torch.meshgrid(x[0, 0], x[0, :, 0], indexing="ij"),
        *torch.meshgrid(x[0, 0], x[:, 0, 0], indexing="xy"),
    ),
    "meshgrid of three": lambda x: torch.meshgrid(x[0, 0], x[:, 0, 0], x[0, 0, 0], indexing="xy"),
    "cartesian_prod": lambda x: (torch.cartesian_prod(x[0, 0], x[:, 0, 0]), torch.cartesian_prod(x[0, 0])),
    "block_diag": lambda x: torch.block_diag(x[0], x[0, 0], x[0, 0, 0], x[1]),
    "kron": lambda x: torch.kron(x[0], x[1]),
    "copies": lambda x: (
        torch.view_copy(x, (6, 4)),
        torch.permute_copy(x, (1, 0, 2)),
        torch.unbind_copy(x)[1],
        torch.t_copy(x[0]),
    ),
    "in place": lambda x: x.clone().transpose_(0, 1).unsqueeze_(0).squeeze_(0).add_(x.transpose(0, 1)),
    "mixed types": lambda x: (
        torch.cat([x, x.double()]),
        torch.stack([x, x > 1]),
        torch.hstack([x, x.to(torch.int32)]),
    ),
}

IMAGES = {
    "unfold": lambda x: (
        F.unfold(x, 2),
        F.unfold(x, (3, 2), dilation=(1, 2), padding=(1, 0), stride=(2, 1)),
        F.unfold(x[0], 2),
    ),
    "fold": lambda x: F.fold(F.unfold(x, 2), x.shape[2:], 2),
    "fold with all options": lambda x: F.fold(x.reshape(2, 16, 12), (6, 9), (2, 2), (2, 1), (1, 0), (2, 2)),
    "fold one image": lambda x: F.fold(x.reshape(2, 16, 12)[0], (4, 5), 2),
    "pixel_shuffle": lambda x: (F.pixel_shuffle(x, 2), F.pixel_shuffle(x[0], 2), F.pixel_shuffle(x[None], 1)),
    "pixel_unshuffle": lambda x: (F.pixel_unshuffle(x, 2), F.pixel_unshuffle(x[0, :, :2], 2)),
    "channel_shuffle": lambda x: (F.channel_shuffle(x, 2), F.channel_shuffle(x, 4)),
}


def numbers(dtype: torch.dtype, *size: int) -> torch.Tensor:
    return (torch.randn(size) * 3).to(dtype) if dtype != torch.bool else torch.randn(size) > 0


DTYPES = [torch.float32, torch.int64, torch.bool, torch.float16, torch.uint8]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_shapes(dtype: torch.dtype) -> None:
    x = numbers(dtype, 2, 3, 4)
    table = accepted(SHAPES, x)
    assert len(table) > len(SHAPES) - 4
    assert_all_match(table, x, others=[(numbers(dtype, 2, 3, 4),)])


@pytest.mark.slow
def test_shapes_at_opset_18() -> None:
    assert_all_match(SHAPES, torch.randn(2, 3, 4), others=[(torch.randn(2, 3, 4),)], opset_version=18)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
def test_images(dtype: torch.dtype) -> None:
    x = numbers(dtype, 2, 8, 4, 6)
    # torch adds the overlaps of halves up in halves.
    table = {name: function for name, function in IMAGES.items() if dtype != torch.float16 or "fold" not in name}
    assert_all_match(table, x, others=[(numbers(dtype, 2, 8, 4, 6),)])


@pytest.mark.slow
def test_images_in_a_dynamic_batch() -> None:
    table = {name: IMAGES[name] for name in ("unfold", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle")}
    for opset in (18, 21):
        assert_all_match(
            table,
            torch.randn(2, 8, 4, 6),
            others=[(torch.randn(5, 8, 4, 6),), (torch.randn(1, 8, 4, 6),)],
            dynamic_shapes={"x": {0: torch.export.Dim("batch")}},
            opset_version=opset,
        )


def test_combinations() -> None:
    table = {
        "pairs": lambda x: torch.combinations(x),
        "triples": lambda x: torch.combinations(x, 3),
        "with replacement": lambda x: torch.combinations(x, 2, True),
        "of too many": lambda x: torch.combinations(x, 5),
    }
    assert_all_match(table, torch.randn(4), others=[(torch.randn(4),)])


@pytest.mark.slow
def test_split_by_a_constant_tensor() -> None:
    edges = torch.tensor([1, 3])
    assert_matches(lambda x: x.tensor_split(edges, 1), torch.randn(2, 5), others=[(torch.randn(2, 5),)])
    assert_matches(lambda x: x.tensor_split(torch.tensor(2)), torch.randn(5), others=[(torch.randn(5),)])


EMPTY = {
    "views": lambda x: (
        x.view(0),
        x.view(4, 0),
        x.reshape(0, 2, 2),
        x.view(-1, 4),
        x.flatten(),
        x.flatten(1),
        x.unsqueeze(0),
    ),
    "cat": lambda x: (torch.cat([x, x]), torch.stack([x, x], 1), torch.cat([x, x.new_ones(2, 4)])),
    "split": lambda x: (*x.split(2, 1), *x.chunk(2), *x.tensor_split(3), *x.unbind(1)),
    "movement": lambda x: (x.flip(0), x.roll(1, 0), x.repeat(2, 2), x.T, x.expand(2, 0, 4), x[:, 1:3], x.roll(3)),
    "repeat_interleave": lambda x: (x.repeat_interleave(2, 0), x.repeat_interleave(2)),
    "diagonals": lambda x: (x.diagonal(), x.tril(), x.view(4, 0).diagonal(1), x[:, 0].diag()),
}


def test_empty_tensors() -> None:
    assert_all_match(EMPTY, torch.zeros(0, 4))


def test_nothing_made_of_something() -> None:
    # ONNX Runtime drops an Expand from 1 to 0 that is not an output.
    table = {
        "expand": lambda x: (x * 2).expand(0, 3).sum(0),
        "expand of a part": lambda x: (x[:, :1] * 2).expand(-1, 0).T.flatten() + 1,
        "repeat": lambda x: (x * 2).repeat(0, 1).sum(0),
    }
    for dtype in (torch.float32, torch.float16):
        assert_all_match(table, torch.ones(1, 3, dtype=dtype))


def test_scalars() -> None:
    table = {
        "views": lambda x: (
            x.view(1),
            x.reshape(()),
            x.view(1, 1),
            x.flatten(),
            x.squeeze(),
            x.unsqueeze(0),
            x.expand(3, 2),
        ),
        "movement": lambda x: (
            x.repeat(3),
            x.tile(2),
            x.flip([]),
            x.roll(1),
            x.transpose(0, -1),
            x.movedim(0, 0),
            x.t(),
        ),
    }
    assert_all_match(table, torch.tensor(2.5), others=[(torch.tensor(-1.0),)])


DYNAMIC = {
    "views": lambda x: (
        x.view(x.shape[0], -1),
        x.view(x.shape[0], 2, 6),
        x.view(-1, 12),
        x.flatten(1),
        x.flatten(0, 1),
        x.flatten(),
    ),
    "two sizes": lambda x: (
        x.permute(0, 2, 1).reshape(x.shape[0], x.shape[1] * 4),
        x.view(x.shape[0], x.shape[1], 2, 2),
    ),
    "expand": lambda x: (
        x[:1].expand(x.shape[0], -1, -1),
        x[:, :1].expand_as(x),
        *torch.broadcast_tensors(x[:, :1], x[0]),
    ),
    "repeat": lambda x: (x.repeat(2, 1, 1), x.repeat_interleave(2, 0), x.repeat_interleave(3), x.tile(2)),
    "counts": lambda x: x.repeat_interleave((x[:, 0, 0] > 0).long() + 1, 0),
    "turns": lambda x: (x.flip(0), x.roll(1, 0), x.roll(-2, 0), x.roll(3), x.rot90(1, (0, 1)), x.rot90(3, (0, 1))),
    "slices": lambda x: (x[1:], x[:-1], x[::2], x[-1:], x[: x.shape[0] // 2], x.narrow(0, -1, 1), x[0], x[-1]),
    "split": lambda x: (*x.split(1, 1), *x.chunk(2, 2), *x.split([1, x.shape[0] - 1]), *x.tensor_split((1,))),
    "join": lambda x: (torch.cat([x, x[:1]]), torch.stack([x, x]), torch.hstack([x, x]), torch.vstack([x, x])),
    "diagonals": lambda x: (
        x.diagonal(),
        x.diagonal(1, 0, 2),
        x[:, 0, 0].diag(),
        x[:, :, 0].diag(-1),
        x.diag_embed(),
        x.tril(),
    ),
    "unfold": lambda x: (x.unfold(0, 1, 1), x.unfold(1, 2, 1)),
    "grids": lambda x: (*torch.meshgrid(x[:, 0, 0], x[0, 0], indexing="xy"), torch.cartesian_prod(x[:, 0, 0], x[0, 0])),
    "block_diag": lambda x: torch.block_diag(x[0], x[:, 0]),
}


@pytest.mark.slow
@pytest.mark.parametrize("opset", [18, 21])
def test_dynamic_batch(opset: int) -> None:
    assert_all_match(
        DYNAMIC,
        torch.randn(5, 3, 4),
        others=[(torch.randn(size, 3, 4),) for size in (2, 8, 3)],
        dynamic_shapes={"x": {0: torch.export.Dim("batch", min=2)}},
        opset_version=opset,
    )


@pytest.mark.parametrize("sizes", [(2, 6), (2, -1), (-1,)])
def test_one_unknown_size_needs_no_shape_computation(sizes: tuple[int, ...]) -> None:
    program = assert_matches(
        lambda x: x.view(x.shape[0], *sizes),
        torch.randn(5, 3, 4),
        others=[(torch.randn(2, 3, 4),)],
        dynamic_shapes={"x": {0: torch.export.Dim("batch")}},
    )
    assert [node.op_type for node in program.model.graph] == ["Reshape"]


def test_splits_are_no_sequences() -> None:
    program = assert_matches(lambda x: (*x.chunk(3, 1), *x.split([1, 2, 5], 1), *x.unbind(0)), torch.randn(2, 8))
    assert not [node.op_type for node in program.model.graph if "Sequence" in node.op_type]


@pytest.mark.parametrize("squeeze", [lambda x: x.squeeze(), lambda x: x.squeeze(1), lambda x: x.squeeze((1, 2))])
def test_squeeze_settles_the_sizes_that_decide_the_rank(squeeze) -> None:
    program = assert_matches(
        squeeze, torch.randn(2, 1, 3), others=[[torch.randn(5, 1, 3)]], dynamic_shapes="auto", opset_version=18
    )
    assert program.model.graph.inputs[0].shape[1] == 1
    assert any("x.shape[1] == 1" in note for note in program.plan.notes)


def test_squeeze_of_other_sizes_leaves_them_open() -> None:
    program = assert_matches(
        lambda x: x.squeeze(1), torch.randn(2, 4, 3), others=[[torch.randn(1, 2, 1)]], dynamic_shapes="auto"
    )
    assert any("x.shape[1] >= 2" in note for note in program.plan.notes)


def test_a_size_that_the_model_fixes_is_a_number() -> None:
    program = assert_matches(lambda x: x + torch.ones(5), torch.randn(2, 5), dynamic_shapes="auto")
    assert [isinstance(dim, int) for dim in program.model.graph.inputs[0].shape] == [False, True]


@pytest.mark.slow
def test_chunk_into_fewer_parts_than_asked_for() -> None:
    assert_matches(lambda x: x.chunk(3, dim=1), torch.randn(7, 4), others=[[torch.randn(2, 2)]], dynamic_shapes="auto")
    assert_matches(lambda x: x.chunk(3), torch.randn(7, 4), others=[[torch.randn(8, 1)]], dynamic_shapes="auto")


def test_expand_by_sizes_among_the_values_of_a_tensor() -> None:
    """-1 keeps a size, also where only a run tells that it is -1."""
    assert_matches(
        lambda x, size: x.expand(size), torch.randn(3), torch.tensor(-1), others=[[torch.randn(3), torch.tensor(3)]]
    )
    assert_matches(
        lambda x, rows: x.expand(rows, -1),
        torch.randn(1, 3),
        torch.tensor(4),
        others=[[torch.ones(1, 3), torch.tensor(0)]],
    )


def test_a_tensor_that_becomes_another_one() -> None:
    def replaced(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x = x.clone()
        x.set_(y)
        return x * 2

    program = assert_matches(
        replaced,
        torch.ones(2, 3),
        torch.randn(4, 6),
        others=[[torch.ones(4, 6), torch.randn(5, 2)]],
        dynamic_axes={"x": [0, 1], "y": [0, 1]},
        input_names=["x", "y"],
    )
    assert [len(each.shape) for each in program.model.graph.inputs] == [2, 2]


def test_an_input_that_becomes_another_one_keeps_its_own_shape() -> None:
    program = assert_matches(lambda x, y: x.set_(y), torch.ones(2, 3), torch.randn(4, 6))
    assert list(program.model.graph.inputs[0].shape) == [2, 3]
