"""Tests of opbridge.bisect within loops, between a file and PyTorch."""

import math
import subprocess
import sys

import onnx
import pytest
import torch
from onnx import numpy_helper
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.scan import scan

import opbridge
from opbridge.graph.running import run_subgraph
from opbridge.verification.bisection import captured_loops

_ABOVE = torch.linspace(0.5, 1.5, 24).reshape(3, 8)
"""Values of which 0.1 can be taken five times before one of them is negative."""

_TURNS = torch.tensor(40)


class _Counted(torch.nn.Module):
    """The first iteration in which a value is negative is that of number 6."""

    def forward(self, x, n):
        y = torch.sin(x * 0) + x
        for _ in range(int(n)):
            y = torch.relu(y)
            y = y - 0.1
        return torch.tanh(y)


class _Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(64, 64)

    def forward(self, x):
        return torch.tanh(self.linear(x)) + x


class _Deciding(torch.nn.Module):
    """A branch within a loop, with weights that lie beside the graph while it is searched."""

    def __init__(self):
        super().__init__()
        self.layer = _Layer()

    def forward(self, x, n):
        for _ in range(int(n)):
            if x.sum() > -1000:
                x = self.layer(x)
                x = x - torch.sigmoid(x)
            else:
                x = torch.cos(x)
        return x


class _Ending(torch.nn.Module):
    def forward(self, x):
        y = torch.abs(x) + 0.1
        while y.sum() < 300:
            y = y * 1.5 + torch.exp(-y)
        return y.log()


class _Nested(torch.nn.Module):
    def forward(self, x, n):
        for _ in range(int(n)):
            y = x
            while y.sum() < 40:
                y = torch.exp(y * 0.1) + y
            x = torch.sin(y)
        return x


class _Collecting(torch.nn.Module):
    """What is appended becomes a further output of the Loop, and not a value that it carries."""

    def forward(self, x, n):
        found = []
        for _ in range(int(n)):
            x = torch.relu(x) - 0.1
            found.append(torch.exp(-x))
        return torch.stack(found) * 2, x


class _InBranch(torch.nn.Module):
    def forward(self, x, n):
        if x.sum() > -1000:
            for _ in range(int(n)):
                x = torch.tanh(x) * 1.2 + 0.1
        return x + 1


class _Scanning(torch.nn.Module):
    """The first row with a negative value is that of number 2."""

    def forward(self, x):
        rows = torch.cat([x.abs(), -x.abs() - 1])[1:6]
        last, each = scan(lambda total, row: (total + torch.relu(row), total * 2), torch.zeros(8), rows)
        return last + 1, each


class _Mapping(torch.nn.Module):
    def forward(self, x):
        return map_rows(lambda row: torch.tanh(row) * 2, x) + 1


class _Combining(torch.nn.Module):
    def forward(self, x):
        return associative_scan(lambda left, right: torch.maximum(left, right), x, 0, combine_mode="generic") + 1


def _nodes(graph):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            yield from _nodes(attribute.g)


def _in_bodies(model):
    """The nodes of Loops and Scans."""
    for node in model.graph.node:
        inner = [each for attribute in node.attribute for each in _nodes(attribute.g)]
        if node.op_type in ("Loop", "Scan"):
            yield from inner
        else:
            yield from (each for held in inner for attribute in held.attribute for each in _nodes(attribute.g))


@pytest.fixture
def planted(tmp_path):
    def make(model, args, old, change, **options):
        """A model and its file, in which the last node of an operator in a loop's body is changed."""
        torch.manual_seed(0)
        path = tmp_path / "model.onnx"
        opbridge.export(model, args, path, verify=False, **options)
        loaded = onnx.load(path)
        node = [each for each in _in_bodies(loaded) if each.op_type == old][-1]
        if isinstance(change, str):
            node.op_type = change
        else:
            change(loaded, node)
        onnx.save(loaded, path)
        return path, node.name

    return make


def _bisected(path, model, args, name, operator, **options):
    """What is found, if that is the node of the name by itself, and a line of this file."""
    found = opbridge.bisect(path, model, args, isolated=False, **options)
    culprit = found.culprit
    assert not found.ok and culprit is not None and culprit.alone and culprit.inputs_agree, found
    assert culprit.operators[0].operator == operator
    assert name in [each.node for each in culprit.operators]
    assert "test_captured_loops.py:" in culprit.operators[0].source
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "args", "old", "new", "operator", "within"),
    [
        (_Counted, (_ABOVE, _TURNS), "Relu", "Identity", "aten::relu", "Loop 'while_loop/Loop', iteration 6"),
        (_Collecting, (_ABOVE, _TURNS), "Less", "LessOrEqual", "_operator::lt", "Loop 'while_loop/Loop', iteration 39"),
        (_Ending, (_ABOVE,), "Exp", "Sigmoid", "aten::exp", "Loop 'while_loop/Loop', iteration 0"),
        (_Ending, (_ABOVE,), "ReduceSum", "ReduceMax", "aten::sum", None),
        (_Collecting, (_ABOVE, _TURNS), "Exp", "Tanh", "aten::exp", "Loop 'while_loop/Loop', iteration 0"),
        (_Collecting, (_ABOVE, _TURNS), "Relu", "Identity", "aten::relu", "Loop 'while_loop/Loop', iteration 6"),
        (_InBranch, (_ABOVE, _TURNS), "Tanh", "Sigmoid", "aten::tanh", "Loop 'while_loop/Loop', iteration 0"),
        (_Scanning, (_ABOVE,), "Relu", "Abs", "aten::relu", "Scan 'scan/Scan', iteration 2"),
        (_Scanning, (_ABOVE,), "Mul", "Add", "aten::mul.Tensor", "Scan 'scan/Scan', iteration 0"),
        (_Mapping, (_ABOVE,), "Tanh", "Sigmoid", "aten::tanh", "Scan 'map_impl/Scan', iteration 0"),
        (_Combining, (_ABOVE,), "Max", "Min", "aten::maximum", "Scan 'associative_scan/Scan', iteration 1"),
    ],
)
def test_the_operator_of_the_first_iteration_that_differs_is_named(planted, model, args, old, new, operator, within):
    path, name = planted(model().eval(), args, old, new)
    found = _bisected(path, model().eval(), args, name, operator)
    (holder,) = found.culprit.within
    assert holder == within or within is None
    assert found.runs <= 4 * math.log2(int(_TURNS)) + 24


