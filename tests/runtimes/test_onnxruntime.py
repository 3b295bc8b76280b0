from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from opbridge import runtimes
from opbridge.errors import ModelFileError, UsageError
from opbridge.runtimes import onnxruntime as runtime

ROOT = Path(__file__).parents[2]


def content(
    nodes: str, *, opset: str = '"" : 20', x: str = "float[2]", y: str = "float[2]", ir_version: int = 10
) -> bytes:
    text = f"<ir_version: {ir_version}, opset_import: [{opset}]> g ({x} x) => ({y} y) {{ {nodes} }}"
    return onnx.parser.parse_model(text).SerializeToString()


RELU = content("y = Relu(x)")


def refusal(model: bytes | str | Path, **arguments: object) -> str:
    with pytest.raises(ModelFileError) as caught:
        runtime.session(model, **arguments)
    message = str(caught.value)
    assert "\n" not in message
    assert "[ONNXRuntimeError]" not in message
    assert "/onnxruntime_src" not in message
    return message


def test_a_model_runs_from_a_file_and_from_bytes(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(RELU)
    x = np.array([-1, 2], np.float32)
    for model in (path, str(path), RELU, bytearray(RELU)):
        session: runtimes.Session = runtime.session(model)
        assert session.run(None, {"x": x})[0].tolist() == [0, 2]


def test_options_threads_and_providers():
    session = runtime.session(RELU, threads=1)
    assert session.get_session_options().intra_op_num_threads == 1
    assert session.get_providers() == ["CPUExecutionProvider"]
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.session(RELU, options=options, threads=2, providers=[("CPUExecutionProvider", {})])
    found = session.get_session_options()
    assert found.graph_optimization_level == onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    assert found.intra_op_num_threads == 2
    assert runtime.session(RELU, providers="CPUExecutionProvider").get_providers() == ["CPUExecutionProvider"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"path_or_bytes": 5}, "ONNX file, got int"),
        ({"path_or_bytes": RELU, "threads": -1}, "Invalid value threads=-1"),
        (
            {"path_or_bytes": RELU, "providers": ["NoSuchProvider"]},
            r"no execution provider 'NoSuchProvider', only .*CPU",
        ),
    ],
)
def test_wrong_arguments(arguments, words):
    with pytest.raises(UsageError, match=words):
        runtime.session(**arguments)


# Files that are not models


def test_a_file_that_is_not_there(tmp_path):
    assert f"The file {tmp_path}/m.onnx does not exist." in refusal(tmp_path / "m.onnx")


def test_a_folder(tmp_path):
    assert refusal(tmp_path).startswith(f"{tmp_path} is a folder. Give the path of the ONNX file")


@pytest.mark.parametrize("path", ["a\0b", "m" * 300])
def test_a_path_that_cannot_be(path):
    assert "cannot be read" in refusal(path)


DAMAGE = {
    "empty": (b"", "is empty"),
    "text": (b"hello, this is no model\n" * 20, "it is not an ONNX file or is damaged"),
    "image": (b"\x89PNG\r\n\x1a\n" + bytes(100), "it is not an ONNX file or is damaged"),
    "checkpoint": (b"PK\x03\x04" + bytes(100), "zip archive, possibly a PyTorch checkpoint"),
    "pointer": (b"version of the git-lfs specification\noid sha256:0\nsize 5\n", "git lfs pull"),
    "cut off": (RELU[:-40], "it is truncated; at least 34 bytes are missing"),
    "cut off early": (RELU[:1], "it is not an ONNX file or is damaged"),
    "no graph": (b"\x08\x0a", "it is not an ONNX file or is damaged"),
    "overwritten": (RELU[:20] + b"\xff" * 12 + RELU[32:], "it is not an ONNX file or is damaged"),
}


@pytest.mark.parametrize(("damaged", "words"), DAMAGE.values(), ids=list(DAMAGE))
def test_a_damaged_file(tmp_path, damaged, words):
    path = tmp_path / "m.onnx"
    path.write_bytes(damaged)
    message = refusal(path)
    assert message.startswith(str(path))
    assert words in message
    if damaged:
        assert refusal(damaged) == message.replace(str(path), "The model in memory")


