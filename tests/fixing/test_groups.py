"""Products of groups of rows for TensorRT-RTX, whose Loops carry tensors of fixed sizes."""

from __future__ import annotations

import pytest
import torch

import opbridge


@pytest.mark.slow
@pytest.mark.parametrize("ends", [[3, 3, 7, 9], [0, 0, 0, 0], [2, 4, 6, 8]], ids=str)
def test_all_rows_are_multiplied(ends):
    """Rows after the last group are 0, and what is not finite stays in its rows."""
    x, w = torch.randn(9, 16), torch.randn(4, 16, 8)
    x[1, 2], w[1, 3, 3] = torch.inf, torch.nan

    def model(x, w, e):
        return torch._grouped_mm(x.bfloat16(), w.bfloat16(), e).float()

    given = x, w, torch.tensor(ends, dtype=torch.int32)
    plain = opbridge.export(model, given, verify=False)
    program = opbridge.export(model, given, target="tensorrt-rtx", verify=False)
    assert "multiplied all rows with the matrix of each group" in [each.done for each in program.repairs]
    assert program.findings.ok
    [one], [other] = (each.session().run(None, _feeds(each, given)) for each in (plain, program))
    torch.testing.assert_close(torch.from_numpy(other), torch.from_numpy(one), equal_nan=True)


def _feeds(program, given):
    return {value.name: each.numpy() for value, each in zip(program.model.graph.inputs, given, strict=True)}
