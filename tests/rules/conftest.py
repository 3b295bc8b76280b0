"""What the tests of rules share."""

from __future__ import annotations

import json

import pytest

from opbridge.rules import lint


@pytest.fixture
def found(tmp_path):
    """Gives a function that says what is found in a model for a target of one fact: the rules, the messages apart."""

    def run(model, fact, select="*"):
        lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in fact.items())
        path = tmp_path / "chip.toml"
        path.write_text(f'versions = ["1.0"]\n[[fact]]\nsource = "asked: here"\n{lines}\n')
        findings = lint(model.SerializeToString(), str(path), select=[select])
        of_target = [each for each in findings if each.source == "asked: here"]
        return [(each.rule, each.operator) for each in of_target], [each.message for each in of_target]

    return run
