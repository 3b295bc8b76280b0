"""Writes become values, and what depends on no input is told apart."""

from __future__ import annotations

import functools
import operator

import pytest
import torch
from helpers.matching import assert_matches
from helpers.running import run

import opbridge
from opbridge.capture import capture
from opbridge.capture.exported_programs import from_exported_program, without_writes
from opbridge.capture.functionalize import functionalize
from opbridge.capture.tracer.rewriting import rewritten
from opbridge.errors import CaptureError
from opbridge.graph.operators import functional_name


def _functionalized(function, *args):
    class Model(torch.nn.Module):
        def forward(self, *given):
            return function(*given)

    program = torch.export.export(Model(), args)
    graph = from_exported_program(program)
    return graph, functionalize(graph, frozenset(), functools.partial(without_writes, program))


def _write_through_a_view(x):
    y = x.clone()
    y[:, 0] = 5
    return y


def _write_seen_through_a_view(x):
    y = x.clone()
    view = y.t()
    y.add_(1)
    return view * 2


def _write_to_a_view_of_a_view(x):
    y = x + 0
    y[1:][:, :2].mul_(3)
    return y, y.sum()


def _chain_in_place(x):
    y = x * 2
    y.relu_()
    y.add_(1)
    z = y
    z.mul_(y)
    return y


def _write_between_two_reads(x):
    y = x * 1
    before = y + 1
    y.neg_()
    return before, y, x


def _swap(x):
    a, b = x[0].clone(), x[1].clone()
    a.copy_(b)
    b.zero_()
    return a, b


def _write_to_one_of_two_parts(x):
    y = x.clone()
    a, b = y[0], y[1]
    a.add_(1)
    return b + 0, a * 2


def _write_under_no_grad(x):
    y = x * 1
    with torch.no_grad():
        y.add_(1)
    return y


def _index_put(x):
    y = x.clone()
    y[torch.tensor([0, 2])] = -1.0
    return y


@pytest.mark.parametrize(
    "function",
    [
        _write_through_a_view,
        _write_seen_through_a_view,
        _write_to_a_view_of_a_view,
        _chain_in_place,
        _write_between_two_reads,
        _swap,
        _write_to_one_of_two_parts,
        _write_under_no_grad,
        _index_put,
    ],
)
def test_writes_give_what_pytorch_gives(function):
    assert_matches(function, torch.randn(4, 4), others=[(torch.randn(4, 4),)])


def test_in_place_without_views_needs_no_rewriting():
    graph, functional = _functionalized(_chain_in_place, torch.randn(3))
    assert functional.graph is graph
    assert len(functional.rebinds) == 3


@pytest.mark.slow
def test_a_write_through_a_view_is_rewritten():
    graph, functional = _functionalized(_write_through_a_view, torch.randn(3, 3))
    assert functional.graph is not graph
    assert not functional.rebinds


def test_a_write_to_a_part_along_a_dynamic_dimension():
    def model(x):
        y = x.clone()
        first, second, _ = y.tensor_split(3, -2)
        first.mul_(2)
        second.add_(first[:1])
        return y

    others = [(torch.randn(size, 2),) for size in (2, 3, 5, 6, 9)]
    assert_matches(model, torch.randn(4, 2), others=others, dynamic_shapes={"x": {0: torch.export.Dim("n", min=2)}})


def test_constants_written_to_are_evaluated():
    def masked(x):
        mask = x.new_zeros(4, 4)
        for part in (slice(0, 2), slice(2, 4)):
            mask[part, 1] = 7
        return x + mask

    graph, functional = _functionalized(masked, torch.randn(4, 4))
    assert functional.graph is graph, "writes to constants happen at export and need no rewriting"
    varying = [node for node in graph.graph.nodes if node.op == "call_function" and node not in functional.constant]
    assert [str(node.target) for node in varying] == ["aten.add.Tensor"]
    assert len(assert_matches(masked, torch.randn(4, 4)).model.graph) == 1


def test_a_constant_that_an_input_is_written_into_is_none():
    def filled(x):
        table = torch.zeros(4)
        early = table + 1
        table.add_(x)
        return early, table

    assert_matches(filled, torch.randn(4), others=[(torch.randn(4),)])


def test_random_numbers_are_no_constants():
    graph, functional = _functionalized(lambda x: x + torch.rand(3), torch.randn(3))
    assert not functional.constant & {node for node in graph.graph.nodes if "rand" in node.name}


def test_buffers_are_left_as_they_are():
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(3))

        def forward(self, x):
            self.seen.add_(x)
            return self.seen * 2

    model = Counting()
    x = torch.ones(3)
    program = opbridge.export(model, (x,), verify=False)
    assert model.seen.tolist() == [0, 0, 0]
    assert any("seen" in note for note in program.plan.notes)
    (got,) = run(program, (x,))
    assert got.tolist() == [2, 2, 2]


