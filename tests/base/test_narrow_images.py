"""Antialiased interpolation to a width of 1, which PyTorch computes wrongly for images in the usual layout."""

from __future__ import annotations

import pytest
import torch

import opbridge
from opbridge.base.torch_private.narrow_images import as_defined

MODES = {
    "bilinear": torch.ops.aten._upsample_bilinear2d_aa.default,
    "bicubic": torch.ops.aten._upsample_bicubic2d_aa.default,
}
SIZES = [((2, 2), (5, 1)), ((4, 5), (9, 1)), ((6, 3), (2, 1)), ((2, 1), (5, 1)), ((3, 3), (3, 1)), ((2, 3), (4, 2))]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("before", "after"), SIZES)
def test_it_is_what_pytorch_gives_with_channels_last(mode, before, after):
    x = torch.rand(2, 3, *before, dtype=torch.float64)
    expected = MODES[mode](x.contiguous(memory_format=torch.channels_last), after, False)
    torch.testing.assert_close(as_defined(MODES[mode], x, after, False), expected)


@pytest.mark.parametrize("mode", MODES)
def test_it_takes_the_factors_of_each_dimension(mode):
    x = torch.rand(1, 2, 4, 3, dtype=torch.float64)
    given = [9, 1], False, 2.3, 0.4
    expected = MODES[mode](x.contiguous(memory_format=torch.channels_last), *given)
    torch.testing.assert_close(as_defined(MODES[mode], x, *given), expected)
    torch.testing.assert_close(as_defined(MODES[mode], x, *given[:2], scales_h=2.3, scales_w=0.4), expected)


@pytest.mark.parametrize("mode", MODES)
def test_a_file_with_the_right_rows_is_no_mismatch(mode):
    def model(x):
        size = (x.shape[2] * 2 + 1, x.shape[3] // 2)
        return torch.nn.functional.interpolate(x, size=size, mode=mode, antialias=True)

    given = (torch.rand(1, 2, 2, 2),)
    program = opbridge.export(model, given, dynamic_shapes=({2: "h", 3: "w"},), inputs=[(torch.rand(1, 2, 6, 6),)])
    assert program.verification.ok
    assert "float64" in program.verification.summary()  # by how much depends on the inputs
