"""A library's operators in ONNX files and in ONNX Runtime, against PyTorch."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from kernels_loaded import MY_ADD, SOURCE, everything
from onnx import TensorProto, helper

import opbridge
from opbridge.kernels.compiler import INCLUDE


@pytest.fixture(scope="module")
def ops():
    return everything()


class Model(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


X = torch.randn(4, 6)
ROWS = torch.tensor([3, 0, 1])
DTYPES = [
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.bool),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.uint16, torch.uint32, torch.uint64),
]

# By name: the function, its inputs, and whether their sizes vary.
CASES = {
    "two element types": (lambda ops: ops.pick, (X, ROWS), True),
    "two element types, int32": (lambda ops: ops.pick, (X, ROWS.int()), True),
    "an optional input left out": (lambda ops: lambda x, y: ops.affine(x, None, y), (X, X + 1), True),
    "an optional input": (lambda ops: lambda x, y: ops.affine(x, x, y, factor=0.25), (X, X + 1), True),
    "one output read": (lambda ops: lambda x: ops.affine(x, None, x)[1] + 1, (X,), True),
    "lists": (lambda ops: lambda x, y: ops.blend([x, y, x], [y], x), (X, X + 1), True),
    "empty lists": (lambda ops: lambda x: ops.blend([], [], x), (X,), True),
    "a list at the end": (lambda ops: lambda x, y: ops.total(x, [x, y]), (X, X + 1), True),
    "an empty list at the end": (lambda ops: lambda x: ops.total(x, []), (X,), True),
    "default attributes": (lambda ops: ops.attributes, (X,), False),
    "attributes": (lambda ops: lambda x: ops.attributes(x, 5, 2.5, False, "", [1, 2, 3], []), (X,), False),
    "computed sizes": (lambda ops: lambda x: ops.positive(x)[0] * 2, (X.flatten(),), True),
    "a size from others": (lambda ops: lambda x: torch.relu(ops.windows(x, 3, 2)), (X,), True),
    "threads": (lambda ops: lambda x: ops.pieces(x, 10**9), (X,), True),
    "an overload": (lambda ops: lambda x: ops.shifted_number(x, 1.5), (X,), True),
    "doubles that no float holds": (lambda ops: lambda x: ops.plus(x, 0.1, [1 / 3, 0.5]), (X.double(),), True),
    "doubles that floats hold": (lambda ops: lambda x: ops.plus(x, 0.5, [0.25]), (X.double(),), True),
    "a list of outputs": (lambda ops: lambda x: ops.multiples(x, 3), (X,), True),
    "a list of one output": (lambda ops: lambda x: ops.multiples(x, 1)[0] + 1, (X,), True),
    "a list of outputs, one read": (lambda ops: lambda x: ops.multiples(x, 3)[1] * 2, (X,), True),
    "a list of outputs, of doubles": (lambda ops: lambda x: sum(ops.multiples(x, 2)), (X.double(),), True),
    "a list behind an output": (lambda ops: lambda x, y: ops.negatives([x, y, x[0]]), (X, X + 1), True),
    "a list of computed sizes": (lambda ops: lambda x: ops.halves(x, 0.25), (X.flatten(),), True),
    "a list of as many as there are rows": (lambda ops: lambda x: ops.rows(x), (X,), False),
    "a view": (lambda ops: lambda x: ops.twice(x.t()[1:]), (X,), True),
    "no elements": (lambda ops: ops.twice, (X[:0],), False),
    "no dimensions": (lambda ops: ops.twice, (torch.tensor(2.0),), False),
    **{
        f"{rank} dimensions": (lambda ops: ops.twice, (torch.randn([2, 1, 3] * 3)[(0,) * (9 - rank)],), True)
        for rank in (6, 7, 9)
    },
}


def test_a_number_of_outputs_that_data_decide_is_refused_with_what_to_return(ops):
    with pytest.raises(opbridge.CaptureError) as caught:
        opbridge.export(Model(lambda x: ops.rows(x[x.sum(1) > 0])), (X,))
    said = str(caught.value)
    assert "how many tensors kerneltest::rows returns depends on data" in said
    assert "tensor.split(sizes.tolist())" in said and "test_kernel_onnx.py" in said


def test_a_number_of_outputs_that_a_dynamic_size_decides_is_refused(ops):
    with pytest.raises(opbridge.CaptureError, match="requires n == 4 .*test_kernel_onnx.py"):
        opbridge.export(Model(ops.rows), (X,), dynamic_shapes=({0: "n"},))


def test_a_list_is_a_variadic_output(ops):
    program = opbridge.export(Model(lambda x: ops.negatives([x, x])), (X,), verify=False)
    (node,) = program.model.graph
    assert [node.op_type, len(node.outputs), node.attributes["xs"].value] == ["negatives", 3, 2]


@pytest.mark.parametrize("case", CASES)
def test_onnx_runtime_and_pytorch_agree(ops, case):
    make, args, vary = CASES[case]
    program = opbridge.export(Model(make(ops)), args, dynamic_shapes="auto" if vary else None)
    assert program.verification is not None
    assert program.verification.ok
    assert {row.route for row in program.plan.rows} >= {"kernel"}
    assert all(name.startswith("kerneltest::") for name in program.kernels)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_element_type(ops, dtype):
    x = torch.tensor([0, 1, 2, 63]).to(dtype)
    program = opbridge.export(Model(ops.twice), (x,))
    assert program.verification.ok


@pytest.mark.parametrize("opset", [9, 13, 18, 21])
def test_old_opsets(ops, opset):
    program = opbridge.export(Model(lambda x: ops.windows(x, 3) + 1), (X,), opset_version=opset)
    assert program.verification.ok


def test_what_the_node_looks_like(ops, tmp_path):
    path = tmp_path / "model.onnx"
    program = opbridge.export(Model(lambda x: ops.attributes(x, 5, f=2.5)), (X,), path)
    model = onnx.load(path)
    (node,) = model.graph.node
    assert (node.domain, node.op_type) == ("kerneltest", "attributes")
    attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    assert attributes == {"i": 5, "f": 2.5, "b": 1, "s": b"a'b c", "ks": [7, 7], "fs": [0.5, 2.0]}
    assert [(each.domain, each.version) for each in model.opset_import if each.domain] == [("kerneltest", 1)]
    noted = {each.key: each.value for each in model.metadata_props}
    assert noted["opbridge.kernels"] == "kerneltest::attributes"
    assert str(ops.path).encode() not in path.read_bytes()
    assert program.plan.rows[0].how == "kernel, as kerneltest::attributes"
    assert opbridge.verify(path, program.capture.model, (X,)).ok


def session_of(nodes, inputs, outputs, ops, **initial):
    """A session with a model made by hand."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in inputs],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("kerneltest", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    return opbridge.session(model.SerializeToString(), kernels=[ops.path], **initial)


