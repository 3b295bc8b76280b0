"""Kernels as custom operations of OpenVINO."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch

import opbridge
from opbridge.cli import main
from opbridge.kernels import aten
from opbridge.kernels import openvino as extensions
from opbridge.runtimes import known

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not known.find("openvino").version(), reason="openvino is not installed"),
]

SOURCE = """
#include <opbridge/kernel.h>
using namespace opbridge;

template <class T>
void weighed(std::optional<Input<T>> bias, Inputs<T> each, Ints axes, double weight, std::string mode, Output<T> out,
             Context& context) {
    require(mode == "sum", "there is no such mode");
    context.parallel_for(out.size(), 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            T sum = bias ? (*bias)[i] : T(0);
            for (size_t k = 0; k < each.size(); ++k) sum += static_cast<T>(weight * axes[k]) * each[k][i];
            out[i] = sum;
        }
    });
}

Shape weighed_shape(std::optional<Shape> bias, std::vector<Shape> each, std::vector<Dim>, double, std::string) {
    for (const Shape& shape : each) require(shape == each[0], "the tensors must have the same shape");
    return each[0];
}

OPBRIDGE_KERNEL("openvino_tests::weighed(Tensor? bias, Tensor[] each, int[] axes, float weight, str mode) -> Tensor",
                weighed, weighed_shape, types<float, double, int64_t>);

template <class T>
void kept(Input<T, 1> x, double least, Output<T> values, Output<int64_t> places, Context& context) {
    bool* chosen = context.scratch<bool>(x.size());
    int64_t count = 0, next = 0;
    for (int64_t i = 0; i < x.size(); ++i) count += chosen[i] = x[i] >= T(least);
    values.allocate({count});
    places.allocate({count});
    for (int64_t i = 0; i < x.size(); ++i) {
        if (chosen[i]) values[next] = x[i], places[next++] = i;
    }
}

Shapes kept_shapes(Shape x, double) {
    require(x.rank() == 1, "x must have one dimension");
    const Dim count = Dim::computed();
    return {{count}, {count}};
}

OPBRIDGE_KERNEL("openvino_tests::kept(Tensor x, float least=0.0) -> (Tensor, Tensor)", kept, kept_shapes, types<float>);
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("kernels") / "weighed.cpp"
    path.write_text(SOURCE)
    return path


@pytest.fixture(scope="module")
def ops(source):
    return opbridge.load(source)


def exported(model, args, tmp_path, **options):
    path = tmp_path / "model.onnx"
    opbridge.export(model, args, path, verify=False, **options)
    return path


def test_lists_attributes_and_inputs_that_are_left_out(ops, tmp_path):
    class Model(torch.nn.Module):
        def forward(self, a, b):
            first = ops.weighed(None, [a, b], [2, 3], 0.5, "sum")
            # The same inputs: other attributes make another operation.
            other = ops.weighed(None, [a, b], [2, 4], 0.5, "sum")
            return first, ops.weighed(first, [a.relu(), b, a], [1, 1, 1], 2.0, "sum"), other

    model, args = Model(), tuple(torch.randn(2, 3, 4))
    path = exported(model, args, tmp_path, dynamic_shapes="auto")
    found = opbridge.verify(path, model, args, runtime=["onnxruntime", "openvino"])
    assert found.ok, str(found)
    assert len(found.each[1].runs) > 3  # of other sizes too


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64])
def test_types_that_its_cpu_replaces(ops, tmp_path, dtype):
    class Model(torch.nn.Module):
        def forward(self, a, b):
            return ops.weighed(None, [a.to(dtype) * 2, b.to(dtype)], [2, 3], 1.0, "sum").to(torch.float32)

    model, args = Model(), (torch.randn(3, 4) * 9, torch.randn(3, 4) * 9)
    found = opbridge.verify(exported(model, args, tmp_path), model, args, runtime="openvino")
    assert found.ok, str(found)


def test_sizes_that_only_the_kernel_tells(ops, tmp_path):
    class Model(torch.nn.Module):
        def forward(self, x):
            values, places = ops.kept(x, 0.25)
            return values * 2, places

    path = exported(Model(), (torch.rand(9),), tmp_path, dynamic_shapes="auto")
    with opbridge.session(path, runtime="openvino") as session:
        for size in (9, 4, 1, 0):
            x = torch.rand(size)
            want = Model()(x)
            for found, expected in zip(session.run(None, {"x": x.numpy()}), want, strict=True):
                np.testing.assert_array_equal(found, expected.numpy())
                assert found.dtype == expected.numpy().dtype


def test_what_a_kernel_throws_is_said(ops, tmp_path):
    class Model(torch.nn.Module):
        def forward(self, a, b):
            return ops.weighed(None, [a, b], [2, 3], 1.0, "sum")

    path = exported(Model(), tuple(torch.randn(2, 3, 4)), tmp_path)
    model = onnx.load(path)
    next(each for each in model.graph.node[0].attribute if each.name == "mode").s = b"none"
    feeds = {each.name: np.ones((3, 4), np.float32) for each in model.graph.input}
    session = opbridge.session(model.SerializeToString(), runtime="openvino")
    with session, pytest.raises(opbridge.RunError, match="openvino_tests::weighed: there is no such mode"):
        session.run(None, feeds)


def test_the_kernels_of_opbridge(tmp_path):
    class Model(torch.nn.Module):
        def forward(self, x, offset, weight):
            import torchvision

            return torchvision.ops.deform_conv2d(x, offset, weight, padding=1)

    args = (torch.randn(1, 3, 6, 6), torch.randn(1, 18, 6, 6), torch.randn(4, 3, 3, 3))
    path = exported(Model(), args, tmp_path, opset_version=17)
    assert any(node.domain == "opbridge_ops" for node in onnx.load(path).graph.node)
    assert opbridge.verify(path, Model(), args, runtime="openvino").ok


def test_a_library_that_openvino_takes_by_itself(ops, source, tmp_path, capsys):
    class Model(torch.nn.Module):
        def forward(self, a, b):
            return ops.weighed(None, [a, b], [2, 3], 1.0, "sum")

    args = tuple(torch.randn(2, 3, 4))
    path = exported(Model(), args, tmp_path)
    built = tmp_path / "weighed.so"
    assert main(["build", str(source), "--openvino", "-o", str(built)]) == 0
    import openvino

    core = openvino.Core()
    core.add_extension(str(built))
    compiled = core.compile_model(core.read_model(str(path)), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    found = compiled([each.numpy() for each in args])[0]
    np.testing.assert_allclose(found, Model()(*args).numpy(), rtol=1e-6)
    assert main(["build", str(source), "--openvino", "--sanitize", "address"]) == 2
    assert "not supported with --openvino" in capsys.readouterr().err


def test_nodes_that_pytorch_runs_are_refused_in_one_sentence():
    text = """<ir_version: 8, opset_import: ["" : 17, "org.pytorch.aten" : 1]>
    g (float[n, 4] x) => (float[n, 4] y) { y = org.pytorch.aten.ATen (x) }"""
    assert aten.NAME == "org.pytorch.aten::ATen"
    with pytest.raises(
        opbridge.ModelFileError, match="has aten nodes, which run in PyTorch and are supported only in ONNX Runtime"
    ):
        opbridge.session(onnx.parser.parse_model(text).SerializeToString(), runtime="openvino")


def test_an_openvino_without_headers_is_said(monkeypatch, tmp_path):
    monkeypatch.setattr(extensions, "_package", lambda: tmp_path)
    with pytest.raises(opbridge.BuildError, match="has no headers"):
        extensions.build()
