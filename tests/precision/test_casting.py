"""Files: read, cast in processes of their own, compared and written, or refused with nothing written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from precision.conftest import ran

import opbridge
from opbridge.errors import ModelFileError, OpbridgeError, PrecisionError, UsageError
from opbridge.precision import steps

HEAD = '<ir_version: 9, opset_import: ["" : 19]>\n'


def saved(folder: Path, text: str) -> Path:
    """A file of a model as text."""
    path = folder / "model.onnx"
    onnx.save(onnx.parser.parse_model(HEAD + text), path)
    return path


def conv_net(folder: Path) -> Path:
    """A file of a small network, with external data."""
    text = """g (float[n,3,16,16] x) => (float[n,10] y) <float[8,3,3,3] w, float[8] b, float[8,10] v> {
        c = Conv <pads = [1, 1, 1, 1]> (x, w, b)  r = Relu (c)  p = GlobalAveragePool (r)  f = Flatten (p)
        m = MatMul (f, v)  y = Softmax (m)
    }"""
    model = onnx.parser.parse_model(HEAD + text)
    rng = np.random.default_rng(0)
    del model.graph.input[1:]
    for name, shape in (("w", (8, 3, 3, 3)), ("b", (8,)), ("v", (8, 10))):
        array = rng.standard_normal(shape).astype(np.float32) / 4
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    path = folder / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights", size_threshold=100)
    return path


@pytest.mark.slow
def test_a_file_with_external_data(tmp_path: Path) -> None:
    source, target = conv_net(tmp_path), tmp_path / "half.onnx"
    said: list[str] = []
    found = opbridge.cast(source, "float16", target, keep_io=True, progress=said.append)
    assert found.ok and found.runs == 4 and found.error is not None and 0 < found.error < 1e-2
    assert found.cast == 6 and not found.kept and "compute in float16" in found.summary()
    assert said[0] == "running the float32 model" and said[-1] == "comparing"
    assert (found.files[0] == target and len(found.files) == 1) or found.files[1].exists()
    assert found.document()["outputs"][0]["name"] == "y"
    session = onnxruntime.InferenceSession(target, providers=["CPUExecutionProvider"])
    x = np.random.default_rng(1).standard_normal((2, 3, 16, 16)).astype(np.float32)
    want = onnxruntime.InferenceSession(source).run(None, {"x": x})[0]
    (have,) = session.run(None, {"x": x})
    assert have.dtype == np.float32 and np.abs(have - want).max() < 1e-3


@pytest.mark.slow
def test_a_file_may_be_replaced_by_its_cast(tmp_path: Path) -> None:
    path = conv_net(tmp_path)
    opbridge.cast(path, "bfloat16", path)
    assert ir.load(path).graph.inputs[0].dtype == ir.DataType.BFLOAT16


def test_nodes_are_put_back_until_the_tolerance_is_met(cast: Callable[..., opbridge.Narrowed]) -> None:
    text = """g (float[256] x) => (float[256] y, float[256] z) <float k = {3.3}> {
        a = Mul (x, k)  b = Sin (a)  c = Mul (b, k)  d = Tanh (c)  y = Mul (d, k)  z = Neg (d)
    }"""
    loose, tight = cast(HEAD + text, keep_io=True), cast(HEAD + text, keep_io=True, tolerance=4e-4)
    assert not loose.kept and loose.error > 4e-4
    assert tight.kept and tight.cast and tight.error <= 4e-4 < tight.before
    assert {each.kind for each in tight.kept} <= {"error", "output"}
    assert "before nodes were put back to float32" in tight.summary()


def test_inputs_of_the_user(cast: Callable[..., opbridge.Narrowed], tmp_path: Path) -> None:
    text = """g (int64[2] i) => (float[2,2] y) <float[20,2] w> { y = Gather (w, i) }"""
    model = onnx.parser.parse_model(HEAD + text)
    del model.graph.input[1:]
    weight = np.random.default_rng(0).standard_normal((20, 2)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    content = model.SerializeToString()
    np.savez(tmp_path / "inputs.npz", i=np.array([18, 19]))
    assert cast(content, inputs=tmp_path / "inputs.npz").given
    with pytest.raises(UsageError, match="inputs= has 2 arrays"):
        cast(content, inputs=[np.zeros(2), np.zeros(2)])


def test_random_inputs_that_the_model_rejects(cast: Callable[..., Any], tmp_path: Path) -> None:
    text = """g (float[11] x, int64[4] s) => (float[a,b,c,d] y) { r = Relu (x)  y = Reshape (r, s) }"""
    with pytest.raises(PrecisionError, match=r"fails on random inputs.*--inputs FILE.npz"):
        cast(HEAD + text, output=tmp_path / "half.onnx")
    assert not [*tmp_path.iterdir()]


def test_what_exceeds_the_tolerance_is_not_written(
    cast: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps.Work, "search", lambda *_: None)  # a cast that is not right
    text = """g (float[64] x) => (float[64] y) { a = Exp (x)  y = Sin (a) }"""
    with pytest.raises(PrecisionError, match="Nothing was written. Raise the tolerance") as caught:
        cast(HEAD + text, tolerance=1e-6, output=tmp_path / "half.onnx")
    assert caught.value.exit_status == 1 and not caught.value.result.ok and not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("g (int64[2] x) => (int64[2] y) { y = Neg (x) }", "has no float32 values"),
        ("g (float16[2] x) => (float16[2] y) { y = Neg (x) }", "has no float32 values"),
        ("g (float[2] x, int64[2] i) => (bool[2] y, int64[2] j) { y = IsInf (x)  j = Neg (i) }", "nothing to cast"),
    ],
)
def test_models_without_anything_to_cast(cast: Callable[..., Any], tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(OpbridgeError, match=why):
        cast(HEAD + text, output=tmp_path / "half.onnx")
    assert not [*tmp_path.iterdir()]


def test_a_graph_with_a_cycle(cast: Callable[..., Any]) -> None:
    model = onnx.parser.parse_model(HEAD + "g (float[2] x) => (float[2] y) { a = Add (x, x)  y = Neg (a) }")
    model.graph.node[0].input[1] = "y"
    with pytest.raises(ModelFileError, match="cycle"):
        cast(model.SerializeToString())


@pytest.mark.parametrize("name", ["a", "y"])
def test_a_value_that_nothing_gives(cast: Callable[..., Any], name: str) -> None:
    model = onnx.parser.parse_model(HEAD + "g (float[2] x) => (float[2] y) { a = Relu (x)  y = Neg (a) }")
    model.graph.node["ay".index(name)].output[0] = "other"
    with pytest.raises(ModelFileError, match=f"nothing gives .*'{name}'"):
        cast(model.SerializeToString())


def test_a_cycle_through_a_body(cast: Callable[..., Any]) -> None:
    text = """g (float[4] x, bool b) => (float[4] y) {
        y = If (b) <
            then_branch = t () => (float[4] o) { o = Add (x, y) },
            else_branch = e () => (float[4] p) { p = Relu (x) }
        >
    }"""
    with pytest.raises(ModelFileError, match="cycle"):
        cast(onnx.parser.parse_model(HEAD + text).SerializeToString())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("g (float[2] x, float[2] x) => (float[2] y) { y = Relu (x) }", "'x' has been used as graph input names"),
        ("g (float[2] x) => (int64[2] y) { y = Relu (x) }", "Inferred elem type differs"),
        (
            "g (float[2] x) => (float[2] y) { a = Relu (x)  y = my.domain.Foo (a) }",
            "No opset import for domain 'my.domain'",
        ),
        ("g (float[2] x) => (float[2] y) { a = Relu (x)  y = Frobnicate (a) }", "No Op registered for Frobnicate"),
    ],
)
def test_models_that_are_not_valid(cast: Callable[..., Any], tmp_path: Path, text: str, why: str) -> None:
    path = saved(tmp_path, text)
    with pytest.raises(
        ModelFileError, match=f"is not a valid model. ONNX's checker says: .*{why}.* Nothing was written"
    ):
        opbridge.cast(path, "float16", tmp_path / "half.onnx")
    assert [*tmp_path.iterdir()] == [path]


def test_operators_of_a_domain_that_onnxruntime_does_not_have(cast: Callable[..., opbridge.Narrowed]) -> None:
    text = """<ir_version: 9, opset_import: ["" : 19, "my.domain" : 1]>
    g (float[2] x) => (float[2] y) { a = Relu (x)  b = my.domain.Foo (a)  y = Neg (b) }"""
    found = opbridge.cast(onnx.parser.parse_model(text))
    assert not found.runs and "Not compared" in found.summary()
    assert [each.operator for each in found.kept] == ["Foo", "Neg"]  # what Foo gives is not known


def test_a_weight_without_elements(cast: Callable[..., Any]) -> None:
    model = onnx.parser.parse_model(HEAD + "g (float[2] x) => (float[2] y) { y = Add (x, w) }")
    model.graph.initializer.append(onnx.TensorProto(name="w", dims=[10**6, 10**6], data_type=onnx.TensorProto.FLOAT))
    with pytest.raises(
        ModelFileError, match=r"'w' cannot be read \(its sizes are \[1000000, 1000000\], and it has no data\)"
    ):
        cast(model.SerializeToString())


def test_nodes_that_are_not_in_order(cast: Callable[..., opbridge.Narrowed]) -> None:
    model = onnx.parser.parse_model(HEAD + "g (float[2] x) => (float[2] y) { a = Relu (x)  y = Neg (a) }")
    nodes = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend(reversed(nodes))
    assert ran(cast(model.SerializeToString()).model, x=np.ones(2, np.float16))[0].tolist() == [-1, -1]


@pytest.mark.parametrize("content", [b"", b"\x08", b"no model at all", b"\x3a\x05hello"])
def test_files_that_are_damaged(cast: Callable[..., Any], content: bytes) -> None:
    with pytest.raises(OpbridgeError):
        cast(content)


def test_external_data_that_are_missing(cast: Callable[..., Any], tmp_path: Path) -> None:
    path = conv_net(tmp_path)
    (tmp_path / "weights").unlink()
    with pytest.raises(ModelFileError, match="weight"):
        opbridge.cast(path, "float16", tmp_path / "half.onnx")
    assert not (tmp_path / "half.onnx").exists()


def test_arguments(cast: Callable[..., Any]) -> None:
    text = HEAD + "g (float[2] x) => (float[2] y) { y = Neg (x) }"
    with pytest.raises(UsageError, match="'int8' is not supported. Use float16 or bfloat16."):
        cast(text, "int8")
    with pytest.raises(UsageError, match="tolerance=-1"):
        cast(text, tolerance=-1)
    assert cast(text, "fp16").precision == "float16"


@pytest.mark.slow
@pytest.mark.parametrize("to", ["float16", "bfloat16"])
def test_inputs_and_outputs_of_bfloat16(tmp_path: Path, to: str) -> None:
    """NumPy has no bfloat16; a file of inputs has its bits."""
    path = saved(
        tmp_path,
        """g (bfloat16[4,8] x) => (float[4,8] y, bfloat16[4,8] z) <float k = {0.3}> {
            a = Cast <to = 1> (x)  b = Mul (a, k)  y = Sin (b)  z = Cast <to = 16> (y)
        }""",
    )
    x = np.random.default_rng(0).standard_normal((4, 8)).astype(ml_dtypes.bfloat16)
    np.savez(tmp_path / "inputs.npz", x=x)
    for inputs in (None, [x], [x.astype(np.float32)], tmp_path / "inputs.npz"):
        found = opbridge.cast(path, to, inputs=inputs)
        assert found.ok and found.runs == 1 and found.error is not None and 0 < found.error < 1e-2
        assert not found.kept and [each.dtype.name for each in found.model.graph.inputs] == ["BFLOAT16"]


@pytest.mark.slow
def test_inputs_of_a_type_that_onnxruntime_does_not_have(tmp_path: Path) -> None:
    path = saved(tmp_path, "g (float[2] x) => (float[2] y) { y = Neg (x) }")
    with pytest.raises(UsageError, match="An array of <U1 cannot be given to ONNX Runtime"):
        opbridge.cast(path, "float16", inputs=[np.array(["a", "b"])])


def test_nodes_of_other_domains_are_measured(cast: Callable[..., opbridge.Narrowed]) -> None:
    """Of a fused form, too, the values are known, and what it loses."""
    skip = "y = com.microsoft.SkipSimplifiedLayerNormalization (x, x, g)"
    text = f"""<ir_version: 9, opset_import: ["" : 20, "com.microsoft" : 1]>
    g (float[2,3,4] x) => (float[2,3,4] z) <float[4] g = {{1, 2, 3, 4}}> {{ {skip}  z = Exp (y) }}"""
    result = cast(text)
    assert result.ok and result.runs and not result.note and not result.kept