@pytest.mark.slow
def test_each_iteration_runs_a_few_times_at_most(planted, monkeypatch):
    class Model(torch.nn.Module):
        def forward(self, x, n):
            for _ in range(int(n)):
                x = torch.relu(x) - 0.01
            return x

    args = (_ABOVE + 6.495, torch.tensor(1000))
    path, name = planted(Model(), args, "Relu", "Identity")
    count = 0

    def counted(*given):
        nonlocal count
        count += 1
        return run_subgraph(*given)

    monkeypatch.setattr(captured_loops, "run_subgraph", counted)
    found = _bisected(path, Model(), args, name, "aten::relu")
    assert found.culprit.within == ("Loop 'while_loop/Loop', iteration 700",)
    assert count <= 2 * 1000 and found.runs <= 4 * math.log2(1000) + 20


@pytest.mark.slow
def test_the_operator_of_a_loop_in_a_loop_is_named(planted):
    path, name = planted(_Nested().eval(), (_ABOVE, _TURNS), "Exp", "Sigmoid")
    found = _bisected(path, _Nested().eval(), (_ABOVE, _TURNS), name, "aten::exp")
    assert [each.partition("', ")[2] for each in found.culprit.within] == ["iteration 0", "iteration 0"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "operator"),
    [("Tanh", "Sin", "aten::tanh"), ("Gemm", None, "aten::linear"), ("Greater", "Less", "aten::gt.Scalar")],
)
def test_the_operator_of_a_branch_in_a_loop_is_named(planted, old, new, operator):
    def changed(loaded, node):
        (weight,) = [each for each in loaded.graph.initializer if each.name == node.input[2]]
        weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) + 1, weight.name))

    torch.manual_seed(0)
    model, args = _Deciding().eval(), (torch.randn(3, 64), torch.tensor(9))
    path, name = planted(model, args, old, new or changed)
    found = _bisected(path, model, args, name, operator)
    assert found.culprit.first.module.startswith("layer") or old == "Greater"
    assert found.culprit.within == ("Loop 'while_loop/Loop', iteration 0",)


@pytest.mark.slow
def test_a_constant_of_a_loop_is_found_with_a_reproducer(planted, tmp_path):
    def changed(loaded, node):
        (constant,) = [each for each in loaded.graph.initializer if each.name == node.input[1]]
        constant.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(constant) * 2, constant.name))

    path, name = planted(_Counted().eval(), (_ABOVE, _TURNS), "Sub", changed)
    found = _bisected(path, _Counted().eval(), (_ABOVE, _TURNS), name, "aten::sub.Tensor", reproduce=tmp_path / "case")
    assert {each.name for each in found.files} == {"part.onnx", "inputs.npz", "reproduce.py"}
    assert "opbridge" not in (tmp_path / "case" / "reproduce.py").read_text()
    done = subprocess.run([sys.executable, "reproduce.py"], cwd=tmp_path / "case", capture_output=True, text=True)
    assert done.returncode == 1 and "Mismatched elements" in done.stderr
    assert [each.op_type for each in onnx.load(tmp_path / "case" / "part.onnx").graph.node] == ["Sub"]


@pytest.mark.slow
def test_a_file_that_does_not_say_which_nodes_of_a_body_belong_together(planted):
    def changed(loaded, node):
        node.op_type = "Identity"
        for each in _in_bodies(loaded):
            del each.metadata_props[:]

    path, name = planted(_Counted().eval(), (_ABOVE, _TURNS), "Relu", changed)
    found = _bisected(path, _Counted().eval(), (_ABOVE, _TURNS), name, "aten::relu")
    assert found.culprit.within == ("Loop 'while_loop/Loop', iteration 6",)


@pytest.mark.slow
def test_the_node_that_begins_a_loop_otherwise_is_named(tmp_path):
    """The condition before the first iteration is no operator of the body, but a node of the loop's translation."""
    path, model, args = tmp_path / "model.onnx", _Ending().eval(), (_ABOVE,)
    opbridge.export(model, args, path, verify=False)
    loaded = onnx.load(path)
    (node,) = [each for each in loaded.graph.node if each.op_type == "Less"]
    node.op_type = "Greater"
    onnx.save(loaded, path)
    found = opbridge.bisect(path, model, args, isolated=False)
    assert found.culprit.operators[0].operator == "higher_order::while_loop" and found.culprit.within == ()
    assert [each.node for each in found.culprit.operators[1:]] == [node.name] and found.culprit.alone
