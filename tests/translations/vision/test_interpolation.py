"""Resizing, against PyTorch, by size and by factor."""

from __future__ import annotations

import pytest
import torch
from helpers.matching import assert_matches
from helpers.tables import assert_all_match

import opbridge

F = torch.nn.functional
AUTO = torch.export.Dim.AUTO
SIZES = {1: (9,), 2: (9, 7), 3: (5, 4, 6)}
LARGER = {1: (14,), 2: (12, 11), 3: (6, 7, 5)}
MODES = {
    1: ["nearest", "nearest-exact", "linear"],
    2: ["nearest", "nearest-exact", "bilinear", "bicubic"],
    3: ["nearest", "nearest-exact", "trilinear"],
}


def _table(rank, mode, antialias=False):
    """By size up and down, to twice the size, to one, and by factors, which torch may or may not compute anew."""
    corners = [None] if mode.startswith("nearest") else [False, True]
    targets = [{"size": [13, 4, 11][:rank]}, {"size": [2 * n for n in SIZES[rank]]}, {"size": [1] * rank}]
    factors = [{"scale_factor": factor} for factor in (2.0, 3.0, 1.7, 0.6, 1.08)]
    anew = [{"scale_factor": 1.7, "recompute_scale_factor": True}]
    return {
        f"{target} {corner}": lambda x, target=target, corner=corner: F.interpolate(
            x, mode=mode, align_corners=corner, antialias=antialias, **target
        )
        for target in [*targets, *factors, *anew]
        for corner in corners
    }


CASES = [(rank, mode, False) for rank in MODES for mode in MODES[rank]] + [(2, "bilinear", True), (2, "bicubic", True)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("rank", "mode", "antialias"), CASES)
def test_known_sizes(rank, mode, antialias, dtype):
    x, y = (torch.randn(2, 3, *SIZES[rank], dtype=dtype) for _ in range(2))
    tolerance = {"rtol": 1e-5, "atol": 1e-5} if dtype == torch.float32 else {}
    assert_all_match(_table(rank, mode, antialias), x, others=[(y,)], **tolerance)


@pytest.mark.parametrize(("rank", "mode", "antialias"), CASES)
def test_dynamic_sizes(rank, mode, antialias):
    """How a factor becomes a size is the same in all modes."""
    kinds = ["size': [13", "factor': 1.7"] + ["factor': 2.0", "factor': 0.6"] * (mode in ("bilinear", "nearest"))
    table = {name: each for name, each in _table(rank, mode, antialias).items() if any(kind in name for kind in kinds)}
    assert len(table) == (3 + len(kinds) - 2) * (1 if "nearest" in mode else 2)
    assert_all_match(
        table,
        torch.randn(2, 3, *SIZES[rank]),
        others=[(torch.randn(1, 3, *LARGER[rank]),)],
        dynamic_shapes={"x": {0: AUTO, **{2 + k: AUTO for k in range(rank)}}},
        rtol=1e-5,
        atol=1e-5,
    )


@pytest.mark.slow
def test_to_the_size_of_another_tensor():
    assert_matches(
        lambda x, like: [F.interpolate(x, size=like.shape[2:], mode=mode) for mode in MODES[2]],
        torch.randn(1, 2, 5, 6),
        torch.randn(1, 2, 9, 8),
        others=[
            (torch.randn(1, 2, 7, 4), torch.randn(1, 2, 10, 8)),
            (torch.randn(1, 2, 3, 4), torch.randn(1, 2, 6, 8)),
        ],
        dynamic_shapes={"x": {2: AUTO, 3: AUTO}, "like": {2: AUTO, 3: AUTO}},
        rtol=1e-5,
        atol=1e-5,
    )