def test_writing_to_an_input_is_said():
    program = opbridge.export(lambda x: x.add_(1), (torch.zeros(2),), verify=False)
    assert any("input" in note for note in program.plan.notes)
    (got,) = run(program, (torch.zeros(2),))
    assert got.tolist() == [1, 1]


def test_writing_to_an_input_or_a_buffer_through_a_view_is_said():
    class Filling(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(3))

        def forward(self, x):
            self.seen[0] += x.sum()
            x[1:].add_(1)
            return self.seen * x

    notes = " ".join(opbridge.check(Filling(), (torch.zeros(3),)).notes)
    assert "writes to its input 'x'" in notes
    assert "updates seen" in notes


@pytest.mark.parametrize(
    ("operator", "functional"),
    [
        ("aten::add_.Tensor", "aten::add.Tensor"),
        ("aten::relu_", "aten::relu"),
        ("aten::__iand__.Tensor", "aten::__and__.Tensor"),
        ("aten::add.Tensor", None),
        ("aten::__and__.Tensor", None),
    ],
)
def test_functional_names(operator, functional):
    assert functional_name(operator) == functional


def test_a_write_to_memory_that_two_buffers_share_is_refused():
    class Shared(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.zeros(3, 2))
            self.register_buffer("row", self.table[0])

        def forward(self, x):
            self.table.copy_(x)
            return self.row + 1

    with pytest.raises(CaptureError, match="memory that table, row share"):
        capture(Shared(), torch.ones(3, 2))


def test_a_truth_value_from_data_is_known_again_where_the_graph_is_rewritten():
    def model(x):
        y = torch.zeros_like(x)
        torch._check_tensor_all(x.abs() >= 0)
        view = y[:, 0]
        view.add_(x[:, 1])
        return y

    x = torch.randn(3, 4)
    assert_matches(model, x, others=[(torch.randn(5, 4),)], dynamic_shapes=({0: "n"},))


def test_a_write_to_what_dropout_returns_in_evaluation():
    def model(x):
        z = torch.nn.functional.dropout(x + 1, 0.1, training=False)
        z[x[:, 0] > 0] = 3
        return z * 2, torch.dropout(x, 0.5, False)

    assert_matches(model, torch.randn(3, 4))


def test_a_graph_that_runs_again_computes_the_same_sizes_in_the_same_path():
    """The memory of a tensor is no size that the model computes, though it may be the same number."""

    def model(boxes, scores):
        found = torch.cat([boxes[scores > 0.5], boxes[scores > 0.7]])
        return found * found.numel()

    graph = capture(model, (torch.randn(4, 4), torch.rand(4))).graph
    assert _arithmetic(graph) == [operator.mul] == _arithmetic(rewritten(graph, by_running=True))


def _arithmetic(graph):
    return [node.target for node in graph.graph.nodes if node.target in (operator.add, operator.sub, operator.mul)]


def _narrowed(x, start):
    y = torch.zeros(2, 4)
    y.view(4, 2)[0] += 1  # a view of what is written to, so that the graph is rewritten
    return x.narrow(0, start, 2) + y


@pytest.mark.parametrize("start", [0, 1, -2])
def test_a_part_of_a_tensor_where_a_tensor_says_in_a_graph_that_is_rewritten(start):
    assert_matches(_narrowed, torch.randn(5, 4), torch.tensor(start), others=[(torch.randn(5, 4), torch.tensor(2))])


def _narrowed_and_written(x, start):
    x = x.clone()
    part = x.narrow(0, start, 2)
    x.view(-1)[0] += 1
    return part + 1


def test_a_write_to_what_shares_memory_with_such_a_part_is_refused():
    def model(x, start):
        return _narrowed_and_written(x, start)

    with pytest.raises(
        CaptureError, match=r"writes in place to a tensor or to a part of it that narrow.*narrow\(...\).clone\(\)"
    ):
        capture(model, (torch.randn(5, 4), torch.tensor(1)))


def _written_part(x, start):
    y = x.clone()
    y.narrow(0, start, 2).add_(10)
    return y


def _written_part_of_a_split(x, start):
    y = x.clone()
    torch.tensor_split(y, start.reshape(1))[1].add_(1)
    return y


@pytest.mark.parametrize("model", [_written_part, _written_part_of_a_split])
def test_a_part_that_data_choose_is_not_written_to(model):
    with pytest.raises(CaptureError, match=r"writes.* (narrow|tensor_split)[^.]*\(\.\.\.\)(\[0\])?\.clone\(\)"):
        opbridge.check(model, (torch.rand(6, 2), torch.tensor(1)))


def test_a_split_that_data_choose_after_a_write():
    def model(x, start):
        return [each.relu() for each in torch.tensor_split(x.mul(2).relu_(), start.reshape(1))]

    assert_matches(model, torch.randn(6, 2), torch.tensor(1), others=[(torch.randn(6, 2), torch.tensor(4))])
