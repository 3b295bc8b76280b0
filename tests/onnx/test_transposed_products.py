"""Transposes whose results ONNX Runtime multiplies after a Cast, which may end the process that loads the file."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
import torch

import opbridge
from opbridge.onnx.transposed_products import keep_apart

_TYPES = {"float16": np.float16, "float": np.float32, "int64": np.int64}
_LOAD = "import onnxruntime, sys; onnxruntime.InferenceSession(sys.argv[1], providers=['CPUExecutionProvider'])"


def _model(text: str, dtype: str) -> ir.Model:
    head = f'<ir_version: 9, opset_import: ["" : 20]> g ({dtype}[a, b, n] x, {dtype}[4, 5] w) => (float[c, d, e] y) '
    return ir.from_proto(onnx.shape_inference.infer_shapes(onnx.parser.parse_model(f"{head}{{ {text} }}")))


CASTS = "t = Transpose <perm = [1, 0, 2]> (x) c = Cast <to = 1> (t) m = Cast <to = 1> (w) y = MatMul (c, m)"
TWICE = "s = Transpose <perm = [1, 0, 2]> (x) t = Transpose <perm = [0, 1, 2]> (s) c = Cast <to = 1> (t) "
TWICE += "m = Cast <to = 1> (w) y = MatMul (c, m)"
HALF = "t = Transpose <perm = [1, 0, 2]> (x) p = MatMul (t, w) y = Cast <to = 1> (p)"
READ_TWICE = (
    "t = Transpose <perm = [1, 0, 2]> (x) p = MatMul (t, w) q = MatMul (t, w) s = Add (p, q) y = Cast <to = 1> (s)"
)
LAST = "t = Transpose <perm = [1, 2, 0]> (x) p = MatMul (t, w) y = Cast <to = 1> (p)"
RIGHT = "t = Transpose <perm = [1, 0, 2]> (x) u = Transpose (w) p = MatMul (u, t) y = Cast <to = 1> (p)"


@pytest.mark.parametrize(
    ("text", "dtype", "shape", "wanted"),
    [
        (CASTS, "int64", (2, 3, 4), "Cast Transpose Cast MatMul"),
        (TWICE, "float16", (2, 3, 4), "Cast Transpose Cast MatMul"),
        (HALF, "float16", (2, 3, 4), "MatMul Transpose Cast"),
        (READ_TWICE, "float16", (2, 3, 4), "MatMul Transpose MatMul Transpose Add Cast"),
        (LAST, "float16", (4, 3, 2), "Transpose Max MatMul Cast"),
        (RIGHT, "float16", (4, 3, 2), "Transpose Transpose Max MatMul Cast"),
    ],
    ids=["casts", "twice", "half", "read twice", "last", "right"],
)
def test_loads_with_the_same_numbers(text, dtype, shape, wanted, tmp_path) -> None:
    model = _model(text, dtype)
    before = ir.to_proto(model).SerializeToString()
    keep_apart(model, {ir.DataType.FLOAT16})
    assert [node.op_type for node in model.graph] == wanted.split()
    path = tmp_path / "model.onnx"
    after = ir.to_proto(model)
    onnx.checker.check_model(after, full_check=True)
    onnx.save(after, path)
    subprocess.run([sys.executable, "-c", _LOAD, str(path)], check=True, timeout=120)
    generator = np.random.default_rng(7)
    feeds = {
        name: generator.integers(-4, 5, size).astype(_TYPES[dtype]) for name, size in (("x", shape), ("w", (4, 5)))
    }
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    expected = onnxruntime.InferenceSession(before, options, providers=["CPUExecutionProvider"]).run(None, feeds)
    actual = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, feeds)
    np.testing.assert_array_equal(actual[0], expected[0])


@pytest.mark.parametrize(
    "text",
    [
        "t = Transpose <perm = [0, 2, 1]> (x) p = MatMul (t, w) y = Cast <to = 1> (p)",
        "p = MatMul (x, w) y = Cast <to = 1> (p)",
        "t = Transpose <perm = [1, 0, 2]> (x) u = Relu (t) p = MatMul (u, w) y = Cast <to = 1> (p)",
    ],
    ids=["keeps the first dimension", "no transpose", "something between"],
)
def test_others_stay(text) -> None:
    model = _model(text, "float16")
    before = [node.op_type for node in model.graph]
    keep_apart(model, {ir.DataType.FLOAT16})
    assert [node.op_type for node in model.graph] == before


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_file_loads_in_a_plain_session(dtype, tmp_path) -> None:
    class Mixed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(4, 4).to(dtype)
            self.outer = torch.nn.Linear(4, 3)

        def forward(self, x: torch.Tensor, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.inner(x.transpose(0, 1)), self.outer(ids.permute(1, 0, 2).float())

    path = tmp_path / "mixed.onnx"
    inputs = (torch.randn(2, 3, 4).to(dtype), torch.arange(24).reshape(2, 3, 4))
    program = opbridge.export(Mixed().eval(), inputs, path, dynamic_shapes="batch")
    assert program.verification.ok
    subprocess.run([sys.executable, "-c", _LOAD, str(path)], check=True, timeout=120)


def test_functions_and_their_bodies() -> None:
    text = """<ir_version: 9, opset_import: ["" : 20, "local" : 1]>
    g (int64[a, b, n] x, int64[4, 5] w, bool k) => (float[c, d, e] y) { y = local.F (x, w, k) }
    <domain: "local", opset_import: ["" : 20]> F (x, w, k) => (y) {
        y = If (k) <then_branch = one () => (float[c, d, e] p) {
            t = Transpose <perm = [1, 0, 2]> (x)  c = Cast <to = 1> (t)  m = Cast <to = 1> (w)  p = MatMul (c, m)
        }, else_branch = two () => (float[c, d, e] q) { q = Cast <to = 1> (x) }>
    }"""
    model = ir.from_proto(onnx.parser.parse_model(text))
    keep_apart(model, ())
    (function,) = model.functions.values()
    (then, _) = function.graph.node(0).attributes.values()
    assert [node.op_type for node in then.as_graph()] == ["Cast", "Transpose", "Cast", "MatMul"]
    onnx.checker.check_model(ir.to_proto(model), full_check=True)


@pytest.mark.parametrize("types", ["float16", "float"])
def test_functions_that_are_called_with_float16(types: str) -> None:
    text = f"""<ir_version: 9, opset_import: ["" : 20, "local" : 1]>
    g ({types}[a, b, 4] x, {types}[4, 5] w) => ({types}[b, a, 5] y) {{ y = local.Outer (x, w) }}
    <domain: "local", opset_import: ["" : 20, "local" : 1]> Outer (x, w) => (y) {{ y = local.Inner (x, w) }}
    <domain: "local", opset_import: ["" : 20]> Inner (x, w) => (y) {{
        t = Transpose <perm = [1, 0, 2]> (x)  y = MatMul (t, w)
    }}"""
    model = ir.from_proto(onnx.parser.parse_model(text))
    keep_apart(model, {ir.DataType.FLOAT16})
    inner = next(each for each in model.functions.values() if each.name == "Inner")
    kept = ["Max"] if types == "float16" else []
    assert [node.op_type for node in inner] == ["Transpose", *kept, "MatMul"]


def test_functions_that_cast_to_float16() -> None:
    text = """<ir_version: 9, opset_import: ["" : 20, "local" : 1]>
    g (float[a, b, 4] x, float[4, 5] w) => (float[b, a, 5] y) { y = local.F (x, w) }
    <domain: "local", opset_import: ["" : 20]> F (x, w) => (y) {
        h = Cast <to = 10> (x)  v = Cast <to = 10> (w)  t = Transpose <perm = [1, 0, 2]> (h)  m = MatMul (t, v)
        y = Cast <to = 1> (m)
    }"""
    model = ir.from_proto(onnx.parser.parse_model(text))
    keep_apart(model, {ir.DataType.FLOAT16})
    (function,) = model.functions.values()
    assert [node.op_type for node in function] == ["Cast", "Cast", "Transpose", "Max", "MatMul", "Cast"]