@pytest.mark.slow
@pytest.mark.parametrize("exact", ["nearest", "nearest-exact"])
def test_every_pair_of_sizes_picks_torchs_neighbour(exact):
    """ONNX's Resize divides where torch multiplies, and rounding puts some neighbours one off."""
    x = torch.arange(41.0).view(1, 1, 41)
    outs = [1, 2, 7, 40, 41, 47, 82, 83, 121, 123, 1681, 205]
    assert_all_match({str(n): lambda x, n=n: F.interpolate(x, size=n, mode=exact) for n in outs}, x)
    assert_all_match(
        {str(n): lambda x, n=n: F.interpolate(x, size=n, mode=exact) for n in outs},
        x,
        others=[(torch.arange(49.0).view(1, 1, 49),)],
        dynamic_shapes={"x": {2: AUTO}},
    )


@pytest.mark.slow
def test_sizes_round_as_in_torch():
    """0.29 * 100 is 28.999... in double, and 29 in float."""
    table = {mode: lambda x, mode=mode: F.interpolate(x, scale_factor=0.29, mode=mode) for mode in MODES[1]}
    assert_all_match(table, torch.randn(1, 1, 100))
    assert_all_match(
        table,
        torch.randn(1, 1, 50),
        others=[(torch.randn(1, 1, 100),)],
        dynamic_shapes={"x": {2: AUTO}},
        atol=1e-5,
        rtol=1e-5,
    )


def test_doubling_is_one_resize():
    program = assert_matches(lambda x: F.interpolate(x, scale_factor=2), torch.randn(1, 2, 4, 4))
    assert [node.op_type for node in program.model.graph] == ["Resize"]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.bool])
def test_neighbours_of_integers(dtype):
    x = torch.randint(0, 2, (1, 2, 4, 5)).to(dtype)

    def model(x):
        return torch.ops.aten.upsample_nearest2d(x, [7, 10])

    if dtype == torch.uint8:
        assert_matches(model, x)
    assert_matches(lambda x: F.interpolate(x.float(), size=(8, 10)).to(dtype), x)


def test_fixed_point_is_refused():
    with pytest.raises(opbridge.MissingOperators, match="fixed-point"):
        opbridge.export(
            lambda x: F.interpolate(x, size=(7, 9, 2), mode="trilinear"),
            (torch.zeros(1, 3, 4, 5, 6, dtype=torch.uint8),),
        )


@pytest.mark.slow
def test_half_precision():
    table = _table(2, "bilinear") | {f"cubic {name}": f for name, f in _table(2, "bicubic").items()}
    assert_all_match(table, torch.randn(1, 2, 9, 7).half(), rtol=2e-3, atol=3e-3)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_opset_18(mode):
    assert_all_match(_table(2, mode), torch.randn(1, 2, 9, 7), opset_version=18, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_forms_with_sizes_and_factors():
    aten = torch.ops.aten
    assert_all_match(
        {
            "nearest1d": lambda x: aten.upsample_nearest1d(x[0], [11], 1.6),
            "nearest3d": lambda x: aten.upsample_nearest3d(x[None], [3, 9, 10], 1.6, None, 1.5),
            "exact": lambda x: aten._upsample_nearest_exact2d(x, [9, 10], 1.3, 1.45),
            "bilinear": lambda x: aten.upsample_bilinear2d(x, [9, 10], False, 1.3, 1.45),
            "bicubic": lambda x: aten.upsample_bicubic2d(x, [9, 10], False, 1.3, None),
            "bilinear antialias": lambda x: aten._upsample_bilinear2d_aa(x, [3, 4], False, 0.45, 0.6),
            "bicubic antialias": lambda x: aten._upsample_bicubic2d_aa(x, [3, 4], True),
        },
        torch.randn(2, 3, 7, 7),
        others=[(torch.randn(2, 3, 7, 7),)],
        rtol=1e-5,
        atol=1e-5,
    )


def test_lanczos():
    if not hasattr(torch.ops.aten, "_upsample_lanczos2d_aa"):
        pytest.skip("this torch has no lanczos")
    resize = torch.ops.aten._upsample_lanczos2d_aa
    table = {str(size): lambda x, size=size: resize(x, size, False) for size in ([4, 5], [20, 9])}
    assert_all_match(table, torch.randn(1, 2, 11, 13), rtol=1e-5, atol=1e-5)
