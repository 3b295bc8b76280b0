"""The chunks of a sequence, gone over by one operator where their number is symbolic."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import opbridge
from opbridge.model_support.transformers.chunk_loops import gated, in_order

_SIDE = 4


class Chunks(torch.nn.Module):
    """Cuts a sequence into chunks, of which each reads and changes a state."""

    def forward(self, x, decay):
        x = torch.nn.functional.pad(x, (0, 0, 0, -x.shape[2] % _SIDE))
        x = x.reshape(x.shape[0], x.shape[1], -1, _SIDE, x.shape[-1])
        attention = x @ x.transpose(-1, -2)
        decays = decay.expand(*x.shape[:3], 1, 1)
        state = x.new_zeros(x.shape[0], x.shape[1], x.shape[-1], x.shape[-1])
        return in_order(x.shape[2], gated, torch.zeros_like(x), state, (x, x / 9, x, x / 9, attention, decays))


@pytest.mark.slow
def test_a_file_goes_over_any_number_of_chunks():
    torch.manual_seed(0)
    model, decay = Chunks().eval(), torch.tensor(0.5)
    program = opbridge.export(
        model, (torch.randn(2, 3, 10, 5), decay), dynamic_shapes=({0: "batch", 2: "tokens"}, None)
    )
    operators = [each.op_type for each in program.model.graph.all_nodes()]
    assert operators.count("Scan") == 1 and not {"If", "Loop"} & set(operators)
    session = program.session()
    for batch, tokens in ((1, 1), (2, 4), (3, 41)):
        x = torch.randn(batch, 3, tokens, 5)
        found = session.run(None, {"x": x.numpy(), "decay": decay.numpy()})
        for each, expected in zip(found, model(x, decay), strict=True):
            np.testing.assert_allclose(each, expected, rtol=1e-4, atol=1e-5)


def test_a_known_number_of_chunks_is_unrolled():
    program = opbridge.export(Chunks().eval(), (torch.randn(1, 2, 10, 5), torch.tensor(0.5)))
    assert not {"Scan", "If", "Loop"} & {each.op_type for each in program.model.graph.all_nodes()}
