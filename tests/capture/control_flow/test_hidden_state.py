"""What Python holds beside variables of tensors and numbers tells paths apart."""

from __future__ import annotations

import pytest
import torch
from helpers.rows import one_in
from models.deciding_by_hidden_state import HIDING, INPUTS
from torch.utils import _pytree as pytree

import opbridge
from opbridge.capture.control_flow import untaken_answers


@pytest.mark.slow
@pytest.mark.parametrize("name", one_in(2, HIDING))
def test_paths_join_only_where_python_holds_the_same(name, monkeypatch):
    monkeypatch.setattr(
        untaken_answers, "_FEW_CAPTURES", 0
    )  # as where a model has many paths: answers are not tried in pairs
    model = HIDING[name]
    session = opbridge.export(model, (INPUTS[0],), verify=False).session()
    for each in INPUTS:
        expected = pytree.tree_leaves(model(each.clone()))
        found = session.run(None, {session.get_inputs()[0].name: each.numpy()})
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(torch.from_numpy(one), other)
