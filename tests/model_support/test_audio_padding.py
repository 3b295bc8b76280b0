"""The padding of EnCodec's convolutions, compared with transformers' own."""

from __future__ import annotations

import itertools

import pytest
import torch
from helpers import known_functions

import opbridge

transformers = pytest.importorskip("transformers", reason="not installed")


def _computed():
    from transformers.models.encodec.modeling_encodec import EncodecConv1d

    return EncodecConv1d, known_functions.computed(EncodecConv1d.forward)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("mode", ["reflect", "constant", "replicate"])
@pytest.mark.parametrize("norm", ["weight_norm", "time_group_norm"])
def test_convolutions_are_those_of_transformers(causal, mode, norm):
    kind, computed = _computed()
    config = transformers.EncodecConfig(use_causal_conv=causal, pad_mode=mode, norm_type=norm)
    for kernel, stride, dilation in ((7, 1, 1), (4, 2, 1), (10, 5, 1), (3, 1, 4), (1, 1, 1), (16, 8, 1)):
        layer = kind(config, 2, 3, kernel, stride, dilation)
        for length in (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 40):
            x = torch.randn(2, 2, length)
            with torch.no_grad():
                torch.testing.assert_close(computed(layer, x), layer(x), rtol=0, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize("stride", [1, 3, 5, 8])
def test_amounts_are_those_of_transformers_for_long_inputs(stride):
    kind, computed = _computed()
    layer = kind(transformers.EncodecConfig(), 1, 1, 2 * stride, stride)
    layer.conv = torch.nn.Identity()
    layer.conv.kernel_size, layer.conv.stride, layer.conv.dilation = (2 * stride,), (stride,), (1,)
    for power, beside in itertools.product((20, 22, 23), (-1, 0, 1, 2)):
        x = torch.zeros(1).expand(1, 1, 2**power + beside)
        assert computed(layer, x).shape == layer(x).shape


@pytest.mark.slow
@pytest.mark.thorough  # the tests above ask the same of its layers
def test_a_codec_is_exported_for_all_lengths(tmp_path):
    _computed()
    torch.manual_seed(0)
    small = {"num_filters": 4, "hidden_size": 8, "codebook_size": 16, "upsampling_ratios": [4, 2], "num_lstm_layers": 1}
    model = transformers.EncodecModel(transformers.EncodecConfig(**small, codebook_dim=8, normalize=False)).eval()
    shapes = {"input_values": {0: "batch", 2: "length"}}
    example = {"input_values": torch.randn(2, 1, 100), "return_dict": False}
    program = opbridge.export(model, kwargs=example, f=tmp_path / "model.onnx", dynamic_shapes=shapes, verify=False)
    assert not program.capture.demands
    others = [{"input_values": torch.randn(batch, 1, length)} for batch, length in ((1, 8), (3, 57), (1, 3))]
    assert opbridge.verify(tmp_path / "model.onnx", model, kwargs=example, inputs=others).ok
