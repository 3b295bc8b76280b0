"""Sessions in a process of their own."""

from __future__ import annotations

import gc
import os
import signal
import time

import ml_dtypes
import numpy as np
import onnx
import pytest
import torch
from helpers.tiny_models import model_of

import opbridge
from opbridge.runtimes.child import Child

X = torch.randn(3, 4)


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.triu(x) * 2, x.sum()


class Plain(torch.nn.Module):
    def forward(self, x):
        return x.relu() * 2, x.sum()


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A file whose process does not import torch, which takes two seconds."""
    path = tmp_path_factory.mktemp("plain") / "model.onnx"
    opbridge.export(Plain(), (X,), path, verify=False)
    return path


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    path = tmp_path_factory.mktemp("isolated") / "model.onnx"
    opbridge.export(Model(), (X,), path, routes={"aten::triu": "aten"}, verify=False)
    return path


def feeds(session):
    return {session.get_inputs()[0].name: X.numpy()}


@pytest.mark.slow
def test_it_gives_what_a_session_of_this_process_gives(exported, plain):
    for model in (exported, plain.read_bytes()):
        inside = opbridge.session(model)
        with opbridge.session(model, isolated=True, threads=1) as session:
            for one, other in ((session.get_inputs, inside.get_inputs), (session.get_outputs, inside.get_outputs)):
                assert [(e.name, e.type, e.shape) for e in one()] == [(e.name, e.type, e.shape) for e in other()]
            for _ in range(2):
                for actual, expected in zip(
                    session.run(None, feeds(session)), inside.run(None, feeds(inside)), strict=True
                ):
                    assert actual.dtype == expected.dtype
                    np.testing.assert_array_equal(actual, expected)
            name = inside.get_outputs()[1].name
            (total,) = session.run([name], feeds(session))
            np.testing.assert_allclose(total, X.sum().numpy(), rtol=1e-5)
            with pytest.raises(opbridge.RunError, match="not_there"):
                session.run(["not_there"], feeds(session))


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(2, 3), (), (0, 3)])
def test_arrays_of_bfloat16(shape):
    dims = ",".join(map(str, shape))
    graph = f"g (bfloat16[{dims}] x) => (bfloat16[{dims}] y) {{ y = Identity (x) }}"
    text = f'<ir_version: 9, opset_import: ["" : 19]> {graph}'
    x = np.random.default_rng(0).standard_normal(shape).astype(ml_dtypes.bfloat16)
    with opbridge.session(onnx.parser.parse_model(text).SerializeToString(), isolated=True) as session:
        (found,) = session.run(None, {"x": x})
    assert found.dtype == x.dtype and found.shape == shape
    np.testing.assert_array_equal(found, x)


@pytest.mark.slow
def test_the_end_of_its_process_costs_one_call(plain):
    with opbridge.session(plain, isolated=True, threads=1) as session:
        first = session.run(None, feeds(session))
        os.kill(session._child.process.pid, signal.SIGSEGV)
        with pytest.raises(opbridge.RunError, match=r"crashed the process of the model \(SIGSEGV\)"):
            session.run(None, feeds(session))
        np.testing.assert_array_equal(session.run(None, feeds(session))[0], first[0])


@pytest.mark.slow
def test_a_call_that_takes_too_long_is_ended(plain):
    # Runs within the limit are not stopped by it, however busy the machine is.
    with opbridge.session(plain, isolated=opbridge.Limits(seconds=5), threads=1) as session:
        session.run(None, feeds(session))
        os.kill(session._child.process.pid, signal.SIGSTOP)
        start = time.monotonic()
        with pytest.raises(opbridge.RunError, match=r"time limit of 5 s"):
            session.run(None, feeds(session))
        assert time.monotonic() - start < 60
        session.run(None, feeds(session))


@pytest.mark.slow
def test_a_call_that_takes_too_much_memory_is_an_error(tmp_path):
    class Large(torch.nn.Module):
        def forward(self, x):
            return x.expand(x.shape[0], 1 << 28).exp().sum(1)

    path = tmp_path / "large.onnx"
    opbridge.export(Large(), (torch.randn(1, 1),), path, dynamic_shapes=({0: "n"},), verify=False)
    session = opbridge.session(path, isolated=opbridge.Limits(gigabytes=0.5), threads=1)
    with session, pytest.raises(opbridge.RunError):
        session.run(None, {session.get_inputs()[0].name: np.zeros((2, 1), np.float32)})


def test_what_cannot_go_to_another_process_is_refused(plain, tmp_path):
    import onnxruntime

    with pytest.raises(opbridge.UsageError, match="options= is not supported with isolated="):
        opbridge.session(plain, isolated=True, options=onnxruntime.SessionOptions())
    with pytest.raises(opbridge.UsageError, match="is invalid; expected True or"):
        opbridge.session(plain, isolated="yes")
    with pytest.raises(opbridge.UsageError, match="is invalid; expected numbers above 0"):
        opbridge.Limits(seconds=0)
    with pytest.raises(opbridge.ModelFileError, match="missing"):
        opbridge.session(tmp_path / "missing.onnx", isolated=True)


@pytest.mark.slow
def test_it_says_what_the_file_says_of_itself(plain):
    inside = opbridge.session(plain).get_modelmeta()
    with opbridge.session(plain, isolated=True, threads=1) as session:
        own = session.get_modelmeta()
        for name in ("producer_name", "graph_name", "domain", "description", "version", "custom_metadata_map"):
            assert getattr(own, name) == getattr(inside, name)


@pytest.mark.slow
def test_a_program_is_taken_to_another_process_too():
    program = opbridge.export(Plain(), (X,), verify=False)
    with program.session(isolated=True, threads=1) as session:
        np.testing.assert_array_equal(session.run(None, feeds(session))[0], (X.relu() * 2).numpy())


@pytest.mark.slow
def test_loading_has_the_limits_too(tmp_path):
    """ONNX Runtime computes constants when it loads a file: here 20 GB of them."""
    import onnx_ir as ir

    from opbridge.onnx import serialize

    size = ir.val("size", const_value=ir.tensor(np.array([5 * 10**9])))
    filled = ir.node("ConstantOfShape", [size])
    total = ir.node("ReduceSum", [filled.outputs[0]], {"keepdims": 0})
    x = ir.val("x", ir.DataType.FLOAT, [1])
    added = ir.node("Add", [x, total.outputs[0]])
    added.outputs[0].name, added.outputs[0].type = "y", ir.TensorType(ir.DataType.FLOAT)
    graph = ir.Graph([x], added.outputs, nodes=[filled, total, added], initializers=[size], opset_imports={"": 18})
    content = serialize.to_bytes(ir.Model(graph, ir_version=10))
    limits = opbridge.Limits(gigabytes=0.5)
    with (
        pytest.raises(opbridge.OpbridgeError),
        opbridge.session(content, isolated=limits, threads=1) as session,
    ):
        session.run(None, {"x": np.zeros(1, np.float32)})


# Bodies of models whose outputs are the memory of others.
SHARING = {
    "an input": ("r = Relu(x)", "x r"),
    "an input twice, by Identity": ("y = Identity(x)\nz = Identity(x)", "x y z"),
    "a view of an input": ("y = Flatten<axis=0>(x)\nz = Unsqueeze(x, zero)", "y z x"),
    "one value": ("r = Relu(x)\ny = Identity(r)\nz = Flatten<axis=0>(r)", "r y z"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", SHARING)
def test_outputs_that_share_their_memory_are_right_then_and_later(case):
    """Of sizes that malloc has in lists, at the top of its heap, and in mappings of their own, which it gives back."""
    body, outputs = SHARING[case]
    constants = {"zero": [0]} if "zero" in body else {}
    content = model_of(body, inputs="float[N] x", outputs=outputs, constants=constants).SerializeToString()
    kept = []
    with opbridge.session(content, isolated=True, threads=1) as session:
        for size in (3, 1000, 100_000, 1_000_000) * 2:
            x = np.random.default_rng(len(kept)).standard_normal(size, np.float32)
            expected = opbridge.session(content, threads=1).run(None, {"x": x.copy()})
            kept.append((expected, session.run(None, {"x": x})))
            x[:] = np.nan
    del session, x
    gc.collect()
    for expected, actual in kept:
        for one, other in zip(expected, actual, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_a_process_that_ends_amid_an_answer_costs_that_answer(tmp_path, monkeypatch):
    (tmp_path / "half_an_answer.py").write_text(
        "import sys, socket, time\n"
        "from opbridge.runtimes.messages import receive, send, until_closed\n"
        "def main():\n"
        "    connection = socket.socket(fileno=int(sys.argv[1]))\n"
        "    receive(until_closed(connection))\n"
        "    send(connection, {})\n"
        "    asked = receive(until_closed(connection))\n"
        "    send(connection, {'size': 100}, [b'half'])\n"
        "    time.sleep(asked['seconds'])\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for seconds, said in ((0, "The run crashed the process of the model"), (60, "exceeded the time limit of 0.5 s")):
        child = Child("half_an_answer", opbridge.Limits(seconds=0.5))
        child.start({}, [])
        _, read = child.ask({"seconds": seconds}, [])
        with pytest.raises(opbridge.RunError, match=said):
            read(100)
        assert not child.runs and child.process is None


# -- opbridge.verify --------------------------------------------------------------------------------------------------


class Twice(torch.nn.Module):
    def forward(self, x):
        return torch.cat([x, x])


HOSTILE = "aten::_reshape_alias"
"""It reads where it is told to, so that no file may name it by itself."""


@pytest.fixture
def hostile(tmp_path):
    from kernels.aten_calls import node_model

    from opbridge.onnx import serialize

    one = torch.zeros(1)
    model, _ = node_model(torch.ops.aten._reshape_alias.default, [one, [2], [2**40]], {}, torch.zeros(2))
    path = tmp_path / "hostile.onnx"
    path.write_bytes(serialize.to_bytes(model))
    return path


@pytest.mark.slow
def test_a_verification_runs_the_file_in_a_process_of_its_own(exported, hostile):
    assert opbridge.verify(exported, Model(), (X,), isolated=True).ok
    found = opbridge.verify(hostile, Twice(), (torch.zeros(1),), isolated=opbridge.Limits(seconds=60), aten=HOSTILE)
    assert not found.ok and "crashed the process of the model (SIGSEGV)" in str(found.runs[0].failure)
    with pytest.raises(opbridge.UsageError, match="isolated='yes' is invalid; expected True or"):
        opbridge.verify(exported, Model(), (X,), isolated="yes")


class Scaled(torch.nn.Module):
    """Bags of words and a triangle, times a number."""

    def __init__(self, factor):
        super().__init__()
        torch.manual_seed(0)
        self.bag, self.factor = torch.nn.EmbeddingBag(10, 4), factor

    def forward(self, words, begins, x):
        return torch.triu(x) * self.factor, self.bag(words, begins * 1) * self.factor


@pytest.mark.slow
@pytest.mark.parametrize("output", [0, 1])
def test_the_operator_that_differs_is_looked_for_among_those_that_bear_any_values(tmp_path, output):
    class One(torch.nn.Module):
        def __init__(self, factor):
            super().__init__()
            self.both = Scaled(factor)

        def forward(self, words, begins, x):
            return self.both(words, begins, x)[output]

    path = tmp_path / "model.onnx"
    args = (torch.tensor([1, 2, 3]), torch.tensor([0, 2]), X)
    opbridge.export(One(2), args, path, routes={"aten::triu": "aten"}, verify=False)
    found = opbridge.verify(path, One(3), args, isolated=True)
    assert not found.ok
    if output == 0:
        assert found.difference.operator.startswith("aten::mul")
    else:
        assert found.difference is None and "in this process on values of the file" in " ".join(found.notes)


@pytest.mark.slow
def test_the_command_line_takes_it_too(exported, hostile, tmp_path, capsys):
    from opbridge.cli import main

    spec = tmp_path / "isolated_model.py"
    spec.write_text(
        "import torch\n"
        "class Twice(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return torch.cat([x, x])\n"
        "def build():\n"
        "    return Twice(), (torch.zeros(1),)\n"
    )
    command = ["verify", str(hostile), f"{spec}:build", "--aten", HOSTILE]
    assert main([*command, "--isolated", "--limit-seconds", "60", "--limit-gigabytes", "2"]) == 1
    assert "crashed the process of the model (SIGSEGV)" in " ".join(capsys.readouterr().out.split())
    assert main([*command, "--limit-seconds", "60"]) == 2
    assert "--limit-seconds is valid only with --isolated" in capsys.readouterr().err
    assert main([*command, "--isolated", "--limit-gigabytes", "0"]) == 2
    assert "is invalid; expected numbers above 0" in capsys.readouterr().err