def node(name, inputs, outputs, **attributes):
    return helper.make_node(name, inputs, outputs, domain="kerneltest", **attributes)


def test_shapes_are_known_when_the_session_is_made(ops):
    session = session_of(
        [node("windows", ["x"], ["y"], size=3, step=2)],
        [("x", TensorProto.FLOAT, ["batch", 9])],
        [("y", TensorProto.FLOAT)],
        ops,
    )
    assert session.get_outputs()[0].shape == ["batch", 4]


def test_an_input_of_unknown_rank(ops):
    session = session_of(
        [node("twice", ["x"], ["y"])], [("x", TensorProto.FLOAT, None)], [("y", TensorProto.FLOAT)], ops
    )
    x = np.ones((2, 3), np.float32)
    assert (session.run(None, {"x": x})[0] == 2 * x).all()


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (1, "kerneltest::fail: the words of the kernel"),
        (2, "an exception that is not a std::exception"),
        (3, "output 0 is already allocated"),
        (6, "output 0 has a negative size"),
        (7, "output 0 exceeds the maximum memory size"),
        (8, "exceeds 64 bits"),
        (9, "divided by zero"),
        (10, "has not called allocate"),
        (11, "axis 5 of a tensor with 1 dimensions"),
    ],
)
def test_errors_arrive_as_a_status(ops, how, said):
    session = session_of(
        [node("fail", ["x"], ["y"], how=how)], [("x", TensorProto.FLOAT, ["n"])], [("y", TensorProto.FLOAT)], ops
    )
    with pytest.raises(Exception) as caught:
        session.run(None, {"x": np.ones(3, np.float32)})
    assert said in str(caught.value)


def test_a_node_that_is_wrong(ops):
    x = [("x", TensorProto.FLOAT, [3])]
    with pytest.raises(opbridge.ModelFileError, match="no attribute 'how' of the type int"):
        session_of([node("fail", ["x"], ["y"])], x, [("y", TensorProto.FLOAT)], ops)
    with pytest.raises(opbridge.ModelFileError):
        session_of([node("pick", ["x"], ["y"])], x, [("y", TensorProto.FLOAT)], ops)
    with pytest.raises(opbridge.ModelFileError):
        session_of([node("pick", ["x", "x"], ["y"])], x, [("y", TensorProto.FLOAT)], ops)
    for attributes in ({"left": 5, "right": 0}, {"left": -1, "right": 1}, {"left": 2**62, "right": 2**62}, {}):
        with pytest.raises(Exception, match="kerneltest::blend|BLEND|blend"):
            session = session_of([node("blend", ["x", "x"], ["y"], **attributes)], x, [("y", TensorProto.FLOAT)], ops)
            session.run(None, {"x": np.ones(3, np.float32)})
    session = session_of(
        [node("windows", ["x"], ["y"], size=2)], [("x", TensorProto.FLOAT, None)], [("y", TensorProto.FLOAT)], ops
    )
    with pytest.raises(Exception, match="'x' has 1 dimensions, but the kernel expects 2"):
        session.run(None, {"x": np.ones(3, np.float32)})


