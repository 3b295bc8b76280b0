"""Aten nodes in ONNX Runtime: every kind of argument and result, against the same call in PyTorch."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from aten_calls import as_outputs, call, node_model, run, session_of

import opbridge
from opbridge.kernels import aten as aten_kernel
from opbridge.kernels import shipped
from opbridge.kernels.compiler import INCLUDE
from opbridge.onnx import serialize

A = torch.ops.aten
X = torch.randn(3, 4)
C = torch.randn(3, 4, dtype=torch.complex64)

torch.library.define("atenkernel::numbers", "(Tensor x, float f, bool b, str? s=None) -> (int, float, bool, Tensor)")


@torch.library.impl("atenkernel::numbers", "CompositeExplicitAutograd")
def _(x, f, b, s=None):
    return x.numel(), f * 2, not b, x + len(s or "")


torch.library.define("atenkernel::write", "(Tensor(a!) x, Tensor y) -> Tensor")
torch.library.impl("atenkernel::write", "CompositeExplicitAutograd")(lambda x, y: x.mul_(2) + y)

CALLS = {
    # Tensors: of every dtype, empty, without dimensions, optional, in lists, some of them None.
    "float32": (A.neg.default, [X], {}),
    "float64": (A.neg.default, [X.double()], {}),
    "float16": (A.neg.default, [X.half()], {}),
    "bfloat16": (A.neg.default, [X.bfloat16()], {}),
    "int8": (A.neg.default, [X.to(torch.int8)], {}),
    "int16": (A.neg.default, [X.to(torch.int16)], {}),
    "int32": (A.neg.default, [X.int()], {}),
    "int64": (A.neg.default, [X.long()], {}),
    "uint8": (A.bitwise_not.default, [X.abs().to(torch.uint8)], {}),
    "uint16": (A.view_as.default, [X.abs().to(torch.uint16), X], {}),
    "uint32": (A.view_as.default, [X.abs().to(torch.uint32), X], {}),
    "uint64": (A.view_as.default, [X.abs().to(torch.uint64), X], {}),
    "bool": (A.logical_not.default, [X > 0], {}),
    "empty": (A.neg.default, [torch.randn(0, 3)], {}),
    "no dimensions": (A.neg.default, [torch.tensor(2.5)], {}),
    "optional tensor": (A.clamp.Tensor, [X, torch.zeros(4), None], {}),
    "no optional tensor": (A.clamp.Tensor, [X, None, torch.zeros(4)], {}),
    "tensor list": (A.cat.default, [[X, X, X * 2], 1], {}),
    "optional tensors": (A.index.Tensor, [X, [None, torch.tensor([2, 0])]], {}),
    # Numbers.
    "int": (A.select.int, [X, 1, 2], {}),
    "float": (A.layer_norm.default, [X, [4], None, None, 0.1], {}),
    "bool argument": (A.sum.dim_IntList, [X, [1], True], {}),
    "optional number": (A.mean.dim, [X, None], {}),
    "Scalar int": (A.add.Tensor, [X, X], {"alpha": 2}),
    "Scalar float": (A.add.Tensor, [X, X], {"alpha": 0.1}),
    "Scalar bool": (A.add.Scalar, [X > 0, True], {}),
    "Scalar complex": (A.mul.Scalar, [C, 1 + 2j], {}),
    "Scalar of a double": (A.add.Scalar, [X.double(), 0.1], {}),
    "two complex Scalars": (A.addmm.default, [C[:, :3], C, C.T.contiguous()], {"beta": 1j, "alpha": 2 - 1j}),
    "optional Scalar": (A.clamp.default, [X, None, 0.5], {}),
    "Scalar list": (A._foreach_add.ScalarList, [[X, X], [0.5, 1.5]], {}),
    "int list": (A.permute.default, [X, [1, 0]], {}),
    "empty int list": (A.permute.default, [torch.tensor(1.0), []], {}),
    "bool list": (A.nonzero_static.default, [X > 0], {"size": 12}),
    "float list": (A.upsample_nearest2d.vec, [X[None, None], None, [2.0, 1.5]], {}),
    # Settings.
    "dtype": (A.sum.default, [X], {"dtype": torch.float64}),
    "dtype bool": (A._to_copy.default, [X], {"dtype": torch.bool}),
    "layout and device": (A.full.default, [[2, 3], 1.5], {"layout": torch.strided, "device": torch.device("cpu")}),
    "memory format": (A.clone.default, [torch.randn(1, 2, 3, 3)], {"memory_format": torch.channels_last}),
    "str": (A.div.Tensor_mode, [X, X + 3], {"rounding_mode": "floor"}),
    "no inputs": (A.arange.start_step, [0, 10, 3], {}),
    # Results.
    "tuple": (A.topk.default, [X, 2], {}),
    "list": (A.split.Tensor, [X, 2], {}),
    "several types": (torch.ops.atenkernel.numbers.default, [X, 1.5, True], {"s": "four"}),
    "Scalar result": (A._local_scalar_dense.default, [torch.tensor(2.5)], {}),
    "int result": (A.sym_size.int, [X, 1], {}),
    "bool result": (A.equal.default, [X, X], {}),
    "dynamic shape": (A.nonzero.default, [X > 0], {}),
    "undefined result": (
        A.native_layer_norm_backward.default,
        [X, X, [4], X[:, :1], X[:, :1], None, None, [True, False, False]],
        {},
    ),
    # Views, writes and complex numbers.
    "view": (A.transpose.int, [X, 0, 1], {}),
    "large view": (A.transpose.int, [torch.randn(300, 200), 0, 1], {}),
    "in place": (A.add_.Tensor, [X, X], {}),
    "write": (torch.ops.atenkernel.write.default, [X, X], {}),
    "complex": (A.mul.Tensor, [C, C], {}),
    "complex to real": (A.abs.default, [C], {}),
    "real to complex": (A.complex.default, [X, X], {}),
    "conjugated": (A._conj.default, [C], {}),
    "negated": (A._neg_view.default, [X], {}),
    "imaginary part of the conjugated": (A.imag.default, [C.conj()], {}),
    "complex double": (A.linalg_eigvals.default, [torch.randn(3, 3, dtype=torch.float64)], {}),
    "zeros without memory": (A._efficientzerotensor.default, [[2, 2]], {}),
}  # fmt: skip
NAMED = ("atenkernel::*", "aten::*")


@pytest.mark.parametrize("name", CALLS)
def test_a_call_gives_what_pytorch_gives(name):
    call(*CALLS[name], aten=NAMED)


def test_numbers_in_inputs_are_converted_to_what_the_schema_says():
    class Model(torch.nn.Module):
        def forward(self, x, y):
            size = y.shape[0]
            return torch.roll(x, size, 0), torch.add(x, x, alpha=size), torch.full_like(x, size)

    program = opbridge.export(
        Model(),
        (X, torch.randn(2)),
        dynamic_shapes=({}, {0: "n"}),
        allow=("standard", "aten"),
        routes={"aten::*": "aten"},
    )
    assert program.verification.ok
    assert any("input_int" in node.attributes["arguments"].as_string() for node in _nodes(program.model))
    given = X.numpy(), np.zeros(7, "f")
    session = program.session()
    outputs = session.run(None, dict(zip([each.name for each in session.get_inputs()], given, strict=True)))
    for actual, expected in zip(outputs, Model()(X, torch.zeros(7)), strict=True):
        np.testing.assert_allclose(actual, expected.numpy(), rtol=1e-6)


def _nodes(model):
    return [node for node in model.graph.all_nodes() if node.domain == "org.pytorch.aten"]


def test_inputs_are_left_as_they_are():
    for name in ("in place", "write"):
        target, args, kwargs = CALLS[name]
        model, fed = node_model(target, args, kwargs, X)
        before = [each.clone() for each in fed]
        run(session_of(model, NAMED), fed)
        assert all(map(torch.equal, fed, before))


def test_running_statistics_are_left_as_they_are():
    mean, deviation = torch.zeros(4), torch.ones(4)
    args = [X, None, None, mean, deviation, True, 0.5, 1e-5, False]
    model, fed = node_model(A.batch_norm.default, args, {}, X)
    session = session_of(model)
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(each.numpy().copy()) for each in fed]
    session.run_with_ort_values(None, {f"x{index}": value for index, value in enumerate(values)})
    np.testing.assert_array_equal(values[1].numpy(), mean)
    np.testing.assert_array_equal(values[2].numpy(), deviation)


def test_sizes_may_differ_from_call_to_call():
    model, _ = node_model(A.nonzero.default, [X > 0], {}, (X > 0).nonzero())
    session = session_of(model)
    for sizes in ((2, 2), (5, 7), (0, 3)):
        mask = torch.ones(sizes, dtype=torch.bool)
        (result,) = run(session, [mask])
        assert torch.equal(result, mask.nonzero())


def test_gradients_and_the_default_dtype_stay_as_they_were():
    model, fed = node_model(*CALLS["float32"], -X)
    session = session_of(model)
    torch.set_default_dtype(torch.float64)
    try:
        with torch.enable_grad():
            run(session, fed)
            assert torch.is_grad_enabled() and torch.get_default_dtype() == torch.float64
        with torch.no_grad():
            run(session, fed)
            assert not torch.is_grad_enabled()
    finally:
        torch.set_default_dtype(torch.float32)


def test_many_threads_run_one_session():
    target, args, kwargs = CALLS["two complex Scalars"]
    expected = as_outputs(target(*args, **kwargs))[0]
    model, fed = node_model(target, args, kwargs, target(*args, **kwargs))
    session = session_of(model)
    wrong = []

    def work():
        for _ in range(200):
            (result,) = run(session, fed)
            if not torch.allclose(result, expected, atol=1e-5):
                wrong.append(result)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_calls_that_take_long(threads):
    """Once one has, ONNX Runtime's threads sleep while the next ones run; results and errors are the same."""

    class Model(torch.nn.Module):
        def forward(self, x, index):
            return torch.relu(torch.index_select(torch.relu(x), 0, index) * 2)

    x, index = torch.randn(3000, 1000), torch.randint(0, 3000, (2500,))
    program = opbridge.export(Model(), (x, index), allow=("standard", "aten"), routes={"aten::index_select": "aten"})
    session = program.session(threads=threads)
    names = [each.name for each in session.get_inputs()]
    expected = Model()(x, index)
    for _ in range(6):
        (result,) = session.run(None, {names[0]: x.numpy(), names[1]: index.numpy()})
        torch.testing.assert_close(torch.from_numpy(result), expected, rtol=0, atol=0)
    with pytest.raises(Exception, match="aten::index_select: .*out of (range|bounds)"):
        session.run(None, {names[0]: x.numpy(), names[1]: index.numpy() + 3000})
    (result,) = session.run(None, {names[0]: x.numpy(), names[1]: index.numpy()})
    torch.testing.assert_close(torch.from_numpy(result), expected, rtol=0, atol=0)


