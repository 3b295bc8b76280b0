"""Questions that one path is asked, and whose answers another path knows: by an earlier answer, or by a constant."""

from __future__ import annotations

import pytest
import torch
from helpers.matching import assert_matches
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from opbridge.base.torch_private import torch_decisions
from opbridge.capture.control_flow.branch_oracle import BranchEvent
from opbridge.capture.control_flow.known_answers import AskedPlaces
from opbridge.capture.control_flow.known_numbers import is_known_as
from opbridge.capture.control_flow.path_tree import PathTree
from opbridge.capture.control_flow.unify_arguments import Computed
from opbridge.capture.control_flow.untaken_answers import UntakenAnswers


def _rows(count: int, of: int = 7) -> torch.Tensor:
    """Rows of which some begin with a positive number."""
    x = torch.rand(of, 4) - 0.5
    x[:, 0] = torch.where(torch.randperm(of) < count, 1.0, -1.0) * (x[:, 0].abs() + 0.1)
    return x


def _repeated(y: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    for _ in range(int(n.item())):
        y = y * 2
    return y


def a_branch_for_each_of_few(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    x = x[x[:, 0] > 0]
    if len(x) == 0:
        y = x.new_zeros((0, 4))
    elif len(x) == 1:
        y = x * 2
    else:
        y = x - x.mean(0)
    y = _repeated(y, n)
    return y / y.abs().max() if len(y) > 0 else y


def the_size_of_a_tensor_from_before(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    x = x[torch.nonzero(x[:, 0] > 0).squeeze(1)]
    scale = x.sum() if len(x) == 1 else x.mean(0).sum()
    scale = _repeated(scale, n)
    return (x * scale).sum(0) if len(x) > 0 else x.sum(0)


def one_two_or_all(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    x = x[x[:, 0] > 0]
    if len(x) == 1:
        y = torch.cat([x, x])
    elif len(x) == 0:
        y = x.new_ones((1, 4))
    else:
        y = x * 3
    y = _repeated(y, n)
    return (y + 100 if y.shape[0] == 1 else y)[-1]


def _picked(x: torch.Tensor) -> torch.Tensor:
    kept = torch.nonzero(x[:, 0] > 0).squeeze(1)
    if kept.numel() == 0:
        return x.new_zeros((0, 4))
    if kept.numel() == 1:
        return x[kept]
    return x[kept] - x[kept].mean(0)


def several_returns(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    y = _repeated(_picked(x), n)
    if y.shape[0] == 0:
        return x[:0].sum(0)
    return y.sum(0) if len(y) > 1 else y[0]


def the_best_two(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    y = x[x[:, 0] > 0]
    if y.shape[0] > 2:
        y = y[y[:, 0].topk(2).indices]
    elif y.shape[0] == 0:
        y = x.new_zeros((0, 4))
    y = _repeated(y, n)
    return y.flip(0) if y.shape[0] == 2 else y


def an_error_for_none(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    y = x[x[:, 0] > 0]
    y = y if y.shape[0] else x.new_ones((1, 2, 4))[0, :1]
    y = _repeated(y, n)
    if not len(y) > 0:
        raise ValueError("no rows")
    return y[0] + y[-1]


FORMS = [
    a_branch_for_each_of_few,
    the_size_of_a_tensor_from_before,
    one_two_or_all,
    several_returns,
    the_best_two,
    an_error_for_none,
]


@pytest.mark.slow
@pytest.mark.parametrize("model", FORMS, ids=lambda model: model.__name__)
def test_counts_that_no_run_has_had(model):
    others = [(_rows(count, of), torch.tensor(n)) for count, of, n in ((0, 7, 1), (1, 9, 0), (2, 9, 3), (7, 7, 1))]
    assert_matches(model, _rows(3), torch.tensor(2), others=others, dynamic_shapes=({0: "rows"}, None))


def a_dynamic_size_or_one(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    y = x if x.sum() > 0 else x.new_ones((1, 4))
    y = _repeated(y, n)
    return (y + 5 if len(y) == 1 else y).sum(0)


def a_dynamic_size_or_none(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    y = _repeated(x[:0] if x.sum() > 0 else x, n)
    return x.new_zeros(4) if len(y) == 0 else y.mean(0)


@pytest.mark.slow
@pytest.mark.parametrize("model", [a_dynamic_size_or_one, a_dynamic_size_or_none], ids=lambda model: model.__name__)
def test_sizes_of_the_inputs(model):
    others = [(sign * torch.rand(rows, 4), torch.tensor(n)) for sign in (-1, 1) for rows, n in ((1, 1), (2, 0), (7, 3))]
    assert_matches(model, torch.rand(5, 4), torch.tensor(2), others=others, dynamic_shapes=({0: "rows"}, None))


def many_selections(x: torch.Tensor) -> torch.Tensor:
    def picked(column: int) -> torch.Tensor:
        mask = x[:, column] > 0.1
        if not mask.any():
            return x.new_zeros((0, 4))
        rows = x[mask]
        return rows if len(rows) == 1 else rows.sort(0).values

    found = torch.cat([picked(column) for column in range(4)])
    return (found if len(found) else x.new_ones((1, 4))).sum(0)


@pytest.mark.thorough
def test_more_paths_than_may_be_kept_apart():
    others = [(_rows(count),) for count in (0, 1, 2, 7)] + [(-torch.rand(7, 4),), (torch.eye(7)[:, :4],)]
    assert_matches(many_selections, _rows(3), others=others, dynamic_shapes=({0: "rows"},))


def test_places_are_known_by_where_python_is_and_what_it_holds():
    asked = AskedPlaces([(("line 4", None), "held")])
    assert asked.has_at("line 4") and not asked.has_at("line 5")
    assert (("line 4", None), "held") in asked and (("line 4", None), "other") not in asked


def _event(place: str, answer: bool, *, is_known: bool = False) -> BranchEvent:
    return BranchEvent(place, answer, (), 0, unseen=(), is_known=is_known)


def test_an_answer_that_a_run_knows_is_not_asked_for_otherwise():
    paths = PathTree(joined=True)
    paths.add([_event("first", True), _event("second", True, is_known=True)], None)
    assert paths.asked == {"first"} and UntakenAnswers(paths).of_next_run() == (False,)
    paths.add([_event("first", False), _event("second", True)], None)
    assert paths.asked == {"first", "second"} and UntakenAnswers(paths).of_next_run() == (False, False)


def test_answers_that_contradict_each_other_are_left_out():
    paths = PathTree(joined=True)
    run = [_event("first", True), _event("second", True, is_known=True)]
    paths.add(run, None)
    paths.note_given((True, False, True), run)
    assert paths.failed.refuted == {(True, False)}
    paths.note_given((True, True), run)
    assert paths.failed.refuted == {(True, False)}


def test_a_truth_value_is_known_where_it_is_proven():
    env = ShapeEnv()
    size = env.create_unbacked_symint()
    torch._check(size >= 0)
    torch_decisions.suppose(size == 1, True)
    for number in (0, 1, 2):
        above = Computed(lambda one, other: one > other, (size, number))
        assert is_known_as(above, number < 1, lambda place: None) is False  # the size has no place in the flow
    above = Computed(lambda other: size > other, (0,))
    assert is_known_as(above, True, lambda place: None) and not is_known_as(above, False, lambda place: None)
    other = env.create_unbacked_symint()
    unknown = Computed(lambda limit: other > limit, (0,))
    assert not is_known_as(unknown, True, lambda place: None) and not is_known_as(unknown, False, lambda place: None)
