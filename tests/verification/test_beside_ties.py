"""Quantised values beside a rounding tie, rounded up in some computations of a graph and down in others."""

from __future__ import annotations

import torch

from opbridge.capture import capture
from opbridge.verification.beside_ties import outputs_beside_ties


class TwoLayers(torch.nn.Module):
    """Two quantisations: a step of the first moves a value of the second from beside a tie to beyond it."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        first = torch.fake_quantize_per_tensor_affine(x, 0.25, 0, -128, 127)
        return first, torch.fake_quantize_per_tensor_affine(first.sum(-1) / 3, 0.25, 0, -128, 127)


def test_values_beside_ties_and_what_follows_from_them_differ_and_no_others() -> None:
    x = torch.tensor([[0.125, 0.2, 0.25], [0.25, 0.25, 0.5]])
    taken = capture(TwoLayers(), (x,))
    found = outputs_beside_ties(taken.functional, [x])
    first, second = (torch.stack([outputs[position] for outputs in found]) for position in (0, 1))
    assert first[:, 0, 0].unique().tolist() == [0.0, 0.25]
    assert (first[:, 0, 1:] == 0.25).all() and (first[:, 1] == x[1]).all()
    # 0.5 / 3 and 0.75 / 3 are one step; 1 / 3 is none beside a tie.
    assert (second == 0.25).all()


def test_a_step_that_moves_what_follows_is_followed() -> None:
    x = torch.tensor([[0.125, 0.125, 0.0]])
    taken = capture(TwoLayers(), (x,))
    second = torch.stack([outputs[1] for outputs in outputs_beside_ties(taken.functional, [x])])
    assert second.unique().tolist() == [0.0, 0.25]  # 0, 0.25 / 3 and 0.5 / 3


def test_integers_and_empty_tensors_are_computed() -> None:
    x = torch.zeros(0, 3)
    taken = capture(TwoLayers(), (torch.zeros(2, 3),), dynamic_shapes=({0: "batch"},))
    assert [outputs[0].shape for outputs in outputs_beside_ties(taken.functional, [x])] == [(0, 3)] * 8
