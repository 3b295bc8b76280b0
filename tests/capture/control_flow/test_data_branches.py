"""Models that decide by data: the file decides as the model does."""

from __future__ import annotations

import signal

import onnx
import pytest
import torch
from helpers.rows import one_in
from models.deciding import DECIDING, Deciding
from torch.utils import _pytree as pytree

import opbridge
from opbridge.capture import capture
from opbridge.errors import CaptureError


def _nodes(graph: onnx.GraphProto, kind: str) -> int:
    inner = [each.g for node in graph.node for each in node.attribute if each.HasField("g")]
    return sum(node.op_type == kind for node in graph.node) + sum(_nodes(each, kind) for each in inner)


def _assert_decides(path, deciding: Deciding, inputs) -> None:
    session = opbridge.session(path)
    for each in inputs:
        with torch.no_grad():
            expected = pytree.tree_leaves(deciding.model(each.clone()))
        found = session.run(None, {session.get_inputs()[0].name: each.numpy()})
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(torch.from_numpy(one), other, rtol=1e-4, atol=1e-5)


def _assert_has(path, deciding: Deciding, decisions: int, loops: int) -> None:
    """There are as many decisions and loops in a file as the model has."""
    given = 1 if deciding.name == "around_a_cond" else 0
    graph = onnx.load(path).graph
    assert _nodes(graph, "If") >= decisions + given
    assert (decisions == 0) == (_nodes(graph, "If") == 0)
    # What is run of an iteration that leaves two loops may have the inner one in several places.
    assert _nodes(graph, "Loop") == loops or (decisions and _nodes(graph, "Loop") > loops > 1)


@pytest.mark.slow
@pytest.mark.parametrize("deciding", one_in(3, DECIDING), ids=lambda each: each.name)
def test_the_file_takes_the_path_that_the_model_takes(deciding, tmp_path):
    """For any number of rows, where that may vary."""
    path = tmp_path / "model.onnx"
    shapes = ({0: "rows"},) if deciding.dynamic else None
    opbridge.export(deciding.model, (deciding.inputs[0],), path, dynamic_shapes=shapes, verify=False)
    inputs = [*deciding.inputs]
    if deciding.dynamic:
        inputs += [torch.cat([each, each[:2] * 0.5]) for each in deciding.inputs[::4]]
        inputs += [each[:1] for each in deciding.inputs[::4]]
    _assert_decides(path, deciding, inputs)
    _assert_has(path, deciding, deciding.decisions + deciding.no_rows, deciding.loops)


@pytest.mark.slow
@pytest.mark.parametrize(
    "deciding", [each for each in DECIDING if each.rows or each.no_rows], ids=lambda each: each.name
)
def test_rows_whose_number_may_not_vary_are_no_loop_and_no_decision(deciding, tmp_path):
    path = tmp_path / "model.onnx"
    opbridge.export(deciding.model, (deciding.inputs[0],), path, verify=False)
    _assert_decides(path, deciding, deciding.inputs)
    _assert_has(path, deciding, deciding.decisions, 0)


@pytest.mark.slow
def test_export_verifies_a_model_that_decides(tmp_path):
    deciding = next(each for each in DECIDING if each.name == "OneOfTwoLayers")
    result = opbridge.export(deciding.model, (deciding.inputs[0],), tmp_path / "model.onnx")
    assert "1 condition that depends on data, both branches in the file" in str(result.plan)


@pytest.mark.slow
def test_ten_decisions_in_a_row_take_twelve_captures(monkeypatch):
    from opbridge.capture import all_paths

    counts = []

    def explore(paths, run, module, limits, **settings):
        original(paths, lambda answers: counts.append(paths.joined) or run(answers), module, limits, **settings)

    original = all_paths.explore
    monkeypatch.setattr(all_paths, "explore", explore)

    def model(x):
        for i in range(10):
            if x[i].sum() > 0:
                x = x * 1.5 + i
        return x

    taken = capture(model, torch.randn(10, 2))
    assert len(counts) <= 12 and all(counts)
    assert sum("cond" in str(node.target) for node in taken.graph.graph.nodes) == 10


