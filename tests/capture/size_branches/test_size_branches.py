import onnx
import pytest
import torch
from helpers.matching import assert_matches
from models.deciding_by_size import DECIDING_BY_SIZE, OneOrMore
from torch import nn

import opbridge
from opbridge.errors import OpbridgeError


def _named(example):
    return {"x": {axis: f"n{axis}" for axis in range(len(example))}}


def _given(sizes):
    return torch.randn(*sizes, 4)


def _agrees(session, model, x):
    (got,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    torch.testing.assert_close(torch.from_numpy(got), model(x))


@pytest.mark.slow
@pytest.mark.parametrize("each", DECIDING_BY_SIZE, ids=lambda each: each.name)
def test_all_branches_are_in_the_file(each):
    torch.manual_seed(1)
    program = opbridge.export(each.model, (_given(each.example),), dynamic_shapes=_named(each.example))
    assert not [note for note in program.plan.notes if "valid only for" in note]
    on_sizes = [decision for decision in program.plan.decisions if decision.on_sizes]
    assert len(on_sizes) == each.on_sizes
    assert len(program.plan.decisions) - len(on_sizes) == each.on_data
    assert not [each for each in program.verification.branches if not each.runs and "shape" in each.condition]
    session = program.session()
    for sizes in each.sizes:
        for _ in range(3):
            _agrees(session, each.model, _given(sizes))


def test_a_decision_is_told_in_sizes_of_the_inputs():
    plan = opbridge.check(OneOrMore().eval(), (_given((3,)),), dynamic_shapes={"x": {0: "batch"}})
    (decision,) = plan.decisions
    assert decision.condition == "x.shape[0] != 1"
    assert decision.sources[0].code.endswith("if x.shape[0] == 1 else self.right(x)")
    assert str(plan).count("1 condition that depends on sizes, both branches in the file") == 1


@pytest.mark.slow
def test_weights_are_stored_once():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(64, 64)

        def forward(self, x):
            return self.layer(x) * 2 if x.shape[0] == 1 else self.layer(x.flip(1))

    program = opbridge.export(Model().eval(), (torch.randn(3, 64),), dynamic_shapes={"x": {0: "batch"}})
    assert len(program.to_bytes()) < 1.5 * 64 * 64 * 4


def test_what_is_common_comes_once():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            x = self.layer(x).relu()
            return x * 2 if x.shape[0] == 1 else x - 1

    program = opbridge.export(Model().eval(), (_given((3,)),), dynamic_shapes={"x": {0: "batch"}})
    graph = onnx.load_from_string(program.to_bytes()).graph
    outside = [node.op_type for node in graph.node]
    assert outside.count("Relu") == 1 and outside.count("If") == 1
    inside = [
        node.op_type
        for node in graph.node
        for attribute in node.attribute
        if attribute.type == onnx.AttributeProto.GRAPH
        for node in attribute.g.node
    ]
    assert "Relu" not in inside


def test_a_branch_on_which_the_model_raises_is_none():
    def model(x):
        if x.shape[0] > 5:
            raise ValueError("too many")
        return x * 2

    program = opbridge.export(model, (_given((3,)),), dynamic_shapes={"x": {0: "batch"}})
    assert not program.plan.decisions
    assert any("only for batch <= 5" in note for note in program.plan.notes)


def test_a_branch_that_gives_another_rank_is_refused_with_the_line():
    def model(x):
        return x[0] if x.shape[0] == 5 else x * 2

    with pytest.raises(OpbridgeError, match=r"batch != 5 \(.*test_size_branches.py"):
        opbridge.export(model, (_given((3,)),), dynamic_shapes={"x": {0: "batch"}})


def test_a_range_that_the_user_gave_is_not_left():
    given = {"x": {0: torch.export.Dim("batch", min=2)}}
    plan = opbridge.check(OneOrMore().eval(), (_given((3,)),), dynamic_shapes=given)
    assert not plan.decisions


def test_no_further_capture_is_made_without_such_decisions(monkeypatch):
    from opbridge.capture import all_sizes

    monkeypatch.setattr(all_sizes, "capture_branches", lambda *args: pytest.fail("captured again"))
    opbridge.check(nn.Linear(4, 4), (_given((3,)),), dynamic_shapes={"input": {0: "batch"}})


class _SamplesOfFrames(nn.Module):
    """Three samples for each frame but the four at the ends."""

    def forward(self, samples, frames):
        spread = frames.repeat_interleave(3, 1)[:, 6:-6]
        found = samples.narrow(1, 0, spread.shape[1]) + spread
        return found * 2 if frames.shape[1] > 20 else found


@pytest.mark.slow
def test_a_dimension_that_follows_from_another_is_never_negative():
    def given(frames):
        return torch.randn(2, 3 * frames - 12), torch.randn(2, frames)

    shapes = ({0: "batch", 1: "3*frames - 12"}, {0: "batch", 1: "frames"})
    program = opbridge.export(_SamplesOfFrames(), given(9), dynamic_shapes=shapes)
    session = program.session()
    for frames in (30, 5):
        samples, others = given(frames)
        (got,) = session.run(None, {"samples": samples.numpy(), "frames": others.numpy()})
        torch.testing.assert_close(torch.from_numpy(got), _SamplesOfFrames()(samples, others))


def test_a_condition_in_the_other_branch_of_a_condition():
    def of_three_kinds(x):
        if x.shape[0] > 8:
            return x * 2
        return x + 1 if x.shape[0] > 4 else x - 1

    session = opbridge.export(of_three_kinds, (torch.ones(9),), dynamic_shapes=({0: "n"},), verify=False).session()
    for size in (1, 4, 5, 8, 9):
        _agrees(session, of_three_kinds, torch.ones(size))


@pytest.mark.slow
def test_a_size_of_one_that_matters_for_other_data_than_the_example():
    def decided(x):
        y = x if x.sum() > 0 else x.new_ones((1, 4))
        return y.sum(0) + (5 if len(y) == 1 else 0)

    others = [(sign * torch.rand(rows, 4),) for sign in (-1, 1) for rows in (1, 2, 7)]
    program = assert_matches(decided, -torch.rand(5, 4), others=others, dynamic_shapes=({0: "rows"},))
    assert not program.plan.notes


def _by_a_remainder(x, y):
    by = y.shape[0] % 4
    if by == 0:
        return x.sum(0)
    return x[: x.shape[0] // by].sum(0) * 2 if x.shape[0] % by == 0 else x.mean(0) * 3


def _by_a_quotient(x, y):
    by = y.shape[0] % 4
    return x.sum(0) * 2 if by != 0 and x.shape[0] // by > 2 else x.mean(0) * 3


@pytest.mark.slow
@pytest.mark.parametrize("example", [4, 3])
@pytest.mark.parametrize("model", [_by_a_remainder, _by_a_quotient])
def test_a_condition_divides_by_what_is_zero_for_other_sizes(model, example):
    others = [(torch.randn(rows, 2), torch.randn(by)) for rows in (1, 4, 6, 9) for by in range(1, 9)]
    shapes = {"x": {0: "rows"}, "y": {0: "by"}}
    assert_matches(model, torch.randn(6, 2), torch.randn(example), others=others, dynamic_shapes=shapes)
