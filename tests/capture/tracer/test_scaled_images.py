"""`interpolate` by factors that data or dynamic sizes decide."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from helpers.matching import assert_matches
from helpers.running import opened

import opbridge

F = torch.nn.functional
SIZES = (7, 5, 6)
MODES: list[tuple[int, dict[str, Any]]] = [
    (1, {"mode": "nearest"}),
    (2, {"mode": "nearest"}),
    (2, {"mode": "nearest-exact"}),
    (2, {"mode": "area"}),
    (2, {"mode": "bilinear"}),
    (2, {"mode": "bilinear", "align_corners": True}),
    (3, {"mode": "trilinear"}),
    (2, {"mode": "bicubic"}),
    (2, {"mode": "bilinear", "recompute_scale_factor": True}),
    (2, {"mode": "bilinear", "antialias": True}),
    (2, {"mode": "bicubic", "antialias": True}),
    (2, {"mode": "lanczos", "antialias": True}),
]
IDS = [f"{rank}d {' '.join(map(str, settings.values()))}" for rank, settings in MODES]

# 7 and 5 are the sizes themselves, which the factor is a little beside; 14 and 10 are twice that.
GRIDS = [*itertools.product((3, 7, 14, 20), (3, 5, 10), (2, 6, 13)), (1, 1, 1)]


class ByGrid(torch.nn.Module):
    """As models of images make the positions of another grid."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.settings = settings

    def forward(self, x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        factors = [(int(size) + 0.1) / known for size, known in zip(grid.tolist(), SIZES, strict=False)]
        return F.interpolate(x, scale_factor=tuple(factors), **self.settings)


@pytest.mark.slow
@pytest.mark.parametrize(("rank", "settings"), MODES, ids=IDS)
def test_by_data(rank: int, settings: dict[str, Any]) -> None:
    def image() -> torch.Tensor:
        return torch.rand(2, 3, *SIZES[:rank])

    others = [[image(), torch.tensor(grid)] for grid in dict.fromkeys(grid[:rank] for grid in GRIDS)]
    tolerance = {"rtol": 1e-5, "atol": 1e-5}
    assert_matches(ByGrid(**settings), image(), torch.tensor((9, 4, 11)[:rank]), others=others, **tolerance)


def _asks_nothing(settings: dict[str, Any]) -> bool:
    """Whether torch asks nothing about a size that is computed by way of a float."""
    return not settings.keys() & {"align_corners", "antialias", "recompute_scale_factor"} and settings["mode"] != "area"


@pytest.mark.parametrize(("rank", "settings"), [each for each in MODES if _asks_nothing(each[1])])
def test_by_a_size(rank: int, settings: dict[str, Any]) -> None:
    """The factor is computed from a dynamic size, and the image has dynamic sizes itself."""

    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, scale_factor=(y.shape[0] + 0.1) / 7, **settings)

    def dim(name: str) -> torch.export.Dim:
        return torch.export.Dim(name, min=3, max=99)

    shapes = {"x": {0: "batch", **{2 + k: dim(f"size{k}") for k in range(rank)}}, "y": {0: dim("rows")}}
    others = [
        [torch.rand(batch, 3, *size[:rank]), torch.rand(rows)]
        for batch, size in ((1, (8, 9, 3)), (3, (3, 12, 5)))
        for rows in (3, 7, 14, 19)
    ]
    example = torch.rand(2, 3, *SIZES[:rank]), torch.rand(11)
    assert_matches(model, *example, others=others, dynamic_shapes=shapes, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float64, torch.uint8])
def test_other_dtypes(dtype: torch.dtype) -> None:
    def image(*sizes: int) -> torch.Tensor:
        return (torch.rand(sizes) * 200).to(dtype)

    mode = "nearest" if dtype is torch.uint8 else "bicubic"
    others = [[image(1, 2, 7, 5), torch.tensor(grid)] for grid in ((7, 5), (3, 9))]
    tolerance = {"rtol": 1e-5, "atol": 1e-5}
    assert_matches(ByGrid(mode=mode), image(1, 2, 7, 5), torch.tensor([10, 4]), others=others, **tolerance)


@pytest.mark.slow
def test_half_precision_is_rounded_once() -> None:
    """Where terms of up to 200 cancel, torch's own kernel is 0.02 beside the result that its float64 kernel gives."""

    def image() -> torch.Tensor:
        return (torch.rand(1, 2, 7, 5) * 200).half()

    model = ByGrid(mode="bicubic")
    run = opened(opbridge.export(model, (image(), torch.tensor([10, 4])), verify=False))
    for grid in ((10, 4), (7, 5), (3, 9)):
        x, size = image(), torch.tensor(grid)
        (result,) = run([x, size], None)
        exact = model(x.double(), size)
        assert result.dtype == np.float16
        torch.testing.assert_close(torch.from_numpy(result).double(), exact, rtol=6e-4, atol=1e-3)
        torch.testing.assert_close(torch.from_numpy(result), model(x, size), rtol=2e-3, atol=200 * 2**-11)


@pytest.mark.slow
def test_one_factor_for_all() -> None:
    def model(x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        return torch.nn.Upsample(scale_factor=factor.item(), mode="bilinear")(x)

    x = torch.rand(1, 2, 5, 4)
    with pytest.raises((opbridge.CaptureError, TypeError)):  # a module makes floats of its factors
        opbridge.export(model, (x, torch.tensor(1.7)))
    others = [[torch.rand(1, 2, 5, 4), torch.tensor(factor)] for factor in (1.0, 2.0, 0.4, 1.1)]
    assert_matches(
        lambda x, factor: F.interpolate(x, scale_factor=factor.item(), mode="bilinear"),
        x,
        torch.tensor(1.7),
        others=others,
        rtol=1e-5,
        atol=1e-5,
    )


def test_bytes_are_refused_where_torch_computes_in_fixed_point() -> None:
    image = torch.randint(0, 255, (1, 3, 7, 5), dtype=torch.uint8)
    with pytest.raises(opbridge.CaptureError):
        opbridge.export(ByGrid(mode="bilinear"), (image, torch.tensor([10, 4])))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_corners_aligned_to_sizes_of_data(mode: str) -> None:
    others = [[torch.rand(1, 2, 7, 5), torch.tensor(size)] for size in ((1, 1), (7, 5), (3, 11))]
    assert_matches(
        lambda x, size: F.interpolate(x, size=size.tolist(), mode=mode, align_corners=True),
        torch.rand(1, 2, 7, 5),
        torch.tensor([10, 4]),
        others=others,
        rtol=1e-5,
        atol=1e-5,
    )