@pytest.mark.slow
def test_a_loop_behind_a_decision_takes_as_many_captures_as_any(monkeypatch):
    from opbridge.capture import all_paths

    counts = []

    def explore(paths, run, module, limits, **settings):
        original(paths, lambda answers: counts.append(paths.joined) or run(answers), module, limits, **settings)

    original = all_paths.explore
    monkeypatch.setattr(all_paths, "explore", explore)

    def model(x):
        if x.sum() > 0:
            for row in x[x[:, 0] > 0]:
                x = x * 0.9 + row
        return x

    taken = capture(model, torch.randn(3, 2))
    # One of the other side; three of the loop: some iterations, none and more; one that meets a decision at last.
    assert len(counts) <= 5 and all(counts)
    assert sum("while_loop" in str(node.target) for node in taken.graph.graph.nodes) <= 1


@pytest.mark.slow
def test_loops_in_loops_do_not_multiply_the_iterations_of_a_capture(monkeypatch):
    from opbridge.capture.control_flow import path_explorer

    runs = []
    original = path_explorer.BranchOracle
    monkeypatch.setattr(
        path_explorer, "BranchOracle", lambda *args, **named: runs.append(original(*args, **named)) or runs[-1]
    )

    def model(x, n):
        first, second, third = x, x + 1, x + 2
        for i in range(n.item()):
            for _ in range(n.item()):
                first, second, third = second, third, first * 0.9 + i
        return first

    taken = capture(model, (torch.randn(2), torch.tensor(3)))
    assert sum("while_loop" in str(node.target) for node in taken.graph.graph.nodes) == 1
    asked = max(sum(mark.asks for mark in run.events) for run in runs)
    assert asked <= 60, asked


@pytest.mark.slow
def test_a_path_that_raises_is_none(tmp_path):
    def model(x):
        if x.isnan().any():
            raise ValueError("nan")
        assert x.sum() > 0
        return x + 1

    taken = capture(model, torch.ones(2))
    assert [note for note in taken.notes if "raises an error" in note]
    assert not any("cond" in str(node.target) for node in taken.graph.graph.nodes)


@pytest.mark.slow
def test_paths_that_return_other_dtypes_are_refused():
    def model(x):
        return x if x.sum() > 0 else x.long()

    given = r"one branch returns int64 of 1 dimension at .*, another float32 of 1 dimension"
    where = r"branches of the conditions at \S*test_data_branches\.py:\d+ return different structures"
    told = rf"{where}: {given}.*same dtypes and ranks"
    with pytest.raises(CaptureError, match=told):
        capture(model, torch.ones(2))


@pytest.mark.slow
def test_too_many_paths_are_refused_with_the_lines():
    def model(x):
        count = 0
        for i in range(7):
            if x[i] > 0:
                count += 2**i  # what follows is never the same
        return x * count

    with pytest.raises(CaptureError, match=r"more than 64 paths, at .*test_data_branches\.py:\d+ \(\d+ times\)"):
        capture(model, torch.ones(7))


def test_the_model_is_left_as_it_was():
    deciding = next(each for each in DECIDING if each.name == "Counting")
    before = dict(vars(deciding.model))
    capture(deciding.model, deciding.inputs[0])
    assert vars(deciding.model) == before


@pytest.mark.slow
def test_random_numbers_before_a_decision_that_ends_the_iterations_are_refused():
    def model(x):
        while True:
            x = x + torch.rand(2)
            if x.sum() > 30:
                return x

    with pytest.raises(CaptureError, match=r"draws random numbers .*test_data_branches\.py:\d+"):
        capture(model, torch.ones(2))


def test_a_variable_that_is_another_in_each_iteration_is_named():
    def model(x, n):
        name = ""
        for _ in range(n.item()):
            name += "a"
            x = x * 1.1 + len(name)
        return x

    with pytest.raises(
        CaptureError, match=r"'name' holds a different value in each iteration of the loop at .*\.py:\d+"
    ):
        capture(model, (torch.ones(2), torch.tensor(3)))


@pytest.mark.slow
def test_what_iterations_append_is_a_scan_output(tmp_path):
    def model(x):
        return torch.stack([row.cos() for row in x]), torch.cat([(row * 2)[None] for row in x])

    path = tmp_path / "model.onnx"
    opbridge.export(model, (torch.rand(3, 4),), path, dynamic_shapes=({0: "rows"},), verify=False)
    loops = [node for node in onnx.load(path).graph.node if node.op_type == "Loop"]
    assert len(loops) == 2
    for loop in loops:
        (body,) = (each.g for each in loop.attribute)
        assert len(body.output) == len(body.input)  # one more than is carried: the condition, and the rows
        assert "Concat" not in {node.op_type for node in body.node}


