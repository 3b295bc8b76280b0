"""Sampling at the points of a grid."""

from __future__ import annotations

import onnx_ir as ir
import pytest
import torch
from support import assert_matches
from tables import assert_all_match
from torch.export import Dim

import opbridge
from opbridge.kernels.builtin import load_builtin

MODES = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")

sample = torch.nn.functional.grid_sample


def table(modes: tuple[str, ...] = MODES) -> dict[str, object]:
    return {
        f"{mode} {padding} {corners}": lambda x, g, mode=mode, padding=padding, corners=corners: sample(
            x, g, mode, padding, corners
        )
        for mode in modes
        for padding in PADDINGS
        for corners in (False, True)
    }


def points(*shape: int, reach: float = 1.2) -> torch.Tensor:
    return torch.randn(*shape) * reach


@pytest.mark.parametrize("opset", [18, 21, 23])
def test_images(opset: int) -> None:
    inputs = [(torch.randn(2, 3, 7, 4), points(2, 5, 6, 2)) for _ in range(3)]
    assert_all_match(table(), *inputs[0], others=inputs[1:], opset_version=opset)


def test_points_far_outside() -> None:
    assert_all_match(table(), torch.randn(2, 3, 7, 4), points(2, 5, 6, 2, reach=30), rtol=1e-3, atol=1e-3)


def test_points_between_pixels() -> None:
    steps = torch.linspace(-1.5, 1.5, 13)
    grid = torch.stack(torch.meshgrid(steps, steps, indexing="xy"), -1)[None]
    assert_all_match(table(), torch.randn(1, 3, 4, 6), grid)


def test_points_at_the_end_of_the_world() -> None:
    some = {name: function for name, function in table(("bilinear", "nearest")).items() if "border" in name}
    grid = points(2, 5, 6, 2, reach=1e12)
    grid[0, 0, 0, 0], grid[0, 0, 1, 1] = torch.inf, -torch.inf
    assert_all_match(some, torch.randn(2, 3, 7, 4), grid)


def test_one_pixel() -> None:
    assert_all_match(table(), torch.randn(2, 3, 1, 1), points(2, 5, 6, 2))


def test_doubles() -> None:
    assert_all_match(table(), torch.randn(2, 3, 7, 4).double(), points(2, 5, 6, 2).double())


@pytest.mark.parametrize("reach", [1.2, 20.0])
def test_volumes(reach: float) -> None:
    grid = points(2, 3, 4, 5, 3, reach=reach)
    assert_all_match(table(("bilinear", "nearest")), torch.randn(2, 3, 7, 4, 5), grid, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("opset", [16, 18])
def test_volumes_before_opset_20_are_for_a_kernel(opset: int) -> None:
    load_builtin()
    volume, grid = torch.randn(2, 3, 3, 4, 5), points(2, 2, 3, 2, 3)
    for name, function in table(("bilinear", "nearest")).items():
        program = assert_matches(function, volume, grid, opset_version=opset, rtol=1e-4, atol=1e-5)
        types = {(node.domain, node.op_type) for node in program.model.graph}
        assert (("opbridge_ops", "grid_sample") in types) != (name.startswith("nearest reflection"))


def test_volumes_before_opset_20_are_none_of_the_stock_exporters() -> None:
    sampler = opbridge.translation_table()[torch.ops.aten.grid_sampler.default]
    volume, grid = (ir.Value(name=name, shape=ir.Shape([1] * 5)) for name in "xg")
    with pytest.raises(opbridge.TranslationError, match="grid_sample is a node that only opbridge.export makes"):
        sampler(volume, grid, 0, 0, False)


def test_any_batch() -> None:
    batch = Dim("batch")
    for mode, padding in (("bilinear", "zeros"), ("nearest", "reflection")):
        assert_matches(
            lambda x, g, mode=mode, padding=padding: sample(x, g, mode, padding, False),
            torch.randn(2, 3, 7, 4),
            points(2, 5, 6, 2),
            dynamic_shapes=({0: batch}, {0: batch}),
            others=[(torch.randn(5, 3, 7, 4), points(5, 5, 6, 2))],
        )


def test_affine_grids() -> None:
    affine = torch.nn.functional.affine_grid
    flat = {
        f"{size} {corners}": lambda theta, size=size, corners=corners: affine(theta, size, corners)
        for size in ((2, 3, 5, 7), (2, 3, 1, 1), (2, 1, 4, 1))
        for corners in (False, True)
    }
    assert_all_match(flat, torch.randn(2, 2, 3), others=[(torch.randn(2, 2, 3),)])
    assert_matches(lambda theta: affine(theta, (2, 3, 5, 7, 4), False), torch.randn(2, 3, 4))


def test_affine_grid_of_any_batch() -> None:
    batch = Dim("batch")
    assert_matches(
        lambda theta, x: torch.nn.functional.affine_grid(theta, x.shape, False),
        torch.randn(2, 2, 3),
        torch.randn(2, 3, 5, 7),
        dynamic_shapes=({0: batch}, {0: batch}),
        others=[(torch.randn(3, 2, 3), torch.randn(3, 3, 5, 7))],
    )
