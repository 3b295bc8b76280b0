"""Symbolic functions registered under the name that TorchScript's trace has for an operator."""

from __future__ import annotations

import pytest
import torch

import opbridge


@pytest.fixture
def seen():
    calls = []

    def convolution(g, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups, *switches):
        from torch.onnx import symbolic_helper

        read = [symbolic_helper._get_const(value, "is", "v") for value in (stride, padding, dilation, output_padding)]
        is_transposed = bool(symbolic_helper._get_const(transposed, "i", "transposed"))
        count = symbolic_helper._get_const(groups, "i", "groups")
        calls.append((*read, is_transposed, count, len(switches)))
        stride, padding, dilation, output_padding = read
        inputs = [x, weight] if symbolic_helper._is_none(bias) else [x, weight, bias]
        shared = {"strides_i": stride, "pads_i": padding * 2, "dilations_i": dilation, "group_i": count}
        if is_transposed:
            return g.op("ConvTranspose", *inputs, output_padding_i=output_padding, **shared)
        return g.op("Conv", *inputs, **shared)

    torch.onnx.register_custom_op_symbolic("aten::_convolution", convolution, 9)
    yield calls
    torch.onnx.unregister_custom_op_symbolic("aten::_convolution", 9)


@pytest.mark.parametrize(
    ("layer", "x", "expected"),
    [
        (torch.nn.Conv1d(2, 4, 3, padding=1, groups=2), (1, 2, 8), ([1], [1], [1], [0], False, 2, 4)),
        (torch.nn.Conv2d(2, 3, 3, stride=2, bias=False), (1, 2, 8, 8), ([2, 2], [0, 0], [1, 1], [0, 0], False, 1, 4)),
        (torch.nn.Conv3d(1, 2, 2, dilation=2), (1, 1, 4, 4, 4), ([1] * 3, [0] * 3, [2] * 3, [0] * 3, False, 1, 4)),
        (
            torch.nn.ConvTranspose2d(2, 3, 3, stride=2, output_padding=1),
            (1, 2, 4, 4),
            ([2, 2], [0, 0], [1, 1], [1, 1], True, 1, 4),
        ),
    ],
    ids=["conv1d", "conv2d", "conv3d", "conv_transpose2d"],
)
def test_convolutions(seen, layer, x, expected):
    program = opbridge.export(layer, (torch.randn(x),))
    assert program.verification.ok
    assert seen == [expected]
    assert "user symbolic function" in program.plan.rows[0].how


def test_padding_as_a_string():
    def convolution(g, x, weight, bias, stride, padding, dilation, groups):
        return g.op("Conv", x, weight, bias, auto_pad_s="SAME_UPPER")

    torch.onnx.register_custom_op_symbolic("aten::_convolution_mode", convolution, 9)
    try:
        program = opbridge.export(torch.nn.Conv2d(2, 3, 3, padding="same"), (torch.randn(1, 2, 5, 5),))
    finally:
        torch.onnx.unregister_custom_op_symbolic("aten::_convolution_mode", 9)
    assert program.verification.ok
    assert "auto_pad" in program.model.graph[-1].attributes