def _attention(ends, q):
    lengths = ends[1:] - ends[:-1]
    splits = [torch.split(each, lengths.tolist(), dim=2) for each in (q, q * 2, q + 1)]
    found = [((a @ b.mT).softmax(-1) @ c).transpose(1, 2) for a, b, c in zip(*splits)]  # noqa: B905
    return torch.cat(found, dim=1).reshape(q.shape[2], -1)


def _offsets(ends, q):
    found, begin = [], 0
    for length in (ends[1:] - ends[:-1]).tolist():
        found.append(q[:, :, begin : begin + length].softmax(2))
        begin += length
    return torch.cat(found, 2)


@pytest.mark.slow
@pytest.mark.parametrize("model", [_attention, _offsets], ids=["split", "offsets"])
def test_parts_of_a_sequence_in_iterations(model, tmp_path):
    def inputs(*lengths):
        return torch.tensor([0, *lengths]).cumsum(0), torch.rand(1, 2, sum(lengths), 4)

    path = tmp_path / "model.onnx"
    opbridge.export(model, inputs(2, 3), path, dynamic_shapes=({0: "ends"}, {2: "length"}), verify=False)
    session = opbridge.session(path)
    for given in (inputs(2, 3), inputs(4), inputs(1, 1, 1), inputs(5, 2, 1, 7), inputs(*[2] * 9)):
        (found,) = session.run(None, dict(zip(("ends", "q"), (each.numpy() for each in given), strict=True)))
        torch.testing.assert_close(torch.from_numpy(found), model(*given))


@pytest.mark.slow
@pytest.mark.parametrize(
    "use",
    [
        lambda found, x: torch.stack(found[-4:]),
        lambda found, x: x * sum(1 for _ in found),
        lambda found, x: torch.stack(found[::2]),
    ],
    ids=["the last ones", "counted", "every other one"],
)
def test_what_is_read_of_a_list_depends_on_the_number_of_iterations(use):
    def model(x, n):
        found = []
        for i in range(n.item()):
            found.append(x * i)
        return use(found, x)

    session = opbridge.export(model, (torch.ones(2), torch.tensor(3)), verify=False).session()
    for count in (1, 2, 3, 8):
        given = torch.rand(2), torch.tensor(count)
        (found,) = session.run(None, dict(zip(("x", "n"), (each.numpy() for each in given), strict=True)))
        torch.testing.assert_close(torch.from_numpy(found), model(*given))


@pytest.mark.slow
def test_a_loop_that_counts_in_an_attribute_is_refused():
    class Model(torch.nn.Module):
        def forward(self, x):
            self.iterations = 0
            while True:
                self.iterations += 1
                x = x * self.iterations
                if x.sum() > 30:
                    return x

    with pytest.raises(
        CaptureError,
        match=r"more than \d+ data-dependent conditions in one run, for example at .*test_data_branches\.py:\d+",
    ):
        capture(Model(), torch.ones(2))


_COUNTED = [0]


def _count(*given):
    _COUNTED[0] += 1


@pytest.mark.slow
def test_a_handler_of_signals_that_runs_amid_a_loop_is_none_of_the_models_code(tmp_path):
    """Profilers and timeouts have one, whose own variables change from one iteration to the next."""

    def model(x):
        for row in x:
            signal.raise_signal(signal.SIGUSR1)
            x = x * 0.9 + row
        return x

    kept = signal.signal(signal.SIGUSR1, _count)
    try:
        opbridge.export(
            model, (torch.randn(4, 2),), tmp_path / "model.onnx", dynamic_shapes=({0: "rows"},), verify=False
        )
    finally:
        signal.signal(signal.SIGUSR1, kept)
    assert _COUNTED[0] and _nodes(onnx.load(tmp_path / "model.onnx").graph, "Loop") == 1


def test_a_loop_that_a_break_ends():
    def doubled(x):
        while True:
            x = x * 2
            if x.sum() > 10:
                break
        return x

    session = opbridge.export(doubled, (torch.ones(2),), verify=False).session()
    for x in (torch.ones(2), torch.full((2,), 0.1), torch.full((2,), 9.0)):
        (found,) = session.run(None, {"x": x.numpy()})
        assert torch.equal(torch.from_numpy(found), doubled(x))