def test_every_truncation_of_a_model_is_refused(tmp_path):
    model = content("h = Relu(x) y = Add(h, x)")
    for length in range(1, len(model), 7):
        refusal(model[:length])


# Models that ONNX Runtime refuses


REFUSED = {
    "unknown domain": (
        content("y = mine.Foo(x)", opset='"" : 20, "mine" : 1'),
        ["requires the operator mine::Foo", "register_custom_ops_library", "another route"],
    ),
    "unknown torch operator": (
        content("y = Identity(x)").replace(b"Identity", b"aten::fo"),
        ["uses the operator aten::fo, which is unknown to ONNX Runtime"],
    ),
    "no domain declared": (content("y = mine.Foo(x)"), ["uses the operator mine::Foo", "no entry for 'mine'"]),
    "newer operator": (
        content("y = Gelu(x)", opset='"" : 18'),
        ["has opset 18", "operator Gelu", "added to ONNX in opset 20", "opset_version=20 or higher"],
    ),
    "older operator": (content("y = Upsample(x)", opset='"" : 18'), ["Upsample, which was removed from ONNX"]),
    "no kernel for the type": (
        content("y = Erf(x)", x="double[2]", y="double[2]"),
        ["operator Erf", "with types for which ONNX Runtime", "T: tensor(float)"],
    ),
    "no kernel for the opset": (
        content(
            "r = Constant <value = float[1,4] {0,0,1,1}> () i = Constant <value = int64[1] {0}> ()"
            "y = RoiAlign(x, r, i)",
            opset='"" : 22',
            x="float[1,1,4,4]",
            y="float[N,C,H,W]",
        ),
        [
            "operator RoiAlign",
            "in its version of opset 22",
            "kernels for it only up to opset 21",
            "opset_version=21 or lower",
        ],
    ),
    "no kernel on the CPU": (
        content(
            "g = Constant <value = float[2] {1,1}> () y = com.microsoft.GroupNorm <groups=1, activation=0> (x, g, g)",
            opset='"" : 20, "com.microsoft" : 1',
            x="float16[1,4,4,2]",
            y="float16[1,4,4,2]",
        ),
        ["operator GroupNorm", "has no kernel on the CPU", "Register the shared library"],
    ),
    "impossible shape": (
        content("y = MaxRoiPool <pooled_shape = [1, 1]> (x, x)", x="float[N,C]", y="float[N,C]"),
        ["Op (MaxRoiPool) [ShapeInferenceError]"],
    ),
    "newer opset": (content("y = Relu(x)", opset='"" : 99'), ["has opset 99", "supports up to opset"]),
    "newer IR version": (content("y = Relu(x)", ir_version=99), ["IR version 99", "supports up to"]),
    "wrong type": (
        content("y = And(x, x)"),
        ["cannot load the model in", "input parameter (x) of operator (And)"],
    ),
    "undefined value": (
        RELU.replace(b"\x0a\x01x\x12\x01y\x22\x04Relu", b"\x0a\x01q\x12\x01y\x22\x04Relu"),
        ["Node input 'q' is not a graph input"],
    ),
}


@pytest.mark.parametrize(("model", "words"), REFUSED.values(), ids=list(REFUSED))
def test_a_model_that_onnxruntime_refuses(model, words, capfd):
    message = refusal(model)
    for part in words:
        assert part in message
    assert message.startswith(("The model in memory ", "ONNX Runtime "))
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_the_node_without_a_kernel_is_named():
    proto = onnx.ModelProto.FromString(content("y = Erf(x)", x="double[2]", y="double[2]"))
    proto.graph.node[0].name = "encoder/erf"
    assert "operator Erf (node 'encoder/erf') with types" in refusal(proto.SerializeToString())


def with_weights_beside(folder: Path) -> Path:
    from opbridge.save.writer import save

    value = ir.Value(name="w", const_value=ir.tensor(np.arange(1000, dtype=np.float32), name="w"))
    node = ir.node("Identity", [value])
    node.outputs[0].name, node.outputs[0].type = "y", ir.TensorType(ir.DataType.FLOAT)
    graph = ir.Graph([], node.outputs, nodes=[node], initializers=[value], name="g", opset_imports={"": 20})
    save(ir.Model(graph, ir_version=10), folder / "m.onnx", external_data=True)
    return folder / "m.onnx"


