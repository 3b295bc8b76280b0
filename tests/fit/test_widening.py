"""Models fitted to onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
import torch
from helpers.matching import assert_matches

import opbridge
from opbridge.fit import widening
from opbridge.fit.target import find_target
from opbridge.onnx.wider_types import Widened


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize("function", [torch.relu, lambda x: x.sum(0), lambda x: x * x, lambda x: x.abs().max(0).values])
def test_integer_types_without_a_kernel_are_widened(function, dtype):
    x = torch.tensor([[1, 2, 3], [4, 100, 6]], dtype=dtype)
    assert_matches(function, x, others=[(torch.tensor([[0, 7, 3], [9, 1, 120]], dtype=dtype),)])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_types_compute_in_float32_and_come_back(dtype):
    program = opbridge.export(
        torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.GELU()).to(dtype), (torch.randn(2, 4).to(dtype),)
    )
    assert program.verification.ok
    assert str(program.model.graph.outputs[0].dtype) == {torch.float16: "FLOAT16", torch.bfloat16: "BFLOAT16"}[dtype]


def test_outputs_that_nobody_reads_are_left_out():
    program = opbridge.export(torch.nn.MaxPool2d(2), (torch.randn(1, 1, 4, 4),), verify=False)
    (pool,) = [node for node in program.model.graph if node.op_type == "MaxPool"]
    assert len(pool.outputs) == 1


def test_outputs_that_are_read_stay():
    program = assert_matches(torch.nn.MaxPool2d(2, return_indices=True), torch.randn(1, 1, 4, 4))
    pools = [node for node in program.model.graph if node.op_type == "MaxPool"]
    assert any(len(pool.outputs) == 2 for pool in pools)


def _operators(program) -> list[str]:
    return [node.op_type for node in program.model.graph]


class _Layers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm = torch.nn.Conv2d(2, 3, 3), torch.nn.LayerNorm(3)
        self.linear = torch.nn.Linear(3, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.convolution(x)).flatten(2).transpose(1, 2)
        return torch.softmax(self.linear(self.norm(x)), -1).sum(1)


@pytest.fixture(scope="module")
def layers():
    torch.manual_seed(5)
    return _Layers().eval()


@pytest.mark.slow
@pytest.mark.parametrize("target", [None, "cuda", "tensorrt", "openvino"])
def test_float16_stays_in_the_file(layers, target):
    program = opbridge.export(layers.half(), (torch.randn(2, 2, 5, 5).half(),), target=target, dynamic_shapes="batch")
    assert program.verification.ok
    assert "Cast" not in _operators(program)
    assert not any("float32" in note for note in program.plan.notes)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["tensorrt", "openvino"])
def test_bfloat16_stays_for_a_target_that_takes_it(layers, target):
    model = layers if target == "tensorrt" else torch.nn.Sequential(layers.convolution, torch.nn.ReLU())
    program = opbridge.export(model.bfloat16(), (torch.randn(2, 2, 5, 5).bfloat16(),), target=target)
    assert program.verification.ok
    assert "Cast" not in _operators(program)
    assert any("run in float32" in note for note in program.verification.notes)


@pytest.mark.slow
def test_bfloat16_is_widened_for_the_cpu_and_the_plan_says_so(layers):
    program = opbridge.export(layers.bfloat16(), (torch.randn(2, 2, 5, 5).bfloat16(),))
    assert program.verification.ok
    (note,) = [note for note in program.plan.notes if "bfloat16" in note]
    assert "compute in float32" in note and '"tensorrt" or "openvino"' in note
    assert not any("were run in float32" in note for note in program.verification.notes)


@pytest.mark.parametrize(
    ("counts", "target", "said"),
    [
        ({"BFLOAT16": 2}, "webgpu", ["2 nodes compute in float32", "webgpu", "is not known to have any."]),
        ({"BFLOAT16": 1}, "cuda", ["1 node computes in float32", "no bfloat16 kernels for it", "has none either."]),
        ({"INT8": 1, "UINT8": 2}, "cuda", ["3 nodes compute in wider integers", "no int8 and uint8 kernels", "either"]),
        ({"INT8": 1, "INT32": 1}, "tensorrt", ["no int32 kernels for it on the CPU and tensorrt", "has none either"]),
        (
            {"INT8": 1, "INT32": 1},
            "tensorrt",
            ["no int8 kernels", "is not known to have any; the results are the same"],
        ),
        ({"INT8": 1}, None, []),
        ({"FLOAT16": 1}, "webgpu", []),
    ],
)
def test_what_the_plan_says_of_wider_types(counts, target, said):
    widened = Widened(nodes={ir.DataType[name]: count for name, count in counts.items()})
    note = widening.note(widened, find_target(target, None))
    assert all(part in note for part in said) and bool(note) == bool(said)


_NARROW = {
    "tril int8": (torch.tril, torch.int8),
    "maximum int16": (lambda x: torch.maximum(x, x.flip(0)), torch.int16),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "target", "said"),
    [
        ("tril int8", "cuda", ""),
        ("tril int8", "directml", ""),
        ("tril int8", "openvino", ""),
        ("tril int8", "tensorrt-rtx", "is not known to have any"),
        ("tril int8", "openvino:2026.3", "is not known to have any"),
        ("maximum int16", "cuda", "has none either"),
        ("maximum int16", "openvino", ""),
        ("maximum int16", "qnn", "is not known to have any"),
    ],
)
def test_integers_stay_for_a_target_that_takes_them(name, target, said):
    function, dtype = _NARROW[name]
    program = opbridge.export(function, (torch.tensor([[1, 2, 3], [4, 100, 6]], dtype=dtype),), target=target)
    assert program.verification.ok
    notes = [note for note in program.plan.notes if "in wider integers" in note]
    assert ("Cast" in _operators(program)) == bool(said) == bool(notes)
    assert all(said in note for note in notes)
    assert any("run in wider integers" in note for note in program.verification.notes) == (not said)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tril", "add", "negative", "maximum"])
@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16])
def test_integers_in_openvino_are_those_of_pytorch(name, dtype, tmp_path):
    pytest.importorskip("openvino")
    function = {
        "tril": torch.tril,
        "add": lambda x: x + x,
        "negative": torch.neg,
        "maximum": _NARROW["maximum int16"][0],
    }
    x = torch.randint(torch.iinfo(dtype).min, torch.iinfo(dtype).max + 1, (3, 4), dtype=dtype)
    x[0, 0] = torch.iinfo(dtype).min
    path = tmp_path / "model.onnx"
    opbridge.export(function[name], (x,), path, target="openvino")
    with opbridge.session(path, runtime="openvino") as session:
        (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    np.testing.assert_array_equal(found, function[name](x).numpy())


@pytest.mark.slow
def test_nodes_that_a_provider_lacks_are_widened_where_the_cpu_would_compute_them():
    # CUDA's table of 1.28 has TopK of float types up to float32 and float16.
    program = opbridge.export(lambda x: (x + x).topk(2).values, (torch.randn(3, 4).bfloat16(),), target="cuda:1.28")
    assert program.verification.ok
    (top,) = [node for node in program.model.graph if node.op_type == "TopK"]
    (add,) = [node for node in program.model.graph if node.op_type == "Add"]
    assert (str(add.inputs[0].dtype), str(top.inputs[0].dtype)) == ("BFLOAT16", "FLOAT")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("types", "function", "dtype", "casts"),
    [
        ('["bfloat16"]', torch.relu, torch.bfloat16, False),
        ('["float16"]', torch.relu, torch.bfloat16, True),
        ('["int8"]', torch.tril, torch.int8, False),
        ('["float16"]', torch.tril, torch.int8, True),
    ],
)
def test_a_target_of_the_user_says_which_types_it_takes(types, function, dtype, casts, tmp_path):
    path = tmp_path / "chip.toml"
    path.write_text(
        f'versions = ["1.0"]\n[[fact]]\nkind = "narrow"\ntypes = {types}\nsource = "published: the manual"\n', "utf-8"
    )
    program = opbridge.export(function, (torch.tensor([[1, -2], [3, 4]], dtype=dtype),), target=str(path))
    assert program.verification.ok
    assert ("Cast" in _operators(program)) == casts


@pytest.mark.slow
def test_an_opset_that_was_asked_for_stays(layers):
    program = opbridge.export(
        layers.bfloat16(), (torch.randn(2, 2, 5, 5).bfloat16(),), target="tensorrt", opset_version=19
    )
    assert program.model.graph.opset_imports[""] == 19
    assert program.verification.ok


@pytest.mark.slow
def test_the_default_opset_is_kept_where_the_newer_one_lacks_kernels():
    torchvision = pytest.importorskip("torchvision")
    boxes = torch.tensor([[0.0, 0.0, 4.0, 4.0]])
    program = opbridge.export(
        lambda x, b: (torchvision.ops.roi_align(x.float(), [b], 2), x * 2),
        (torch.randn(1, 2, 8, 8).bfloat16(), boxes),
        target="openvino",
    )
    assert program.verification.ok


_HALF_OPERATORS = {
    "silu": torch.nn.functional.silu,
    "hardswish": torch.nn.functional.hardswish,
    "mish": torch.nn.functional.mish,
    "softplus": torch.nn.functional.softplus,
    "logsigmoid": torch.nn.functional.logsigmoid,
    "gelu": torch.nn.functional.gelu,
    "scale": lambda x: x * 0.1,
    "quotient": lambda x: x / 3,
    "root": lambda x: x.abs() ** 0.5,
    "cube": lambda x: x**3,
    "power": lambda x: x.abs() ** x,
    "trunc": lambda x: (x * 9).trunc(),
    "frac": lambda x: (x * 9).frac(),
    "group norm": torch.nn.GroupNorm(2, 4).half(),
    "bilinear": lambda x: torch.nn.functional.interpolate(x, scale_factor=2, mode="bilinear"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", _HALF_OPERATORS)
def test_operators_of_float16_have_no_casts(name):
    program = opbridge.export(_HALF_OPERATORS[name], (torch.randn(2, 4, 3, 5).half(),))
    assert program.verification.ok
    assert "Cast" not in _operators(program)


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1e6, 1e-7, 70000.0])
def test_a_factor_that_float16_does_not_hold_computes_in_float32(factor):
    x = torch.tensor([1e-3, 2.0, -0.5]).half()
    program = opbridge.export(lambda x: x * factor, (x,))
    assert program.verification.ok
    assert _operators(program) == ["Cast", "Mul", "Cast"]