def test_errors_are_in_pytorchs_words():
    model, _ = node_model(A.mm.default, [X, X.T.contiguous()], {}, X @ X.T)
    session = session_of(model)
    with pytest.raises(Exception, match=r"aten::mm: .*mat1 and mat2 shapes cannot be multiplied \(3x4 and 3x4\)"):
        run(session, [X, X])
    model, _ = node_model(A.add.Tensor, [X, X], {"alpha": 2}, X)  # whose Scalar goes by another way
    with pytest.raises(Exception, match="aten::add.Tensor: The size of tensor a") as caught:
        run(session_of(model), [X, torch.randn(3, 5)])
    assert "Exception raised from" not in str(caught.value)


def test_a_result_of_another_dtype_than_was_said_is_an_error():
    model, _ = node_model(A.add.Tensor, [X, X], {}, X)
    for value in model.graph.inputs:
        value.type = ir.TensorType(ir.DataType.INT64)
    with pytest.raises(Exception, match="output 0 is int64, but the node declares float32"):
        run(session_of(model), [X.long(), X.long()])


def test_a_large_request_is_an_error_and_no_crash():
    model, _ = node_model(A.full.default, [[2, 2], 1.0], {}, torch.ones(2, 2))
    model.graph[0].attributes["size"] = ir.AttrInt64s("size", [2**40, 2**10])
    with pytest.raises(Exception, match="aten::full: .*memory"):
        run(session_of(model), [])


