"""Elements of lists that data choose, in iterations of a loop, and answers that only some runs show."""

from __future__ import annotations

import itertools

import pytest
import torch
from models import deciding_by_element as models

import opbridge
from opbridge.capture.control_flow import path_explorer


@pytest.fixture
def captures(monkeypatch):
    made = []
    plain = path_explorer.BranchOracle

    def counted(*args, **kwargs):
        made.append(args)
        return plain(*args, **kwargs)

    monkeypatch.setattr(path_explorer, "BranchOracle", counted)
    return made


def _assert_same(session, model, *inputs):
    with torch.no_grad():
        expected = model(*inputs)
    names = [each.name for each in session.get_inputs()]
    (found,) = session.run(None, {name: value.numpy() for name, value in zip(names, inputs, strict=True)})
    torch.testing.assert_close(torch.from_numpy(found), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_steps_in_an_order(captures):
    torch.manual_seed(0)
    model, x = models.StepsInAnOrder().eval(), torch.rand(2, 4)
    session = opbridge.export(model, (x, models.ORDERS[0]), verify=False).session()
    assert len(captures) <= 16  # up to so many, answers are tried together in pairs
    for order in itertools.product(range(3), repeat=3):
        _assert_same(session, model, x, torch.tensor([*order, 0]))


@pytest.mark.slow
def test_steps_that_are_left_out(captures):
    torch.manual_seed(0)
    model, x, order = models.StepsThatAreLeftOut().eval(), torch.rand(2, 3), torch.tensor([2, 0, 3, 1])
    session = opbridge.export(model, (x, order, torch.rand(4, 1)), verify=False).session()
    assert len(captures) <= 26  # the model asks whether y is x: paths on which it is are told apart from the others
    for kept, places in itertools.product(itertools.product((0.0, 1.0), repeat=4), [*models.ORDERS]):
        factors = (torch.rand(4) + 0.1) * torch.tensor(kept)
        _assert_same(session, model, x, places, factors.unsqueeze(1))


@pytest.mark.slow
def test_steps_within_a_call(captures):
    """Paths join again although each has called functions that the others have not, and torch has written a log."""
    torch.manual_seed(0)
    model, x, order = models.StepsWithinACall().eval(), torch.rand(2, 3), torch.tensor([2, 0, 3, 1])
    session = opbridge.export(model, (x, order, torch.rand(4, 1)), verify=False).session()
    assert len(captures) <= 18
    for kept, places in itertools.product(itertools.product((0.0, 1.0), repeat=4), [*models.ORDERS]):
        factors = (torch.rand(4) + 0.1) * torch.tensor(kept)
        _assert_same(session, model, x, places, factors.unsqueeze(1))


@pytest.mark.slow
def test_an_index_that_the_model_does_without():
    x = torch.rand(2, 3)
    session = opbridge.export(models.a_default_for_no_element, (x, models.ORDERS[0]), verify=False).session()
    for place in (0, 1, 3, -1, -4, 4, -5):
        _assert_same(session, models.a_default_for_no_element, x, torch.tensor([place, 0, 0, 0]))


def test_an_answer_after_which_the_first_run_raises_an_error():
    session = opbridge.export(models.a_sum_that_raises, (torch.rand(3),), verify=False).session()
    for x in (torch.rand(3), -torch.rand(3)):
        _assert_same(session, models.a_sum_that_raises, x)


@pytest.mark.slow
def test_an_element_of_a_module_that_has_run_often():
    """Python runs an instruction otherwise after it has run often, and is said to be behind it then."""
    torch.manual_seed(0)
    model, x = models.LayerOfAnIndex().eval(), torch.rand(2, 4)
    for _ in range(64):
        model(x, torch.tensor(1))
    session = opbridge.export(model, (x, torch.tensor(1)), verify=False).session()
    for index in range(3):
        _assert_same(session, model, x, torch.tensor(index))
