"""Quantised models: PT2E, quantize_, QAT, and eager mode, with static and dynamic batch."""

from __future__ import annotations

import collections
import copy
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import torch.ao.quantization as eager
import torch.nn.functional as F
from helpers.rows import one_in
from onnxscript import opset18 as op
from torch import nn

import opbridge

pytestmark = pytest.mark.slow


class ConvNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32)
        self.grouped, self.last = nn.Conv2d(32, 32, 3, padding=1, groups=4), nn.Conv2d(32, 32, 1)
        self.classes = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.first(x)))
        x = x + self.last(torch.relu(self.grouped(x)))
        return self.classes(F.adaptive_avg_pool2d(F.max_pool2d(x, 2), 1).flatten(1))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(64), nn.Linear(64, 192), nn.Linear(64, 64)
        self.up, self.down = nn.Linear(64, 256), nn.Linear(256, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, 4, 16)).permute(2, 0, 3, 1, 4).unbind(0)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(x)))


def _image(batch: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(batch, 3, 16, 16, generator=torch.Generator().manual_seed(seed))


def _tokens(batch: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(batch, 5, 64, generator=torch.Generator().manual_seed(seed))


# Models


def _pt2e(model: nn.Module, quantizer: Any, x: torch.Tensor, *, qat: bool = False) -> Any:
    from torchao.quantization import pt2e
    from torchao.quantization.pt2e import quantize_pt2e

    exported = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim("batch")},)).module()
    prepared = (quantize_pt2e.prepare_qat_pt2e if qat else quantize_pt2e.prepare_pt2e)(exported, quantizer)
    for seed in range(3):
        prepared(torch.randn(x.shape, generator=torch.Generator().manual_seed(seed)))
    if qat:
        pt2e.move_exported_model_to_eval(prepared)
    return quantize_pt2e.convert_pt2e(prepared)


def _xnnpack(**options: Any) -> Any:
    from torchao.testing.pt2e import _xnnpack_quantizer as xnnpack

    return xnnpack.XNNPACKQuantizer().set_global(xnnpack.get_symmetric_quantization_config(**options))


def _x86(**options: Any) -> Any:
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    return x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config(**options))


def _quantized(config: Any, model: nn.Module) -> nn.Module:
    from torchao.quantization import quantize_

    quantize_(model, config)
    return model


def _config(name: str, **options: Any) -> Any:
    import torchao.quantization as torchao

    return getattr(torchao, name)(**options)


def _group(size: int) -> Any:
    import torchao.quantization as torchao

    return torchao.PerGroup(size)


def _qat_converted(model: nn.Module) -> nn.Module:
    from torchao.quantization import qat, quantize_

    base = _config("Int8DynamicActivationIntxWeightConfig", weight_dtype=torch.int4, weight_granularity=_group(32))
    quantize_(model.train(), qat.QATConfig(base, step="prepare"))
    model(_tokens(2))
    quantize_(model, qat.QATConfig(base, step="convert"))
    return model.eval()


def _intx(bits: str, size: int) -> Any:
    return _config("IntxWeightOnlyConfig", weight_dtype=getattr(torch, bits), granularity=_group(size))


