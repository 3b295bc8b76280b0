"""torchvision's operators."""

from __future__ import annotations

import pytest
import torch
from helpers.matching import assert_matches
from helpers.tables import assert_all_match
from torch.export import Dim

import opbridge

ops = pytest.importorskip("torchvision").ops

# Groups of channels and of offsets, and whether there are a bias and a mask.
FORMS = [(1, 1, True, True), (2, 1, True, False), (1, 2, False, True), (4, 4, False, False)]


def deformed(
    groups: int, offset_groups: int, *, bias: bool, mask: bool, reach: float = 1.0
) -> list[torch.Tensor | None]:
    rows, columns = (9 + 2 - 3) // 2 + 1, 7 + 4 - 2
    taps = offset_groups * 6
    return [
        torch.randn(2, 8, 9, 7),
        torch.randn(2, 2 * taps, rows, columns) * reach,
        torch.randn(12, 8 // groups, 3, 2),
        torch.randn(12) if bias else None,
        torch.rand(2, taps, rows, columns) if mask else None,
    ]


def deform(x, offset, weight, bias, mask):
    return ops.deform_conv2d(x, offset, weight, bias, stride=(2, 1), padding=(1, 2), dilation=(1, 2), mask=mask)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_deform_conv2d(form: tuple[int, int, bool, bool]) -> None:
    groups, offset_groups, bias, mask = form

    def inputs(reach: float) -> list[torch.Tensor | None]:
        return deformed(groups, offset_groups, bias=bias, mask=mask, reach=reach)

    far, straight = inputs(1e6), inputs(3.0)
    straight[1] = straight[1].round()
    assert_matches(deform, *inputs(3.0), others=[inputs(0.0), inputs(100.0), far, straight], rtol=1e-4, atol=1e-4)
    double = [tensor if tensor is None else tensor.double() for tensor in inputs(3.0)]
    assert_matches(deform, *double)


def test_deform_conv2d_is_one_node() -> None:
    program = assert_matches(deform, *deformed(1, 1, bias=True, mask=True), opset_version=19, rtol=1e-4, atol=1e-4)
    assert [node.op_type for node in program.model.graph] == ["DeformConv"]


@pytest.mark.slow
@pytest.mark.parametrize("opset", [13, 21])
@pytest.mark.parametrize("groups", [1, 2])
def test_deform_conv2d_with_weights_as_inputs_of_any_size(opset: int, groups: int) -> None:
    """The numbers of groups are quotients of sizes: numbers that the capture holds the sizes to."""

    def inputs(batch: int, channels: int, rows: int, columns: int) -> tuple[torch.Tensor, ...]:
        offset = torch.randn(batch, 18 * groups, rows, columns)
        weight = torch.randn(2 * groups, channels, 3, 3)
        return torch.randn(batch, channels * groups, rows, columns), offset, weight

    def deform_same(x, offset, weight):
        return ops.deform_conv2d(x, offset, weight, padding=1)

    others = [inputs(1, 1, 5, 6), inputs(3, 4, 9, 2)]
    program = assert_matches(
        deform_same,
        *inputs(2, 2, 7, 8),
        dynamic_shapes="auto",
        opset_version=opset,
        others=others,
        rtol=1e-4,
        atol=1e-4,
    )
    x, offset, weight = ([str(size) for size in value.shape] for value in program.model.graph.inputs)
    assert offset == [x[0], str(18 * groups), *x[2:]]
    assert weight[2:] == ["3", "3"] and x[1] == (weight[1] if groups == 1 else f"2*{weight[1]}")


@pytest.mark.slow
def test_deform_conv2d_names_the_size_that_has_to_be_a_number() -> None:
    def deform_plain(x, offset, weight):
        return ops.deform_conv2d(x, offset, weight)

    inputs = (torch.randn(2, 4, 8, 9), torch.randn(2, 18, 6, 7), torch.randn(6, 4, 3, 3))
    with pytest.raises(opbridge.CaptureError, match="it requires kh == 3"):
        opbridge.export(deform_plain, inputs, dynamic_shapes=(None, None, {2: "kh"}))


def test_deform_conv2d_of_any_batch() -> None:
    layer = ops.DeformConv2d(4, 6, 3, padding=1).eval()
    batch = Dim("batch")
    assert_matches(
        layer,
        torch.randn(2, 4, 8, 8),
        torch.randn(2, 18, 8, 8),
        dynamic_shapes=({0: batch}, {0: batch}),
        others=[(torch.randn(5, 4, 8, 8), torch.randn(5, 18, 8, 8))],
        rtol=1e-4,
        atol=1e-4,
    )


@pytest.mark.parametrize("opset", [11, 18])
def test_deform_conv2d_before_opset_19(opset: int) -> None:
    inputs = deformed(2, 4, bias=True, mask=True, reach=3.0)
    program = assert_matches(deform, *inputs, opset_version=opset, rtol=1e-4, atol=1e-4)
    assert [(node.domain, node.op_type) for node in program.model.graph] == [("opbridge_ops", "deform_conv2d")]
    without = [inputs[0], inputs[1], inputs[2], None, None]
    assert_matches(deform, *without, opset_version=opset, rtol=1e-4, atol=1e-4)


def boxes(count: int) -> torch.Tensor:
    corner = torch.rand(count, 2) * 10
    return torch.cat([corner, corner + torch.rand(count, 2) * 5], 1)


def test_nms() -> None:
    table = {f"{limit}": lambda b, s, limit=limit: ops.nms(b, s, limit) for limit in (0.0, 0.3, 0.5, 1.0)}
    table["by class"] = lambda b, s: ops.batched_nms(b, s, (s * 3).long(), 0.5)
    others = [(boxes(50), torch.randn(50)) for _ in range(2)]
    tied = (boxes(50), torch.randint(0, 3, (50,)).float())
    flat = boxes(50)
    flat[:9, 2:] = flat[:9, :2]
    swapped = boxes(50)
    swapped[:20] = swapped[:20, [2, 3, 0, 1]]
    swapped[20:30] = swapped[20:30, [2, 1, 0, 3]]
    others.append((swapped, torch.randn(50)))
    assert_all_match(table, boxes(50), torch.randn(50), others=[*others, tied, (flat, torch.randn(50))])
    with pytest.raises(opbridge.MissingOperators, match="float32"):
        opbridge.export(lambda b, s: ops.nms(b, s, 0.5), (boxes(5).double(), torch.rand(5).double()), verify=False)


def test_nms_of_any_number_of_boxes() -> None:
    count = Dim("count")
    assert_matches(
        lambda b, s: ops.nms(b, s, 0.5),
        boxes(20),
        torch.rand(20),
        dynamic_shapes=({0: count}, {0: count}),
        others=[(boxes(3), torch.rand(3)), (boxes(0), torch.rand(0))],
    )


def regions(count: int) -> torch.Tensor:
    """Regions of two images, a few of them degenerate or outside."""
    corner = torch.rand(count, 2) * 14 - 2
    found = torch.cat([torch.randint(0, 2, (count, 1)).float(), corner, corner + torch.rand(count, 2) * 10], 1)
    odd = [[3.0, 3, 2, 2], [-5, -5, -3, -2], [30, 30, 40, 42], [3, 3, 3, 3]]
    for row, region in zip(found, odd, strict=False):
        row[1:] = torch.tensor(region)
    return found


POOLED = {
    f"align {ratio} {aligned}": lambda x, r, ratio=ratio, aligned=aligned: ops.roi_align(
        x, r, (3, 4), 0.9, ratio, aligned
    )
    for ratio in (-1, 1, 2)
    for aligned in (False, True)
} | {
    "pool": lambda x, r: ops.roi_pool(x, r, (3, 4), 0.9),
    "pool, halves": lambda x, r: ops.roi_pool(x, r, (3, 4), 0.5),
    "by position": lambda x, r: ops.ps_roi_align(x, r, (3, 4), 0.9, 2),
    "by position, as many samples as pixels": lambda x, r: ops.ps_roi_align(x, r, (3, 4), 0.9, -1),
    "pool by position": lambda x, r: ops.ps_roi_pool(x, r, (3, 4), 0.9),
}


@pytest.mark.slow
@pytest.mark.parametrize("opset", [18, 21, 23])
def test_regions(opset: int) -> None:
    others = [(torch.randn(2, 24, 12, 15), regions(20))]
    images = torch.randn(2, 24, 12, 15)
    assert_all_match(POOLED, images, regions(20), others=others, opset_version=opset, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("opset", [21, 23])
def test_any_number_of_regions(opset: int) -> None:
    for function in (POOLED["align 2 False"], POOLED["align -1 True"], POOLED["pool"], POOLED["pool by position"]):
        assert_matches(
            function,
            torch.randn(2, 24, 12, 15),
            regions(20),
            dynamic_shapes=(None, {0: Dim("regions")}),
            others=[(torch.randn(2, 24, 12, 15), regions(5)), (torch.randn(2, 24, 12, 15), regions(0))],
            opset_version=opset,
            rtol=1e-4,
            atol=1e-5,
        )
