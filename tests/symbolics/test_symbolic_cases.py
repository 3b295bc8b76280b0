"""Symbolic functions build here the nodes that the TorchScript exporter makes of them."""

from __future__ import annotations

import pytest
from cases import CASES
from compare_graphs import differences, operators
from exporting import export_with_opbridge, export_with_torchscript
from helpers.rows import slow_but_first

EACH = [pytest.param(case, opset, id=f"{name}-{opset}") for name, case in CASES.items() for opset in case.nodes]


@pytest.mark.parametrize(("case", "opset"), slow_but_first(EACH))
def test_the_nodes_are_those_of_the_torchscript_exporter(case, opset):
    theirs = export_with_torchscript(case, opset)
    assert operators(theirs) == case.nodes[opset]
    program = export_with_opbridge(case, opset)
    assert differences(program.model, theirs) == ""
    if case.verify:
        assert program.verification is not None and program.verification.ok


def test_there_are_enough_cases():
    assert len(CASES) >= 60
