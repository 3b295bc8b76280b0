"""torch's quantised tensors while a model is captured."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from helpers.matching import assert_matches

import opbridge

quantized = torch.ops.quantized
X, Y = torch.randn(2, 4, 6, 6), torch.randn(2, 4, 6, 6)
STEP = {"rtol": 0, "atol": 0.0501}


def _q(x, scale=0.05, zero_point=64, dtype=torch.quint8):
    return torch.quantize_per_tensor(x, scale, zero_point, dtype)


@pytest.mark.parametrize(
    "model",
    [
        lambda x, y: quantized.add(_q(x), _q(y), 0.05, 60),
        lambda x, y: quantized.add_relu(_q(x), _q(y, 0.03), 0.05, 0),
        lambda x, y: quantized.mul(_q(x), _q(y), 0.05, 60),
        lambda x, y: quantized.cat([_q(x), _q(y, 0.02)], 1, 0.05, 60),
        lambda x, y: torch.cat([_q(x), _q(y)], 2),
        lambda x, y: quantized.add(_q(x), 0.5),
        lambda x, y: quantized.mul(_q(x), 2.0),
        lambda x, y: quantized.hardswish(_q(x), 0.05, 20),
        lambda x, y: quantized.leaky_relu(_q(x), 0.1, False, 0.05, 20),
        lambda x, y: quantized.sigmoid(_q(x), 1 / 256, 0),
        lambda x, y: torch.sigmoid(_q(x)),
        lambda x, y: torch.tanh(_q(x)),
        lambda x, y: torch.relu(_q(x)),
        lambda x, y: F.relu(_q(x), inplace=True),
        lambda x, y: F.max_pool2d(_q(x), 2),
        lambda x, y: F.avg_pool2d(_q(x), 2),
        lambda x, y: F.adaptive_avg_pool2d(_q(x), 2),
        lambda x, y: F.interpolate(_q(x), scale_factor=2.0),
        lambda x, y: _q(x).mean((2, 3)),
        lambda x, y: _q(x).flatten(1)[:, 1:5].t().reshape(2, -1).contiguous(),
        lambda x, y: _q(x, 0.05, -3, torch.qint8).permute(0, 2, 3, 1),
        lambda x, y: _q(x, torch.tensor(0.05), torch.tensor(7)),
        lambda x, y: torch.quantize_per_channel(x, torch.rand(4).double() * 0 + 0.05, torch.zeros(4), 1, torch.qint8),
    ],
)
def test_operators(model):
    assert_matches(lambda x, y: model(x, y).dequantize(), X, Y, **STEP)


def test_integers_and_parameters_are_known():
    def model(x):
        q = _q(x)
        return q.int_repr(), x * q.q_scale() + q.q_zero_point()

    assert_matches(model, X)


def _layers():
    from torch.ao.nn import quantized as layers

    torch.manual_seed(0)
    for kind, shape in (
        (torch.nn.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2), (2, 4, 9)),
        (torch.nn.Conv2d(4, 6, 3, groups=2), (2, 4, 6, 6)),
        (torch.nn.Conv3d(4, 6, 2), (2, 4, 4, 4, 4)),
        (torch.nn.ConvTranspose2d(4, 6, 3, stride=2, output_padding=1), (2, 4, 5, 5)),
        (torch.nn.Linear(4, 6), (2, 3, 4)),
    ):
        name = type(kind).__name__
        kind.qconfig = torch.ao.quantization.get_default_qconfig("qnnpack" if "Transpose" in name else "fbgemm")
        kind.activation_post_process = kind.qconfig.activation()
        x = torch.randn(shape)
        kind.activation_post_process(kind(x))
        yield pytest.param(getattr(layers, name).from_float(kind), x, id=name)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize(("layer", "x"), _layers())
def test_layers(layer, x):
    assert_matches(lambda x: layer(_q(x)).dequantize(), x, rtol=0, atol=1.01 * layer.scale)


def test_other_operators_are_refused():
    with pytest.raises(opbridge.CaptureError, match="aten::topk is not supported on quantized tensors"):
        opbridge.export(lambda x: torch.topk(_q(x), 2)[0].dequantize(), torch.randn(3, 4))
