"""What takes the place of functions while a model is captured is gone after it, where what is compared runs."""

from __future__ import annotations

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from opbridge.capture import capture


class _Deciding(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.GRU(4, 4, batch_first=True)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        found, _ = pad_packed_sequence(self.layer(packed)[0], batch_first=True)
        if found.sum() > 0:
            found = found * len(x)
        return found * int(lengths[0])


@pytest.mark.slow
def test_names_of_the_models_python_module_stand_for_what_they_did():
    before = dict(globals())
    captured = capture(_Deciding().eval(), (torch.randn(3, 5, 4), torch.tensor([5, 2, 4])))
    assert captured.decisions
    after = globals()
    assert after.keys() == before.keys()
    assert [name for name, value in before.items() if after[name] is not value] == []
