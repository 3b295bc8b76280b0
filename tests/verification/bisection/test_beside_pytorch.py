"""Tests of opbridge.bisect between a file and PyTorch."""

import math
import subprocess
import sys

import onnx
import pytest
import torch

import opbridge
from opbridge.errors import UsageError


class _Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, x):
        y = torch.sin(self.first(x))
        return torch.tanh(self.second(y)) + y


class _Branching(torch.nn.Module):
    def forward(self, x):
        x = torch.sin(x)
        if x.sum() > -1000:
            x = torch.cos(x) * 2
            return torch.tanh(x)
        return x


@pytest.fixture
def planted(tmp_path):
    def make(module, old, new, metadata=True):
        torch.manual_seed(0)
        model, args = module().eval(), (torch.randn(3, 8),)
        path = tmp_path / "model.onnx"
        opbridge.export(model, args, path, verify=False)
        loaded = onnx.load(path)
        nodes = list(loaded.graph.node)
        for node in nodes:
            nodes += [each for attribute in node.attribute for each in attribute.g.node]
        (node,) = [each for each in nodes if each.op_type == old]
        node.op_type = new
        if not metadata:
            for each in nodes:
                del each.metadata_props[:]
        onnx.save(loaded, path)
        return path, model, args, node.name

    return make


@pytest.mark.slow
@pytest.mark.parametrize("metadata", [True, False])
def test_the_operator_is_named_with_its_line(planted, metadata, tmp_path):
    path, model, args, name = planted(_Net, "Tanh", "Sigmoid", metadata)
    found = opbridge.bisect(path, model, args, isolated=False, reproduce=tmp_path / "case")
    culprit = found.culprit
    assert not found.ok and culprit.alone and culprit.operators[0].operator == "aten::tanh"
    assert name in [each.node for each in culprit.operators]
    assert "test_beside_pytorch.py:" in culprit.operators[0].source
    assert any("do not" in note or "does not record" in note for note in found.notes) is not metadata
    done = subprocess.run([sys.executable, "reproduce.py"], cwd=tmp_path / "case", capture_output=True, text=True)
    assert done.returncode == 1 and "Mismatched elements" in done.stderr


@pytest.mark.slow
def test_values_that_the_search_has_fetched_are_not_fetched_again(planted):
    class Short(torch.nn.Module):
        def forward(self, x):
            return torch.exp(torch.tanh(x + 1))

    path, model, args, name = planted(Short, "Tanh", "Sigmoid")
    found = opbridge.bisect(path, model, args, isolated=False)
    assert found.culprit.alone and name in [each.node for each in found.culprit.operators]
    assert found.nodes == 3 and found.runs <= 2 * math.log2(found.nodes) + 4


@pytest.mark.slow
def test_an_operator_of_the_branch_that_is_taken_is_named(planted):
    path, model, args, name = planted(_Branching, "Cos", "Exp")
    found = opbridge.bisect(path, model, args, isolated=False)
    assert found.culprit.operators[0].operator == "aten::cos" and found.culprit.alone
    assert name in [each.node for each in found.culprit.operators]


@pytest.mark.slow
def test_a_decision_that_is_taken_otherwise_is_named(planted):
    path, model, args, name = planted(_Branching, "Greater", "Less")
    found = opbridge.bisect(path, model, args, isolated=False)
    assert not found.ok and found.culprit.operators[0].operator == "aten::gt.Scalar" and found.culprit.alone
    assert name in [each.node for each in found.culprit.operators]


@pytest.mark.slow
def test_a_file_that_agrees_has_no_culprit(tmp_path):
    model, args = _Net().eval(), (torch.randn(3, 8),)
    opbridge.export(model, args, tmp_path / "model.onnx", verify=False)
    found = opbridge.bisect(tmp_path / "model.onnx", model, args, isolated=False)
    assert found.ok and found.culprit is None
    with pytest.raises(UsageError, match="valid only for files"):
        opbridge.bisect(tmp_path / "model.onnx", model, args, against="reference")
    with pytest.raises(UsageError, match="cannot be compared with the PyTorch model"):
        opbridge.bisect(tmp_path / "model.onnx", lambda x, y: x + y, (args[0], args[0]), isolated=False)


def test_what_is_no_model_is_refused(tmp_path):
    with pytest.raises(UsageError, match="expects a torch.nn.Module"):
        opbridge.bisect(tmp_path / "model.onnx", 3)