def test_weights_that_were_left_behind(tmp_path):
    path = with_weights_beside(tmp_path)
    assert runtime.session(path).run(None, {})[0][-1] == 999
    [weights] = tmp_path.glob("m.onnx.*.data")
    whole = weights.read_bytes()
    weights.write_bytes(whole[:100])
    assert "is too short for the weight w" in refusal(path)
    weights.unlink()
    assert f"in the file {weights.name}, which is not beside it. Copy" in refusal(path)
    assert f"{weights.name}, which is not in the working directory" in refusal(path.read_bytes())


@pytest.mark.slow
def test_it_needs_neither_torch_nor_onnx(tmp_path):
    path = with_weights_beside(tmp_path)
    code = """
        import sys
        for name in ("torch", "onnx", "onnx_ir", "onnxscript", "google.protobuf"):
            sys.modules[name] = None  # importing it raises ImportError
        from opbridge.runtimes import onnxruntime as runtime
        print(runtime.session(sys.argv[1]).run(None, {})[0][-1], runtime.newest_opset(), len(runtime.cpu_kernels()))
        try:
            runtime.session(sys.argv[2])
        except Exception as error:
            print(type(error).__name__)
    """
    out = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(path), str(next(tmp_path.glob("*.data")))],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
    ).stdout.splitlines()
    assert out == [f"999.0 {runtime.newest_opset()} {len(runtime.cpu_kernels())}", "ModelFileError"]


# What it has kernels for


def test_the_newest_opset_loads_and_the_next_does_not():
    newest = runtime.newest_opset()
    assert runtime.session(content("y = Relu(x)", opset=f'"" : {newest}'))
    assert f"up to opset {newest}" in refusal(content("y = Relu(x)", opset=f'"" : {newest + 1}'))


def test_domains_are_kept_apart():
    standard, microsoft = runtime.cpu_kernels(), runtime.cpu_kernels("com.microsoft")
    assert {"Conv", "MatMul", "RoiAlign"} <= set(standard)
    assert {"FusedConv", "Pad", "BiasGelu"} <= set(microsoft)
    assert "BiasGelu" not in standard
    assert "Conv" not in microsoft
    assert runtime.cpu_kernels() is standard
    assert not runtime.cpu_kernels("no.such.domain")


def test_kernels_name_their_types():
    types = {name for kernel in runtime.cpu_kernels()["NonZero"] if kernel.until >= 20 for name in kernel.types["T"]}
    assert {"tensor(float)", "tensor(int64)", "tensor(bool)"} <= types
    assert "tensor(int16)" not in types


UNARY = ["Abs", "Acos", "Atanh", "Celu", "Ceil", "Cos", "Elu", "Erf", "GlobalLpPool", "HardSigmoid", "Log", "Round"]


@pytest.mark.parametrize("name", [*UNARY, "Selu", "Softplus", "ThresholdedRelu"])
def test_what_it_says_about_opsets_and_types_is_what_happens(name):
    """A session for each opset and type: it loads exactly where a kernel is said to be."""
    for opset in (13, 18, 21, 22, runtime.newest_opset()):
        for kind in ("float", "double", "float16", "int16"):
            said = any(
                kernel.since <= opset <= kernel.until and f"tensor({kind})" in kernel.types["T"]
                for kernel in runtime.cpu_kernels()[name]
            )
            shape = "[1,1,2,2]"
            model = content(f"y = {name}(x)", opset=f'"" : {opset}', x=kind + shape, y=f"{kind}[A,B,C,D]")
            options = onnxruntime.SessionOptions()
            options.log_severity_level = 4
            try:
                onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
                loads = True
            except Exception:
                loads = False
            # float16 is computed in float32 where it has no kernel, and ONNX's functions are taken apart.
            assert loads or not said, (name, opset, kind)
            if kind != "float16" and not onnx.defs.get_schema(name, opset).has_function:
                assert loads == said, (name, opset, kind)
