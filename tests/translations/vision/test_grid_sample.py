"""Sampling at the points of a grid."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import pytest
import torch
from helpers.matching import assert_matches
from helpers.tables import assert_all_match
from torch.export import Dim

import opbridge
from opbridge.kernels.builtin import load_builtin

MODES = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")

sample = torch.nn.functional.grid_sample


def table(modes: tuple[str, ...] = MODES) -> dict[str, Any]:
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


@pytest.mark.slow
@pytest.mark.parametrize("opset", [18, 21, 23])
def test_images(opset: int) -> None:
    inputs = [(torch.randn(2, 3, 7, 4), points(2, 5, 6, 2)) for _ in range(3)]
    assert_all_match(table(), *inputs[0], others=inputs[1:], opset_version=opset)


@pytest.mark.slow
def test_points_far_outside() -> None:
    assert_all_match(table(), torch.randn(2, 3, 7, 4), points(2, 5, 6, 2, reach=30), rtol=1e-3, atol=1e-3)


@pytest.mark.slow
def test_points_between_pixels() -> None:
    steps = torch.linspace(-1.5, 1.5, 13)
    grid = torch.stack(torch.meshgrid(steps, steps, indexing="xy"), -1)[None]
    assert_all_match(table(), torch.randn(1, 3, 4, 6), grid)


def test_points_at_the_end_of_the_world() -> None:
    some = {name: function for name, function in table(("bilinear", "nearest")).items() if "border" in name}
    grid = points(2, 5, 6, 2, reach=1e12)
    grid[0, 0, 0, 0], grid[0, 0, 1, 1] = torch.inf, -torch.inf
    assert_all_match(some, torch.randn(2, 3, 7, 4), grid)


@pytest.mark.slow
def test_one_pixel() -> None:
    assert_all_match(table(), torch.randn(2, 3, 1, 1), points(2, 5, 6, 2))


@pytest.mark.slow
def test_doubles() -> None:
    assert_all_match(table(), torch.randn(2, 3, 7, 4).double(), points(2, 5, 6, 2).double())


@pytest.mark.parametrize("reach", [1.2, 20.0])
def test_volumes(reach: float) -> None:
    grid = points(2, 3, 4, 5, 3, reach=reach)
    assert_all_match(table(("bilinear", "nearest")), torch.randn(2, 3, 7, 4, 5), grid, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
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
    with pytest.raises(opbridge.TranslationError, match="grid_sample is supported only by opbridge.export"):
        sampler(volume, grid, 0, 0, False)


FAR = [torch.nan, torch.inf, -torch.inf, 1e20, -1e20]


@pytest.mark.slow
@pytest.mark.parametrize("opset", [18, 21])
@pytest.mark.parametrize("rank", [2, 3])
def test_points_that_are_nowhere(rank: int, opset: int) -> None:
    """onnxruntime alone takes them for the first pixel."""
    image = torch.randn(2, 3, *[5] * rank)
    grid = torch.rand(2, *[1] * (rank - 1), rank * len(FAR) + 1, rank) * 1.6 - 0.8
    for place, value in enumerate(FAR):
        for axis in range(rank):
            grid[..., rank * place + axis, axis] = value
    functions = table(MODES if rank == 2 else MODES[:2])
    # How far 1e20 is, seen in a mirror, is a matter of rounding.
    mirrored = {name: function for name, function in functions.items() if "reflection" in name}
    others = {name: function for name, function in functions.items() if "reflection" not in name}
    options = {"opset_version": opset, "rtol": 1e-4, "atol": 1e-4}
    example = torch.rand_like(grid)
    assert_all_match(others, image, example, others=[(image, grid)], **options)
    near = grid[..., : rank * 3, :]
    assert_all_match(mirrored, image, torch.rand_like(near), others=[(image, near)], **options)


NARROW = [torch.float16, torch.bfloat16]


def narrow(functions: dict[str, Any], dtype: torch.dtype) -> dict[str, Any]:
    """The same of inputs in a narrow type; numpy, which the runtime's inputs are, has no bfloat16."""
    return {
        name: lambda x, g, function=function: function(x.to(dtype), g.to(dtype)).float()
        for name, function in functions.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("opset", [18, 21])
@pytest.mark.parametrize("dtype", NARROW)
def test_images_in_narrow_types(dtype: torch.dtype, opset: int) -> None:
    """A place in a wide image has few digits, and the nearest pixel is another one."""
    image, grid, far = torch.randn(2, 3, 5, 200), points(2, 9, 9, 2), points(2, 9, 9, 2, reach=20)
    nearest, linear = (narrow(table((mode,)), dtype) for mode in ("nearest", "bilinear"))
    assert_all_match(nearest, image, grid, others=[(image, far)], rtol=0.0, atol=0.0, opset_version=opset)
    atol = 16 * torch.finfo(dtype).eps
    assert_all_match(linear, image, grid, others=[(image, far)], rtol=0.0, atol=atol, opset_version=opset)
    many = points(2, 90, 90, 2)
    wide = sample(image, many.to(dtype).float(), "nearest", align_corners=False)
    assert not torch.equal(wide.to(dtype), sample(image.to(dtype), many.to(dtype), "nearest", align_corners=False))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", NARROW)
def test_volumes_in_narrow_types(dtype: torch.dtype) -> None:
    volume, grid = torch.randn(2, 3, 5, 4, 70), points(2, 3, 4, 5, 3)
    far = points(2, 3, 4, 5, 3, reach=10.0)
    assert_all_match(narrow(table(("nearest",)), dtype), volume, grid, others=[(volume, far)], rtol=0.0, atol=0.0)
    atol = 16 * torch.finfo(dtype).eps
    linear = narrow(table(("bilinear",)), dtype)
    assert_all_match(linear, volume, grid, others=[(volume, far)], rtol=0.0, atol=atol)


@pytest.mark.slow
def test_cubic_in_float16() -> None:
    # torch rounds the cubic's coefficients too, which bfloat16 has hardly any digits for.
    functions = narrow(table(("bicubic",)), torch.float16)
    assert_all_match(functions, torch.randn(2, 3, 5, 200), points(2, 9, 9, 2), rtol=0.0, atol=0.04)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", NARROW)
def test_far_points_and_single_pixels_in_narrow_types(dtype: torch.dtype) -> None:
    functions = narrow(table(("bilinear", "nearest")), dtype)
    assert_all_match(functions, torch.randn(2, 3, 1, 1), points(2, 5, 6, 2), rtol=0.02, atol=0.02)
    assert_all_match(functions, torch.randn(2, 3, 1, 1, 1), points(2, 2, 3, 2, 3), rtol=0.02, atol=0.04)
    grid = points(2, 5, 6, 2, reach=3e4).clamp(-6e4, 6e4)  # times the size, that is infinite in float16
    grid = torch.where(grid.abs() < 2, 2 * grid.sign(), grid)  # all outside, where nothing is interpolated
    some = {name: function for name, function in functions.items() if "border" in name}
    assert_all_match(some, torch.randn(2, 3, 7, 40), grid, rtol=0.0, atol=0.0)


@pytest.mark.slow
def test_narrow_images_of_any_size() -> None:
    def model(x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        return sample(x.half(), g.half(), "nearest", "reflection", True).float()

    assert_matches(
        model,
        torch.randn(2, 3, 7, 40),
        points(2, 5, 6, 2),
        dynamic_shapes=({2: Dim.DYNAMIC, 3: Dim.DYNAMIC}, {1: Dim.DYNAMIC}),
        others=[(torch.randn(2, 3, 70, 200), points(2, 4, 6, 2))],
        rtol=0.0,
        atol=0.0,
    )


@pytest.mark.slow
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
