"""Inputs with names of Python's builtins, or such as torch.fx makes itself, in models that branch."""

from __future__ import annotations

import pytest
import torch
from helpers.rows import one_in

import opbridge


def _model(name: str, body: str) -> torch.nn.Module:
    space: dict[str, object] = {"torch": torch}
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    exec(f"def forward(self, {name}, x):\n{lines}", space)
    return type("Model", (torch.nn.Module,), {"forward": space["forward"]})()


_BODIES = {
    "data": "if x.sum() > 0:\n    {0} = {0} * 2\nreturn {0} + 1",
    "loop": "rows = []\nfor at in range(int(x.abs().max())):\n    rows.append({0}[0] * at)\nreturn torch.stack(rows)",
    "size": "if {0}.shape[0] > 3:\n    {0} = {0}[1:]\nreturn {0} + x.sum()",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "name"),
    one_in(2, ((body, name) for body in _BODIES for name in ("input", "max", "x_1", "add", "input_1"))),
)
def test_inputs_with_names_that_graphs_change(name, body):
    model = _model(name, _BODIES[body].format(name))
    program = opbridge.export(model, (torch.ones(3, 2), torch.tensor([2.0, 3.0])), dynamic_shapes=({0: "rows"}, None))
    assert [each.name for each in program.model.graph.inputs] == [name, "x"]
    for rows, x in ((5, [1.0, 4.0]), (2, [-3.0, 1.0])):
        assert opbridge.verify(program, model, (torch.ones(rows, 2), torch.tensor(x))).ok
