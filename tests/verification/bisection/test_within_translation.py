"""Tests of opbridge.bisect within Loops that are the translation of one operator."""

import subprocess
import sys

import onnx
import pytest
import torch

import opbridge
from opbridge.onnx.subgraphs import bodies
from opbridge.verification.bisection import fresh_translation

_BOXES = torch.tensor([[0.0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30], [21, 21, 31, 31], [40, 40, 50, 50]])
_SCORES = torch.tensor([0.9, 0.8, 0.7, 0.6, 0.5])
_PLACES = torch.zeros((2, 8), dtype=torch.int64)
_OLD = {"opset_version": 15}
_RTX = {"target": "tensorrt-rtx"}
_BATCH = {"dynamic_shapes": {"x": {0: "batch"}}}


class _Adding(torch.nn.Module):
    """Two translations with a Loop, of which the second begins with other numbers in the names of its nodes."""

    def forward(self, x, places):
        x = x.scatter_reduce(0, places, x[:2] * 3, "sum") + 1
        return x.scatter_reduce(0, places, torch.ones_like(x[:2]) * 0.5, "sum")


class _Stored(torch.nn.Module):
    """A constant among what the operator reads."""

    def __init__(self):
        super().__init__()
        self.register_buffer("places", _PLACES)

    def forward(self, x):
        return x.scatter_reduce(0, self.places, x[:2] * 3, "prod") + 1


