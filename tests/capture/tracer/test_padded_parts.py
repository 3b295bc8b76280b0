"""`pad_sequence` of parts of which data decide the number and the lengths."""

from __future__ import annotations

import pytest
import torch

import opbridge

_SETTINGS = [
    {},
    {"batch_first": True},
    {"batch_first": True, "padding_value": -1.5, "padding_side": "left"},
]


def _given(*lengths):
    return torch.rand(sum(lengths), 3), torch.tensor(lengths)


class Padding(torch.nn.Module):
    """Pads parts of a tensor, and computes with their length."""

    def __init__(self, dim=0, **settings):
        super().__init__()
        self.dim, self.settings = dim, settings

    def forward(self, x, lengths):
        parts = x.split(lengths.tolist(), self.dim)
        found = torch.nn.utils.rnn.pad_sequence(parts, **self.settings)
        return found * found.shape[0] + found.shape[1]


@pytest.mark.slow
@pytest.mark.parametrize("settings", _SETTINGS, ids=str)
def test_parts_of_any_lengths(settings):
    others = [_given(*lengths) for lengths in ((4,), (0, 3), (1, 1, 1, 1, 9), (0, 0))]
    shapes = ({0: "size"}, {0: "parts"})
    program = opbridge.export(Padding(**settings).eval(), _given(2, 5, 1), dynamic_shapes=shapes, inputs=others)
    assert program.verification.ok and len(program.verification.runs) == 5

    # Lengths that do not add up are an error when the file runs, as in PyTorch.
    with pytest.raises(Exception, match=r"Gather|indices|Split"):
        program.session().run(None, {"x": torch.rand(5, 3).numpy(), "lengths": torch.tensor([1, 2]).numpy()})


@pytest.mark.slow
def test_integers_keep_their_dtype():
    class Counting(torch.nn.Module):
        def forward(self, lengths):
            values = torch.arange(12).reshape(6, 2)
            return torch.nn.utils.rnn.pad_sequence(values.split(lengths.tolist()), True, -1)

    others = [torch.tensor(each) for each in ([6], [1, 2, 3], [0, 5, 0, 1])]
    program = opbridge.export(
        Counting().eval(), (torch.tensor([4, 2]),), dynamic_shapes=({0: "parts"},), inputs=[(each,) for each in others]
    )
    assert program.verification.ok and len(program.verification.runs) == 4
