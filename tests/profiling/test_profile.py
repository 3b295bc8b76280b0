"""`opbridge.profile`, from a file to the times."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

import opbridge


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8)
        self.head = torch.nn.Linear(8, 4)

    def forward(self, x):
        x = self.norm(self.conv(x)).relu()
        return self.head(x.mean((2, 3)))


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    path = tmp_path_factory.mktemp("profile") / "net.onnx"
    model, args = Net().eval(), (torch.randn(2, 3, 16, 16),)
    opbridge.export(model, args, path, dynamic_shapes=({0: "n"},), verify=False)
    return path, model, args


def with_a_loop(folder):
    """A Loop that runs three times, a function, and no names."""
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Mul", ["v", "half"], ["w"]), helper.make_node("Identity", ["c"], ["d"])],
        "body",
        [value("i", TensorProto.INT64, []), value("c", TensorProto.BOOL, []), value("v", TensorProto.FLOAT, [None])],
        [value("d", TensorProto.BOOL, []), value("w", TensorProto.FLOAT, [None])],
    )
    opset = [helper.make_opsetid("", 18), helper.make_opsetid("my", 1)]
    sine = helper.make_function("my", "F", ["a"], ["b"], [helper.make_node("Sin", ["a"], ["b"])], opset[:1])
    graph = helper.make_graph(
        [
            helper.make_node("Loop", ["n", "", "x"], ["y"], body=body),
            helper.make_node("F", ["y"], ["z"], domain="my"),
        ],
        "g",
        [value("x", TensorProto.FLOAT, ["size"])],
        [value("z", TensorProto.FLOAT, [None])],
        [helper.make_tensor("n", TensorProto.INT64, [], [3]), helper.make_tensor("half", TensorProto.FLOAT, [], [0.5])],
    )
    path = folder / "loop.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opset, functions=[sine], ir_version=10), path)
    return path


@pytest.mark.slow
def test_a_file_beside_its_model(exported, tmp_path):
    path, model, args = exported
    found = opbridge.profile(path, model, args, runs=3, warmup=1, threads=1, html=tmp_path / "page.html")
    assert found.runs == 3 and found.plain > 0 and found.torch is not None
    line = next(row for row in found.rows("line") if "relu" in row.code)
    assert line.torch > 0 and line.milliseconds > 0
    convolution = next(each for each in found.kernels if each.operator.endswith("Conv"))
    assert [node.operator for node in convolution.of if node.operator == "Conv"] == ["Conv"]
    assert {"conv", "norm"} <= {node.module for node in convolution.of}
    assert sum(row.share for row in found.rows("operator")) == pytest.approx(1.0)
    document = json.loads(json.dumps(found.document()))
    assert document["kernels_ms"] == pytest.approx(sum(each["ms"] for each in document["nodes"]))
    assert "net.onnx" in (tmp_path / "page.html").read_text()


@pytest.mark.slow
def test_bodies_count_for_themselves_and_functions_for_their_call(tmp_path):
    found = opbridge.profile(with_a_loop(tmp_path), sizes={"size": 50_000}, runs=3, warmup=1, threads=1)
    by_operator = {each.operator: each for each in found.kernels}
    loop, product = by_operator["Loop"], by_operator["Mul"]
    assert (loop.calls, product.calls, product.holder) == (1, 3, loop.name)
    inside = sum(each.milliseconds for each in found.kernels if each.holder == loop.name)
    assert loop.milliseconds == pytest.approx(max(loop.total - inside, 0.0))
    assert [node.operator for node in by_operator["Sin"].of] == ["my::F"]
    assert found.sizes == {"size": 50_000} and found.usual == "module"


@pytest.mark.slow
def test_float16_on_the_cpu_has_casts_that_are_named(tmp_path):
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, [64]) for name in ("x", "y")]
    nodes = [helper.make_node("Erf", ["x"], ["e"], name="erf"), helper.make_node("Sin", ["e"], ["y"], name="sin")]
    model = helper.make_model(
        helper.make_graph(nodes, "g", value[:1], value[1:]), opset_imports=[helper.make_opsetid("", 18)], ir_version=10
    )
    found = opbridge.profile(model.SerializeToString(), runs=3, warmup=1, threads=1)
    casts = [each for each in found.kernels if each.kind == "inserted Cast"]
    assert casts and all(each.near is not None for each in casts)
    assert any(each.what == "inserted Cast" and each.nodes == len(casts) for each in found.own())


@pytest.mark.slow
def test_inputs_of_the_users_own(exported, tmp_path):
    path, _, args = exported
    np.savez(tmp_path / "inputs.npz", x=args[0].numpy())
    found = opbridge.profile(path, inputs=tmp_path / "inputs.npz", runs=1, warmup=0, threads=1)
    assert found.shapes == {"x": [2, 3, 16, 16]} and found.sizes == {}


@pytest.mark.slow
def test_a_model_that_the_file_was_not_exported_from(exported):
    path, _, args = exported
    with pytest.raises(opbridge.UsageError, match="its input 'x' is float32"):
        opbridge.profile(path, Net().eval(), args[0].double())
    found = opbridge.profile(path, lambda x: x.sin().mean((2, 3)), args, runs=1, warmup=0, threads=1)
    assert any("PyTorch ran none of the source lines" in each for each in found.document()["notes"])


@pytest.mark.slow
def test_missing_external_data_is_said_with_its_folder(tmp_path):
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 4]) for name in ("x", "y")]
    weight = onnx.numpy_helper.from_array(np.ones((4, 4), np.float32), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", value[:1], value[1:], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    path = tmp_path / "net.onnx"
    onnx.save(model, path, save_as_external_data=True, location="net.data", size_threshold=0)
    assert opbridge.profile(path, runs=1, warmup=0, threads=1).kernels  # the node had no name: it is loaded from memory
    (tmp_path / "net.data").unlink()
    with pytest.raises(opbridge.ModelFileError, match=rf"{path} .*net.data, which is not in the folder {tmp_path}"):
        opbridge.profile(path)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"runs": 0}, "runs=0 is invalid; expected 1 or more"),
        ({"warmup": -1}, "warmup=-1 is invalid; expected 0 or more"),
        ({"args": (1,)}, "valid only with a model"),
        ({"model": len, "sizes": {"n": 1}}, "sizes= is valid only without a model"),
        ({"inputs": [1], "sizes": {"n": 1}}, "sizes= is valid only for random inputs"),
        ({"runtime": "openvino"}, "The runtime 'openvino' has no profiler that opbridge reads. .* onnxruntime, cuda"),
        ({"runtime": "onnx"}, "Unknown runtime 'onnx'"),
        ({"html": "no/such/page.html"}, "The folder no/such does not exist"),
    ],
)
def test_wrong_use_is_an_error_before_anything_runs(tmp_path, options, message):
    with pytest.raises(opbridge.UsageError, match=message):
        opbridge.profile(with_a_loop(tmp_path), **options)


def test_files_that_are_none(tmp_path):
    with pytest.raises(opbridge.ModelFileError, match="does not exist"):
        opbridge.profile(tmp_path / "none.onnx")
    (tmp_path / "cut.onnx").write_bytes(with_a_loop(tmp_path).read_bytes()[:-40])
    with pytest.raises(opbridge.ModelFileError, match="cut.onnx cannot be read as an ONNX model"):
        opbridge.profile(tmp_path / "cut.onnx")


def test_rows_of_another_kind_are_refused():
    from opbridge.profiling import Profile

    found = Profile("net.onnx", "onnxruntime 1.32.0", 1, 3, 5, 1.0, 0.9, 1.1, ())
    with pytest.raises(opbridge.UsageError, match="Unknown grouping 'lines'"):
        found.rows("lines")
    with pytest.raises(opbridge.UsageError, match="depth= .* is valid only by module"):
        found.rows("line", depth=1)
    assert "1 thread: median of 5 runs after 3" in found.summary()
    assert found.busy() == []
    assert Profile("n", "o", 1, 3, 5, 4.0, 1.0, 1.1, ()).busy()[0].startswith("the median run took 4.0 times as long")