class _Suppressing(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.nms = pytest.importorskip("torchvision").ops.nms

    def forward(self, boxes, scores):
        return boxes[self.nms(boxes, scores, 0.5)] + 1


class _Cholesky(torch.nn.Module):
    """The body of a function."""

    def forward(self, x):
        return torch.linalg.cholesky(x @ x.transpose(-1, -2) + torch.eye(6)).exp()


class _Module(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = _Cholesky()

    def forward(self, x):
        return self.inner(x) * 2


class _Repeated(torch.nn.Module):
    """A Loop within a captured loop."""

    def forward(self, x, count):
        for _ in range(int(count)):
            x = torch.tanh(torch.linalg.cholesky(x @ x.T + torch.eye(6)))
        return x


def _loops(nodes):
    """The bodies of Loops that hold no other one."""
    for node in nodes:
        for body in bodies(node):
            inner = list(_loops(body.node))
            yield from inner or ([body] if node.op_type == "Loop" else [])


@pytest.fixture
def planted(tmp_path):
    def make(model, args, old, new, options):
        """The file of a model in which the first node of an operator in the last Loop is another one."""
        path = tmp_path / "model.onnx"
        opbridge.export(model, args, path, verify=False, **options)
        loaded = onnx.load(path)
        loops = [each for held in (loaded.graph, *loaded.functions) for each in _loops(held.node)]
        node = next(each for each in loops[-1].node if each.op_type == old)
        if callable(new):
            new(loaded, node)
        else:
            node.op_type = new
        onnx.save(loaded, path)
        return path, node.name or node.output[0]

    return make


def _numbers(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "args", "options", "old", "new", "operator", "within"),
    [
        (_Adding, (_numbers(6, 8), _PLACES), _OLD, "Add", "Sub", "aten::scatter_reduce.two", ["Loop"]),
        (_Stored, (_numbers(6, 8),), _OLD, "Mul", "Add", "aten::scatter_reduce.two", ["Loop"]),
        (_Suppressing, (_BOXES, _SCORES), _RTX, "Greater", "Less", "torchvision::nms", ["Loop"]),
        (_Cholesky, (_numbers(6, 8),), {}, "Sub", "Add", "aten::linalg_cholesky", ["function", "Loop"]),
        (_Cholesky, (_numbers(3, 6, 8),), _BATCH, "Sub", "Add", "aten::linalg_cholesky", ["function", "Loop"]),
        (_Module, (_numbers(6, 8),), {}, "Div", "Mul", "aten::linalg_cholesky", ["function", "Loop"]),
        (
            _Repeated,
            (_numbers(6, 6), torch.tensor(3)),
            {},
            "Sub",
            "Add",
            "aten::linalg_cholesky",
            ["Loop", "function", "Loop"],
        ),
    ],
)
def test_the_node_in_the_loop_is_named_with_the_operator_and_its_line(
    planted, model, args, options, old, new, operator, within
):
    path, name = planted(model().eval(), args, old, new, options)
    found = opbridge.bisect(path, model().eval(), args, isolated=False)
    culprit = found.culprit
    assert not found.ok and culprit is not None and culprit.alone and culprit.inputs_agree, found
    assert [(each.operator, each.node) for each in culprit.operators[1:]] == [(new, name)]
    assert culprit.operators[0].operator == operator and culprit.first is culprit.operators[1]
    file = "boxes.py:" if operator == "torchvision::nms" else "test_within_translation.py:"
    assert file in culprit.operators[0].source
    assert [each.partition(" ")[0] for each in culprit.within] == within
    assert f"opbridge's translation of {operator}, which agrees with PyTorch" in str(found)


@pytest.mark.slow
def test_the_reproducer_shows_the_node_in_the_loop(planted, tmp_path):
    model, args = _Adding().eval(), (_numbers(6, 8), _PLACES)
    path, _ = planted(model, args, "Add", "Sub", _OLD)
    found = opbridge.bisect(path, model, args, isolated=False, reproduce=tmp_path / "case")
    assert {each.name for each in found.files} == {"expected.onnx", "actual.onnx", "inputs.npz", "reproduce.py"}
    assert [each.op_type for each in onnx.load(tmp_path / "case" / "actual.onnx").graph.node] == ["Sub"]
    script = (tmp_path / "case" / "reproduce.py").read_text()
    assert "expected is opbridge's translation of aten::scatter_reduce.two (onnxruntime" in script
    done = subprocess.run([sys.executable, "reproduce.py"], cwd=tmp_path / "case", capture_output=True, text=True)
    assert done.returncode == 1 and "Mismatched elements" in done.stderr


def _is_named_as_a_whole(path, model, args, operator):
    culprit = opbridge.bisect(path, model, args, isolated=False).culprit
    assert culprit.alone and culprit.operators[0].operator == operator and culprit.within == () and not culprit.note
    assert "test_within_translation.py:" in culprit.operators[0].source
    return culprit


@pytest.mark.slow
def test_an_operator_whose_loop_has_other_nodes_is_named_as_a_whole(planted):
    def changed(loaded, node):
        (loop,) = [each for each in loaded.graph.node if each.op_type == "Loop"]
        (body,) = bodies(loop)
        added = onnx.helper.make_node("Neg", [node.output[0]], ["negative"])
        for each in body.node:
            each.input[:] = ["negative" if name == node.output[0] else name for name in each.input]
        body.node.insert(list(body.node).index(node) + 1, added)

    class Model(torch.nn.Module):
        def forward(self, x, places):
            return x.scatter_reduce(0, places, x[:2] * 3, "sum") + 1

    args = (_numbers(6, 8), _PLACES)
    path, _ = planted(Model().eval(), args, "Add", changed, _OLD)
    culprit = _is_named_as_a_whole(path, Model().eval(), args, "aten::scatter_reduce.two")
    assert "Loop" in [each.operator for each in culprit.operators]


@pytest.mark.slow
def test_the_node_is_named_where_the_runtime_computes_the_translation_wrongly_itself(planted):
    """With onnx 1.23, the reference evaluator ends the Loop too early, with the nodes of the new translation too."""
    model, args = _Stored().eval(), (_numbers(6, 8),)
    path, name = planted(model, args, "Mul", "Add", _OLD)
    found = opbridge.bisect(path, model, args, isolated=False, runtime="reference")
    assert found.culprit.alone and "Loop" in str(found.culprit.within)
    assert [(each.operator, each.node) for each in found.culprit.operators[1:]] == [("Add", name)]


@pytest.mark.slow
def test_an_operator_whose_translation_is_wrong_is_named_as_a_whole(planted, monkeypatch):
    """What opbridge makes of it now differs from PyTorch as the file does, so that it says nothing of the nodes."""
    monkeypatch.setattr(fresh_translation, "with_names_of", lambda model, part: part)
    model, args = _Cholesky().eval(), (_numbers(6, 8),)
    path, _ = planted(model, args, "Sub", "Add", {})
    _is_named_as_a_whole(path, model, args, "aten::linalg_cholesky")