def test_threads_of_the_session(ops):
    x = np.random.default_rng(0).standard_normal((64, 1000), np.float32)
    results = []
    for threads in (1, 2, 4):
        session = session_of(
            [node("windows", ["x"], ["y"], size=7)],
            [("x", TensorProto.FLOAT, [None, None])],
            [("y", TensorProto.FLOAT)],
            ops,
            threads=threads,
        )
        results.append(session.run(None, {"x": x})[0])
    expected = np.lib.stride_tricks.sliding_window_view(x, 7, axis=1).sum(-1)
    for result in results:
        np.testing.assert_allclose(result, expected, atol=1e-4)
    session = session_of(
        [node("pieces", ["x"], ["y"], grain=1)], [("x", TensorProto.FLOAT, ["n"])], [("y", TensorProto.INT64)], ops
    )
    with pytest.raises(Exception, match="element [0-9]+ is no number"):
        session.run(None, {"x": np.full(100, np.nan, np.float32)})


def test_a_missing_kernel_is_said_at_export_and_at_session(ops, tmp_path):
    path = tmp_path / "model.onnx"
    opbridge.export(Model(ops.twice), (X,), path)
    with pytest.raises(opbridge.ModelFileError, match="requires kernels for kerneltest::twice, .*kernels="):
        opbridge.session(path)
    with pytest.raises(opbridge.ModelFileError, match="kerneltest::twice"):
        opbridge.session(path, options=onnxruntime.SessionOptions())
    with pytest.raises(opbridge.UsageError, match=f"{SOURCE.name} is source code"):
        opbridge.session(path, kernels=[SOURCE])
    with pytest.raises(opbridge.UsageError, match="The library nothing.so"):
        opbridge.session(path, kernels=["nothing.so"])
    assert opbridge.session(path, kernels=ops.path).run(None, {"args_0": X.numpy()})[0].shape == (4, 6)


@pytest.mark.slow
def test_several_libraries_of_one_domain_and_options_used_twice(tmp_path):
    libraries = []
    for name in ("one", "two"):
        source = tmp_path / f"{name}.cpp"
        source.write_text(MY_ADD.read_text().replace("mylib", "several").replace("my_add", name))
        libraries.append(opbridge.build(source, flags=["-O0"]))
    one, two = (opbridge.load(each) for each in libraries)
    program = opbridge.export(Model(lambda x: two.two(one.one(x, x), x)), (X,), tmp_path / "model.onnx")
    assert program.verification.ok
    options = onnxruntime.SessionOptions()
    for _ in range(2):
        session = opbridge.session(program.path, kernels=libraries, options=options)
        np.testing.assert_allclose(session.run(None, {"args_0": X.numpy()})[0], (7 * X).numpy(), rtol=1e-5)
    copy = opbridge.build(tmp_path / "one.cpp", output=tmp_path / "copy.so", flags=["-O0"])
    with pytest.raises(opbridge.UsageError, match="both contain the kernel several::one"):
        opbridge.session(program.path, kernels=[*libraries, copy])


@pytest.mark.slow
def test_a_machine_without_torch(ops, tmp_path):
    path = tmp_path / "model.onnx"
    opbridge.export(Model(ops.twice), (X,), path)
    code = f"""
        import sys
        sys.modules["torch"] = None
        import numpy, opbridge
        session = opbridge.session({str(path)!r}, kernels=[{str(ops.path)!r}])
        (result,) = session.run(None, {{"args_0": numpy.ones((4, 6), "f")}})
        assert (result == 2).all()
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, env=environment)


@pytest.mark.slow
def test_a_server_without_python(tmp_path):
    server = tmp_path / "server"
    source = Path(__file__).with_name("server.cpp")
    subprocess.run(["g++", "-std=c++17", "-O1", f"-I{INCLUDE}", str(source), "-o", str(server), "-ldl"], check=True)
    ops = opbridge.load(MY_ADD)
    program = opbridge.export(
        Model(lambda a, b: ops.my_add(a, b, alpha=3.0)),
        (torch.randn(3), torch.randn(3)),
        tmp_path / "model.onnx",
        input_names=["a", "b"],
        output_names=["y"],
    )
    capi = Path(onnxruntime.__file__).parent / "capi"
    (runtime,) = capi.glob("libonnxruntime.so*")
    command = [str(server), str(runtime), str(ops.path), str(program.path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "13 26 39\n"
