"""Models that launch Triton kernels, exported, verified on the CPU, and compared with PyTorch's own operators."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers.rows import one_in

pytest.importorskip("triton", reason="Triton is not installed: pip install 'opbridge[triton]'")

from kernels.triton_kernels.forms import FORMS

import opbridge

pytestmark = pytest.mark.slow

_TOLERANCES = {torch.float16: 2e-3, torch.bfloat16: 2e-2}


@pytest.mark.parametrize("name", one_in(2, FORMS))
def test_the_file_computes_what_pytorch_does(name, tmp_path):
    form = FORMS[name]
    program = opbridge.export(form.model, form.args, tmp_path / "model.onnx", dynamic_shapes=form.dynamic)
    assert program.verification.ok
    assert any("Triton's interpreter" in note for note in program.verification.notes)
    nodes = [node for node in program.model.graph.all_nodes() if node.domain == "triton"]
    assert (len({node.op_type for node in nodes}), len(nodes)) == form.kernels
    expected = form.reference(*form.args)
    inputs = [each.name for each in program.session().get_inputs()]
    if form.args[0].dtype == torch.bfloat16:
        return  # numpy has no such type; the verification has compared it
    found = program.session().run(None, dict(zip(inputs, (each.numpy() for each in form.args), strict=True)))
    for got, wanted in zip(found, expected if isinstance(expected, tuple) else (expected,), strict=True):
        tolerance = _TOLERANCES.get(wanted.dtype, 1e-5)
        np.testing.assert_allclose(got, wanted.numpy(), rtol=tolerance, atol=tolerance)
