"""What ONNX Runtime's optimiser makes of a model: found where the model does not load, and repaired."""

from __future__ import annotations

import subprocess
import sys

import onnx
import onnxruntime
import pytest
from helpers.repairs import fix, model

import opbridge

HEAD = "(float[2] x, float[2] w) => (float[2] y)"
ONE = "one = Constant <value = float {1}> ()"

LOST = {
    "Cast": f"{HEAD} {{ {ONE} m = Cast <to = 1> (x) r = Div (one, w) y = Mul (m, r) }}",
    "Identity": f"{HEAD} {{ {ONE} m = Identity (x) r = Div (one, w) y = Mul (r, m) }}",
    "Dropout": f"{HEAD} {{ {ONE} m = Dropout (x) r = Div (one, w) y = Mul (m, r) }}",
    "two copies": f"{HEAD} {{ {ONE} a = Identity (x) m = Identity (a) r = Div (one, w) y = Mul (m, r) }}",
    "one in a list": (
        f"{HEAD} {{ one = Constant <value_floats = [1.0]> () m = Identity (x) r = Div (one, w) y = Mul (m, r) }}"
    ),
    "integers": (
        "(int64[2] x, int64[2] w) => (int64[2] y)"
        " { one = Constant <value = int64 {1}> () m = Identity (x) r = Div (one, w) y = Mul (m, r) }"
    ),
}
KEPT = {
    "no copy": f"{HEAD} {{ {ONE} r = Div (one, w) y = Mul (x, r) }}",
    "another type": f"{HEAD} {{ {ONE} n = Cast <to = 7> (x) m = Cast <to = 1> (n) r = Div (one, w) y = Mul (m, r) }}",
    "a copy that is an output": (
        f"(float[2] x, float[2] w) => (float[2] y, float[2] m)"
        f" {{ {ONE} m = Identity (x) r = Div (one, w) y = Mul (m, r) }}"
    ),
    "a quotient of two readers": f"{HEAD} {{ {ONE} m = Identity (x) r = Div (one, w) q = Mul (m, r) y = Add (q, r) }}",
    "the division first": f"{HEAD} {{ {ONE} r = Div (one, w) m = Identity (x) y = Mul (m, r) }}",
    "two over x": (
        f"{HEAD} {{ two = Constant <value_float = 2.0> () m = Identity (x) r = Div (two, w) y = Mul (m, r) }}"
    ),
    "a ratio": (
        f"{HEAD} {{ {ONE} h = Constant <value = float {{0.5}}> () m = Dropout (x, h) r = Div (one, w) y = Mul (m, r) }}"
    ),
    "float16": (
        "(float16[2] x, float16[2] w) => (float16[2] y)"
        " { one = Constant <value = float16 {1}> () m = Identity (x) r = Div (one, w) y = Mul (m, r) }"
    ),
}


def _loads(content: bytes) -> bool:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception:
        return False
    return True


@pytest.mark.parametrize("text", LOST.values(), ids=LOST)
def test_a_factor_that_is_lost_is_found_and_repaired(text):
    made = model(text)
    assert not _loads(made.SerializeToString())
    assert [each.rule for each in opbridge.lint(made.SerializeToString(), "onnxruntime")] == ["reciprocal-factor"]
    fixed = fix(made, "onnxruntime")
    assert not fixed.left and _loads(fixed.content) and fixed.comparison.ok and fixed.comparison.largest == 0
    assert [each.op_type for each in fixed.model.graph] == ["Constant", "Div", "Mul"]


@pytest.mark.parametrize("text", KEPT.values(), ids=KEPT)
def test_what_loads_is_not_found(text):
    made = model(text)
    assert _loads(made.SerializeToString())
    assert not list(opbridge.lint(made.SerializeToString(), "onnxruntime", select=["reciprocal-factor"]))


def test_other_releases_have_it_by_the_report():
    content = model(LOST["Cast"]).SerializeToString()
    assert [each.rule for each in opbridge.lint(content, "onnxruntime:1.30")] == ["reciprocal-factor"]
    assert not list(opbridge.lint(content, "onnxruntime:1.20"))


LOAD = "import onnxruntime, sys; onnxruntime.InferenceSession(sys.argv[1], providers=['CPUExecutionProvider'])"

TRANSPOSED = {
    "a Cast": (
        "(int64[a, b, 4] x, float[4, 5] w) => (float[b, a, 5] y)"
        " { t = Transpose <perm = [1, 0, 2]> (x) c = Cast <to = 1> (t) y = MatMul (c, w) }"
    ),
    "a Cast of ONNX Runtime's own": (
        "(float16[a, b, 4] x, float16[4, 5] w) => (float16[b, a, 5] y)"
        " { t = Transpose <perm = [1, 0, 2]> (x) y = MatMul (t, w) }"
    ),
}

IN_A_FUNCTION = """<ir_version: 9, opset_import: ["" : 20, "local" : 1]>
g (float16[a, b, 4] x, float16[4, 5] w) => (float16[b, a, 5] y) { y = local.Outer (x, w) }
<domain: "local", opset_import: ["" : 20, "local" : 1]> Outer (x, w) => (y) { y = local.Inner (x, w) }
<domain: "local", opset_import: ["" : 20]> Inner (x, w) => (y) {
    t = Transpose <perm = [1, 0, 2]> (x)
    y = MatMul (t, w)
}"""


def test_a_cast_in_a_function_is_found_and_repaired(tmp_path):
    made = onnx.parser.parse_model(IN_A_FUNCTION)
    (found,) = [
        each for each in opbridge.lint(made.SerializeToString(), "onnxruntime") if each.rule == "transposed-cast"
    ]
    assert "ONNX Runtime's own" in found.message
    fixed = fix(made, "onnxruntime")
    assert not fixed.left and fixed.comparison.ok and fixed.comparison.largest == 0
    path = tmp_path / "fixed.onnx"
    path.write_bytes(fixed.content)
    subprocess.run([sys.executable, "-c", LOAD, str(path)], check=True, timeout=120)
    wide = onnx.parser.parse_model(IN_A_FUNCTION.replace("float16", "float"))
    assert not list(opbridge.lint(wide.SerializeToString(), "onnxruntime"))


@pytest.mark.parametrize("through", TRANSPOSED)
def test_a_cast_behind_a_transpose_is_found_and_repaired(through, tmp_path):
    made = model(TRANSPOSED[through])
    (found,) = opbridge.lint(made.SerializeToString(), "onnxruntime")
    assert (found.rule, found.severity, through in found.message) == ("transposed-cast", "error", True)
    fixed = fix(made, "onnxruntime")
    assert not fixed.left and fixed.comparison.ok and fixed.comparison.largest == 0
    path = tmp_path / "fixed.onnx"
    path.write_bytes(fixed.content)
    subprocess.run([sys.executable, "-c", LOAD, str(path)], check=True, timeout=120)
    assert [each.rule for each in opbridge.lint(made.SerializeToString(), "onnxruntime:1.27")] == ["transposed-cast"]
