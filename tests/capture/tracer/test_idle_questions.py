"""Questions whose answers a model does not use."""

from __future__ import annotations

import pytest
import torch

import opbridge


@pytest.mark.slow
def test_what_is_asked_of_data_for_nothing_is_no_decision():
    class Attending(torch.nn.Module):
        is_causal = False

        def forward(self, x, lengths):
            parts = x.split(lengths.tolist(), dim=2)
            found = []
            for each in parts:
                is_causal = getattr(self, "is_causal", True)
                causal = each.shape[2] > 1 and x is not None and is_causal
                found.append(torch.nn.functional.scaled_dot_product_attention(each, each, each, is_causal=causal))
            return torch.cat(found, 2)

    program = opbridge.export(
        Attending(),
        (torch.randn(1, 2, 7, 4), torch.tensor([3, 4])),
        dynamic_shapes=({2: "length"}, {0: "parts"}),
        inputs=[(torch.randn(1, 2, 5, 4), torch.tensor([1, 1, 3])), (torch.randn(1, 2, 1, 4), torch.tensor([1]))],
    )
    assert not [each for each in program.model.graph.all_nodes() if each.op_type == "If"]


@pytest.mark.slow
def test_what_is_asked_of_a_size_for_nothing_is_no_condition():
    class Attending(torch.nn.Module):
        def forward(self, x, mask=None, is_causal=False):
            causal = x.shape[2] > 3 and mask is None and is_causal
            return torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=causal)

    model, x = Attending(), torch.randn(1, 2, 7, 4)
    program = opbridge.export(model, (x,), dynamic_shapes=({2: "length"},), inputs=[(x[:, :, :3],), (x[:, :, :1],)])
    assert not program.capture.notes