# -- whole models -----------------------------------------------------------------------------------------------------


class Heavy(torch.nn.Module):
    def forward(self, x):
        return torch.special.bessel_y0(torch.relu(torch.roll(x, 1, 0)) + 1), x.sum()


@pytest.mark.parametrize("mode", ["ONNX_ATEN", "ONNX_ATEN_FALLBACK"])
def test_the_files_of_the_export_modes_run(tmp_path, mode):
    program = opbridge.export(Heavy(), (X,), tmp_path / "model.onnx", operator_export_type=mode)
    assert program.verification.ok and not program.unverified
    session = opbridge.session(program.path, aten=program.aten_operators())
    result = session.run(None, {session.get_inputs()[0].name: X.numpy()})
    np.testing.assert_allclose(result[0], Heavy()(X)[0].numpy(), rtol=1e-4)


@pytest.mark.slow
def test_the_first_difference_is_found_among_aten_nodes(tmp_path):
    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.add(torch.roll(x, 1, 0), x, alpha=2).exp()

    path = tmp_path / "model.onnx"
    program = opbridge.export(Model(), (X,), path, routes={"aten::roll": "aten", "aten::add": "aten"})
    (node,) = (node for node in _nodes(program.model) if "alpha" in node.attributes)
    node.attributes["alpha"] = ir.AttrInt64("alpha", 3)
    program.save(path)
    verification = opbridge.verify(path, Model(), (X,))
    assert not verification.ok and "aten::add.Tensor" in str(verification)