# Name: (what quantises, the model, what ONNX Runtime makes of it, the largest share of the float weights' bytes).
TORCHAO = {
    "xnnpack": (lambda m, x: _pt2e(m, _xnnpack(), x), ConvNet, {"QLinearConv": 3, "QLinearAdd": 1, "QGemm": 1}, 0.45),
    "xnnpack per channel": (
        lambda m, x: _pt2e(m, _xnnpack(is_per_channel=True), x),
        ConvNet,
        {"QLinearConv": 3, "QLinearAdd": 1, "QGemm": 1},
        0.45,
    ),
    "xnnpack linear": (
        lambda m, x: _pt2e(m, _xnnpack(is_per_channel=True), x),
        Block,
        {"MatMulIntegerToFloat": 4},
        0.45,
    ),
    "xnnpack dynamic": (
        lambda m, x: _pt2e(m, _xnnpack(is_per_channel=True, is_dynamic=True), x),
        Block,
        {"MatMulIntegerToFloat": 4},
        0.45,
    ),
    "xnnpack qat": (
        lambda m, x: _pt2e(m.train(), _xnnpack(is_per_channel=True, is_qat=True), x, qat=True),
        ConvNet,
        {"QLinearConv": 3, "QLinearAdd": 1, "QGemm": 1},
        0.45,
    ),
    "x86": (lambda m, x: _pt2e(m, _x86(), x), ConvNet, {"QLinearConv": 2, "MatMulIntegerToFloat": 1}, 0.45),
    "x86 linear": (lambda m, x: _pt2e(m, _x86(), x), Block, {"MatMulIntegerToFloat": 4}, 0.45),
    "x86 dynamic": (lambda m, x: _pt2e(m, _x86(is_dynamic=True), x), Block, {"MatMulIntegerToFloat": 4}, 0.45),
    "int8 weights": (lambda m, x: _quantized(_config("Int8WeightOnlyConfig"), m), Block, {"MatMulNBits": 4}, 0.45),
    "int8 weights in groups": (
        lambda m, x: _quantized(_config("Int8WeightOnlyConfig", granularity=_group(32)), m),
        Block,
        {"MatMulNBits": 4},
        0.45,
    ),
    "int8 activations": (
        lambda m, x: _quantized(_config("Int8DynamicActivationInt8WeightConfig"), m),
        Block,
        {"MatMulInteger": 4},
        0.45,
    ),
    "int4 weights": (lambda m, x: _quantized(_intx("int4", 32), m), Block, {"MatMulNBits": 4}, 0.25),
    "int4 weights in rows": (lambda m, x: _quantized(_intx("int4", 64), m), Block, {"MatMulNBits": 4}, 0.2),
    "int3 weights": (lambda m, x: _quantized(_intx("int3", 32), m), Block, {"MatMulNBits": 4}, 0.25),
    "int8 activations, int4 weights": (
        lambda m, x: _quantized(
            _config("Int8DynamicActivationIntxWeightConfig", weight_dtype=torch.int4, weight_granularity=_group(32)), m
        ),
        Block,
        {"MatMulNBits": 4},
        0.45,
    ),
    "qat, converted": (lambda m, x: _qat_converted(m), Block, {"MatMulNBits": 4}, 0.45),
}


class EagerNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.quantize, self.dequantize = eager.QuantStub(), eager.DeQuantStub()
        self.first, self.relu, self.second = nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1)
        self.sum, self.pool, self.classes = nn.quantized.FloatFunctional(), nn.MaxPool2d(2), nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.relu(self.first(self.quantize(x)))
        x = self.pool(self.sum.cat([x, self.sum.add(x, self.second(x))], 1))
        return self.dequantize(self.classes(F.adaptive_avg_pool2d(x, 1).flatten(1)))


def _eager_static(model: nn.Module, x: torch.Tensor) -> nn.Module:
    model.qconfig = eager.get_default_qconfig("fbgemm")
    prepared = eager.prepare(eager.fuse_modules(model, [["first", "relu"]]))
    prepared(x)
    return eager.convert(prepared)


def _eager_qat(model: nn.Module, x: torch.Tensor) -> nn.Module:
    model.train().qconfig = eager.get_default_qat_qconfig("fbgemm")
    prepared = eager.prepare_qat(eager.fuse_modules_qat(model, [["first", "relu"]]))
    prepared(x)
    return eager.convert(prepared.eval())


def _fx(model: nn.Module, x: torch.Tensor, *, reference: bool) -> Any:
    from torch.ao.quantization import quantize_fx

    prepared = quantize_fx.prepare_fx(model, eager.get_default_qconfig_mapping("fbgemm"), (x,))
    prepared(x)
    return (quantize_fx.convert_to_reference_fx if reference else quantize_fx.convert_fx)(prepared)


