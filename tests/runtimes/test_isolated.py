"""Sessions in a process of their own."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import pytest
import torch

import opbridge

X = torch.randn(3, 4)


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.triu(x) * 2, x.sum()


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    path = tmp_path_factory.mktemp("isolated") / "model.onnx"
    opbridge.export(Model(), (X,), path, routes={"aten::triu": "aten"})
    return path


def feeds(session):
    return {session.get_inputs()[0].name: X.numpy()}


def test_it_gives_what_a_session_of_this_process_gives(exported):
    inside = opbridge.session(exported)
    for model in (exported, exported.read_bytes()):
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


def test_the_end_of_its_process_costs_one_call(exported):
    with opbridge.session(exported, isolated=True, threads=1) as session:
        first = session.run(None, feeds(session))
        os.kill(session._process.pid, signal.SIGSEGV)
        with pytest.raises(opbridge.RunError, match=r"ended the process of the model \(SIGSEGV\)"):
            session.run(None, feeds(session))
        np.testing.assert_array_equal(session.run(None, feeds(session))[0], first[0])


def test_a_call_that_takes_too_long_is_ended(exported):
    with opbridge.session(exported, isolated=opbridge.Limits(seconds=0.5), threads=1) as session:
        session.run(None, feeds(session))
        os.kill(session._process.pid, signal.SIGSTOP)
        start = time.monotonic()
        with pytest.raises(opbridge.RunError, match=r"longer than the 0\.5 s"):
            session.run(None, feeds(session))
        assert time.monotonic() - start < 10
        session.run(None, feeds(session))


def test_a_call_that_takes_too_much_memory_is_an_error(tmp_path):
    class Large(torch.nn.Module):
        def forward(self, x):
            return x.expand(x.shape[0], 1 << 28).exp().sum(1)

    path = tmp_path / "large.onnx"
    opbridge.export(Large(), (torch.randn(1, 1),), path, dynamic_shapes=({0: "n"},), verify=False)
    session = opbridge.session(path, isolated=opbridge.Limits(gigabytes=0.5), threads=1)
    with session, pytest.raises(opbridge.RunError):
        session.run(None, {session.get_inputs()[0].name: np.zeros((2, 1), np.float32)})


def test_what_cannot_go_to_another_process_is_refused(exported, tmp_path):
    import onnxruntime

    with pytest.raises(opbridge.UsageError, match="options= do not go together"):
        opbridge.session(exported, isolated=True, options=onnxruntime.SessionOptions())
    with pytest.raises(opbridge.UsageError, match="neither True nor"):
        opbridge.session(exported, isolated="yes")
    with pytest.raises(opbridge.UsageError, match="allows nothing"):
        opbridge.Limits(seconds=0)
    with pytest.raises(opbridge.ModelFileError, match="missing"):
        opbridge.session(tmp_path / "missing.onnx", isolated=True)