@pytest.mark.torchvision
def test_operators_of_torchvision_run(tmp_path):
    import torchvision

    def model(boxes, scores, image):
        kept = torchvision.ops.nms(boxes, scores, 0.5)
        return kept, torchvision.ops.roi_align(image, [boxes], 2)

    corners = torch.rand(12, 2) * 6
    args = (torch.cat([corners, corners + 1 + torch.rand(12, 2)], 1), torch.rand(12), torch.randn(1, 3, 8, 8))
    path = tmp_path / "model.onnx"
    program = opbridge.export(model, args, path, routes={"torchvision::*": "aten"}, allow=("standard", "aten"))
    assert program.verification.ok
    assert program.aten_operators() == ("torchvision::nms", "torchvision::roi_align")
    with pytest.raises(opbridge.ModelFileError, match=r"aten=\('torchvision::nms',\)"):
        opbridge.session(path)
    opbridge.session(path, aten=("torchvision::*",))


def test_one_set_of_session_options_serves_several_sessions(tmp_path):
    model, fed = node_model(*CALLS["float32"], -X)
    content = serialize.to_bytes(model)
    options = onnxruntime.SessionOptions()
    for _ in range(2):
        run(opbridge.session(content, options=options), fed)
    with pytest.raises(opbridge.UsageError, match="session options"):
        opbridge.session(content, options=options, aten=("atenkernel::*",))


@pytest.mark.slow
def test_a_server_without_python(tmp_path):
    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.add(torch.roll(x, 1, 0), x, alpha=10)

    server, path = tmp_path / "server", tmp_path / "model.onnx"
    source = Path(__file__).with_name("aten_server.cpp")
    subprocess.run(["g++", "-std=c++17", "-O1", f"-I{INCLUDE}", source, "-o", server, "-ldl"], check=True)
    opbridge.export(Model(), (torch.randn(4),), path, input_names=["x"], output_names=["y"], routes={"aten::*": "aten"})
    (runtime,) = (Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so*")
    libtorch = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"

    def served(place, *more):
        command = [server, runtime, place, shipped.shipped(aten_kernel.LIBRARY), path, *more]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    for place in (libtorch, f"@{libtorch}", f"@{libtorch.parent}"):
        done = served(place)
        assert done.returncode == 0 and done.stdout == "14 21 32 43\n", done.stderr
    done = served(runtime)  # where there is no libtorch
    assert done.returncode == 1 and "libtorch_cpu.so is not loaded in this process" in done.stderr


def test_the_library_is_apart_from_the_built_in_kernels():
    assert shipped.at_hand(aten_kernel.LIBRARY)
    assert all(each.parent.name == "aten" for each in shipped.sources(aten_kernel.LIBRARY))
    assert not {*shipped.sources(aten_kernel.LIBRARY)} & {*shipped.sources("_builtin")}


@pytest.mark.parametrize(
    "dtype", [torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz]
)
def test_bytes_that_are_numbers(dtype):
    """No standard operator of ONNX Runtime's takes them; libtorch's do."""
    program = opbridge.export(
        lambda x: torch.cat([x, x]), (torch.randn(3, 4).to(dtype),), routes={"aten::cat": "aten"}, allow=["aten"]
    )
    assert program.verification.ok


def test_the_message_on_older_nodes_is_the_one_that_python_looks_for():
    source = (Path(aten_kernel.__file__).parent / "node.cpp").read_text()
    assert f'"{aten_kernel.OLDER_FORM}' in source
