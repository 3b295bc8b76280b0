"""Files with types that ONNX Runtime has no CPU kernels for: they run in wider ones."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest

import opbridge
from opbridge.errors import ModelFileError

_TEXT = (
    "(float[n, 2] x) => (float[n, 3] y)"
    " {{ b = Cast <to = 16> (x) m = MatMul (b, w) z = {last} (m) y = Cast <to = 1> (z) }}"
)


def _model(last: str = "Relu", opset: int = 22) -> onnx.ModelProto:
    head = f'<ir_version: 10, opset_import: ["" : {opset}]> g '
    made = onnx.parser.parse_model(head + _TEXT.format(last=last))
    weight = np.array([[1, -2, 0.5], [3, 0.25, -1]]).astype(ml_dtypes.bfloat16)
    made.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    return made


def _run(session) -> np.ndarray:
    (result,) = session.run(["y"], {"x": np.array([[1, 2], [-1, 0.5]], np.float32)})
    return result


_EXPECTED = [[7, 0, 0], [0.5, 2.125, 0]]


@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize("external", [False, True])
def test_a_file_of_bfloat16_runs(isolated, external, tmp_path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(_model(), path, save_as_external_data=external, location="weights", size_threshold=0)
    before = path.read_bytes()
    session = opbridge.session(path, isolated=isolated)
    np.testing.assert_array_equal(_run(session), _EXPECTED)
    assert session.note.startswith("2 nodes of bfloat16 were run in float32, because onnxruntime")
    assert path.read_bytes() == before


def test_a_model_in_memory_runs() -> None:
    np.testing.assert_array_equal(_run(opbridge.session(_model().SerializeToString())), _EXPECTED)


def test_what_lacks_a_kernel_for_another_reason_is_refused() -> None:
    with pytest.raises(ModelFileError):
        opbridge.session(_model("NoSuchOperator").SerializeToString())
    made = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> g (double[2] x) => (double[2] y) { y = Gelu (x) }'
    )
    with pytest.raises(ModelFileError):
        opbridge.session(made.SerializeToString())


def test_a_file_of_narrow_integers_runs() -> None:
    made = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> g (int16[2] x, uint16[2] z) => (int16[2] y, uint16[2] w)'
        " { y = Relu (x) w = Max (z, z) }"
    )
    session = opbridge.session(made.SerializeToString())
    found = session.run(None, {"x": np.array([-1, 300], np.int16), "z": np.array([1, 60000], np.uint16)})
    assert [each.tolist() for each in found] == [[0, 300], [1, 60000]]
    assert [each.dtype.name for each in found] == ["int16", "uint16"]
    assert session.note.startswith("2 nodes of int16, uint16 were run in wider integers, because onnxruntime")


def test_a_file_of_both_says_which_ran_how() -> None:
    made = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> g (int16[2] x, float[2] z) => (int16[2] y, float[2] w)'
        " { y = Relu (x) b = Cast <to = 16> (z) r = Relu (b) w = Cast <to = 1> (r) }"
    )
    note = opbridge.session(made.SerializeToString()).note
    assert note.startswith(
        "1 node of bfloat16 was run in float32 and 1 node of int16 was run in wider integers, because"
    )


def test_other_sessions_have_no_note() -> None:
    made = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (float[2] y) { y = Neg (x) }'
    )
    assert opbridge.session(made.SerializeToString()).note == ""


def test_functions_of_a_model() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21, "my" : 1]>
    g (float[2] x) => (float[2] y) { b = Cast <to = 16> (x)  z = my.F (b, b)  y = Cast <to = 1> (z) }
    <domain: "my", opset_import: ["" : 21]> F (a, b) => (o) { m = Add (a, b)  o = Relu (m) }"""
    session = opbridge.session(onnx.parser.parse_model(text).SerializeToString())
    assert session.run(None, {"x": np.array([1, -2], np.float32)})[0].tolist() == [2, 0]
