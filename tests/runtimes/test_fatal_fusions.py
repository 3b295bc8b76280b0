"""Files on which an optimisation of ONNX Runtime ends the process: opbridge loads them without it."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc

import numpy as np
import onnx
import pytest

import opbridge
from opbridge.onnx.wire import varint
from opbridge.runtimes.onnxruntime.fatal_fusions import fatal_optimisations

_FUSION = ["MatmulTransposeFusion"]


def _content(text: str, functions: str = "") -> bytes:
    imports = '"" : 20, "own" : 1' if functions else '"" : 20'
    return onnx.parser.parse_model(
        f"<ir_version: 9, opset_import: [{imports}]> g {text}{functions}"
    ).SerializeToString()


HALF = "(float16[a, b, 4] x, float16[4, 5] w) => (float16[b, a, 5] y) { t = Transpose <perm = [1, 0, 2]> (x) "
HALF += "y = MatMul (t, w) }"
WEIGHT = "(float[a, b, 2] x) => (float[b, a, 1] y) <float16[2, 1] w = {1, 2}> { c = Cast <to = 10> (x) "
WEIGHT += "t = Transpose <perm = [1, 0, 2]> (c) p = MatMul (t, w) y = Cast <to = 1> (p) }"
CAST = HALF.replace("float16[a", "int64[a").replace("float16", "float").replace("(t, w)", "(c, w)")
CAST = CAST.replace(" y =", " c = Cast <to = 1> (t) y =")
BFLOAT16 = HALF.replace("float16", "bfloat16")
REVERSED = HALF.replace(" <perm = [1, 0, 2]>", "")
FLOAT = HALF.replace("float16", "float")
KEPT = HALF.replace("[1, 0, 2]", "[0, 2, 1]")
FUNCTION = '<domain: "own", opset_import: ["" : 20]> f (x, w) => (y) { t = Transpose <perm = [1, 0, 2]> (x) '
FUNCTION += "y = MatMul (t, w) }"


@pytest.mark.parametrize(
    "text", [HALF, BFLOAT16, WEIGHT, CAST, REVERSED], ids=["inputs", "bfloat16", "weight", "cast", "reversed"]
)
def test_the_fusion_is_left_out(text, tmp_path) -> None:
    content = _content(text)
    assert fatal_optimisations(content) == _FUSION
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    assert fatal_optimisations(str(path)) == _FUSION


@pytest.mark.parametrize("text", [FLOAT, KEPT], ids=["float32", "first dimension kept"])
def test_the_fusion_stays(text) -> None:
    assert fatal_optimisations(_content(text)) == []


def test_nodes_of_functions_and_of_bodies_count() -> None:
    call = "(float16[a, b, 4] x, float16[4, 5] w) => (float16[b, a, 5] y) { y = own.f (x, w) }\n"
    assert fatal_optimisations(_content(call, FUNCTION)) == _FUSION
    branch = "t = Transpose <perm = [1, 0, 2]> (x) z = MatMul (t, w)"
    text = "(float16[a, b, 4] x, float16[4, 5] w, bool c) => (float16[b, a, 5] y) { y = If (c) <then_branch = one () "
    text += f"=> (float16[b, a, 5] z) {{ {branch} }}, else_branch = two () => (float16[b, a, 5] z) {{ {branch} }}> }}"
    assert fatal_optimisations(_content(text)) == _FUSION


@pytest.mark.parametrize("content", [b"", b"\x00\x01", b"\x3a\xff\xff\xff\xff\x0f", _content(HALF)[:-9]], ids=repr)
def test_damaged_files_have_none_or_are_read_as_far_as_they_go(content) -> None:
    assert fatal_optimisations(content) in ([], _FUSION)


@pytest.mark.slow
def test_a_file_of_millions_of_empty_fields_is_not_read_by_hand() -> None:
    attribute = b"\x2a" + varint(6_000_000) + b"\x42\x00" * 3_000_000
    node = b"\x22\x09Transpose" + attribute
    body = b"\x0a" + varint(len(node)) + node + b"\x0a\x00" * 3_000_000
    content = b"\x3a" + varint(len(body)) + body
    tracemalloc.start()
    assert fatal_optimisations(content) == _FUSION
    assert tracemalloc.get_traced_memory()[1] < 4 * len(content)
    tracemalloc.stop()


@pytest.mark.parametrize("text", [HALF, CAST, REVERSED.replace("a, b, 4", "a, b, n")], ids=["half", "cast", "reversed"])
def test_a_process_that_loads_and_runs_the_file_goes_on(text, tmp_path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(_content(text))
    dtype = "numpy.int64" if text is CAST else "numpy.float16"
    shape = (4, 3, 2) if "perm" not in text else (2, 3, 4)
    code = (
        "import numpy, opbridge, sys\n"
        "session = opbridge.session(sys.argv[1])\n"
        f"x = numpy.arange(24).reshape({shape}).astype({dtype})\n"
        f"w = numpy.ones((4, 5), {'numpy.float32' if text is CAST else 'numpy.float16'})\n"
        "print(session.run(None, {'x': x, 'w': w})[0].shape)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.strip()) == (0, "(3, 2, 5)" if "perm" in text else "(2, 3, 5)"), done.stderr


def test_the_numbers_are_those_of_the_file() -> None:
    x = np.random.default_rng(3).integers(-3, 4, (2, 3, 4))
    w = np.random.default_rng(4).integers(-3, 4, (4, 5))
    (half,) = opbridge.session(_content(HALF)).run(None, {"x": x.astype(np.float16), "w": w.astype(np.float16)})
    np.testing.assert_array_equal(half, x.transpose(1, 0, 2) @ w)