EAGER = {
    "static": (_eager_static, EagerNet, {"QLinearConv": 2, "QLinearAdd": 1, "QLinearConcat": 1, "QGemm": 1}, 0.45),
    "qat": (_eager_qat, EagerNet, {"QLinearConv": 2, "QLinearAdd": 1, "QGemm": 1}, 0.45),
    "dynamic": (
        lambda m, x: eager.quantize_dynamic(m, {nn.Linear}, dtype=torch.qint8),
        Block,
        {"MatMulIntegerToFloat": 4},
        0.45,
    ),
    "fx": (lambda m, x: _fx(m, x, reference=False), ConvNet, {"QLinearConv": 3, "QLinearAdd": 1, "QGemm": 1}, 0.45),
    "fx reference": (
        lambda m, x: _fx(m, x, reference=True),
        ConvNet,
        {"QLinearConv": 3, "QLinearAdd": 1, "QGemm": 1},
        0.45,
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", one_in(3, TORCHAO))
def test_torchao(name, tmp_path):
    pytest.importorskip("torchao", reason="it quantises these models")
    _check(*TORCHAO[name], tmp_path)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("name", EAGER)
def test_eager(name, tmp_path):
    _check(*EAGER[name], tmp_path)


def _check(quantize: Any, kind: type[nn.Module], fused: dict[str, int], share: float, folder: Any) -> None:
    """Quantises a model, and exports it with a static and with a dynamic batch."""
    torch.manual_seed(0)
    make = _image if kind is not Block else _tokens
    model = quantize(kind().eval(), make(2))
    for name, shapes, others in (("static", None, []), ("dynamic", ({0: "batch"},), [make(1, 2), make(5, 3)])):
        path = folder / f"{name}.onnx"
        opbridge.export(model, (make(2),), path, dynamic_shapes=shapes)
        file = onnx.load(path)
        _assert_weights_are_narrow(file)
        given = sum(each.numel() * each.element_size() for each in kind().parameters())
        assert sum(len(each.raw_data) for each in file.graph.initializer) < share * given
        counted = _operators_after_fusion(path)
        assert {name: counted[name] for name in fused} == fused
        session = opbridge.session(path)
        step = _step(file)
        for x in [make(2, 1), *others]:
            actual = session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]
            expected = copy.deepcopy(model)(x).detach().numpy()
            difference = np.abs(actual - expected)
            # Rounding may go either way in the middle between two steps: some elements may be a step away.
            assert difference.max() <= 1.01 * step + 1e-4
            assert difference.mean() <= step / 8 + 1e-5


def _assert_weights_are_narrow(model: onnx.ModelProto) -> None:
    """No matrix and no filter is left in floating numbers; scales in groups are much smaller."""
    for each in model.graph.initializer:
        if each.data_type == onnx.TensorProto.FLOAT:
            assert np.prod(each.dims) <= 1024, each.name


def _operators_after_fusion(path: Any) -> collections.Counter[str]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.optimized_model_filepath = str(path.with_name("optimized.onnx"))
    onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return collections.Counter(node.op_type for node in onnx.load(options.optimized_model_filepath).graph.node)


def _step(model: onnx.ModelProto) -> float:
    """The largest step of an activation; of those that are quantised by their own range, a large one."""
    constants = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    quantizing = [node for node in model.graph.node if node.op_type == "QuantizeLinear"]
    known = [constants[node.input[1]] for node in quantizing if node.input[1] in constants]
    return max((float(scale.max()) for scale in known if scale.max() != 1), default=0.05 if quantizing else 0.0)


def test_weights_alone_are_verified():
    """Products with float activations are compared by export itself, with its usual tolerance."""
    pytest.importorskip("torchao", reason="it quantises these models")
    for config in (_config("Int8WeightOnlyConfig"), _intx("int4", 32)):
        program = opbridge.export(_quantized(config, Block().eval()), (_tokens(2),), dynamic_shapes=({0: "batch"},))
        assert program.verification is not None and program.verification.ok


@pytest.mark.parametrize("opset", [13, 18, 20])
def test_older_opsets(opset):
    pytest.importorskip("torchao", reason="it quantises these models")
    torch.manual_seed(0)
    model = _quantized(_intx("int4", 32), Block().eval())
    program = opbridge.export(model, (_tokens(2),), opset_version=opset)
    assert program.verification is not None and program.verification.ok
    # Blocks are computed there, and the weights are of 8 bits.
    assert any(value.dtype.name == "INT8" for value in program.model.graph.initializers.values())


def test_quantised_lstm_is_refused():
    model = eager.quantize_dynamic(nn.Sequential(nn.LSTM(4, 3)).eval(), {nn.LSTM}, dtype=torch.qint8)
    with pytest.raises(opbridge.CaptureError, match="quantize_dynamic"):
        opbridge.export(model, torch.randn(5, 2, 4))


def test_a_quantised_result_is_refused():
    model = nn.Sequential(eager.QuantStub()).eval()
    model.qconfig = eager.get_default_qconfig("fbgemm")
    prepared = eager.prepare(model)
    prepared(torch.randn(2, 4))
    with pytest.raises(opbridge.CaptureError, match="dequantize"):
        opbridge.export(eager.convert(prepared), torch.randn(2, 4))


def test_the_first_difference_is_not_that_int8_values_are_quantised_as_uint8():
    class WithCosh(ConvNet):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cosh(super().forward(x))

    x = _image(2)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = _pt2e(WithCosh().eval(), _xnnpack(), x)
    table = {"aten::cosh": lambda self: op.Sinh(self)}
    with pytest.raises(opbridge.VerificationError, match=r"The first operator that differs is aten::cosh"):
        opbridge.export(model, (x,), custom_translation_table=table)
    plain = opbridge.export(model, (x,))
    assert onnx.TensorProto.UINT8 in {
        each.data_type for each in onnx.load_from_string(plain.to_bytes()).graph.initializer
    }
