"""`pad_sequence` of parts of which data decide the number and the lengths."""

from __future__ import annotations

import pytest
import torch
from torch.nn.utils.rnn import pad_sequence, unpad_sequence

import opbridge
from opbridge.capture.tracer.padded_parts import padding_by

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


@pytest.mark.slow
@pytest.mark.parametrize("settings", _SETTINGS, ids=str)
def test_a_function_that_was_imported_by_its_name_and_a_list(settings):
    """The model has the function itself, and pads what a loop has made of the parts."""

    class Named(torch.nn.Module):
        def forward(self, x, lengths):
            whole = pad_sequence(torch.split(x, lengths.tolist()), **settings)
            return whole, pad_sequence([part.cumsum(0) for part in x.split(lengths.tolist())], **settings)

    others = [_given(*lengths) for lengths in ((4,), (1, 1, 1, 1, 9))]
    shapes = ({0: "size"}, {0: "parts"})
    program = opbridge.export(Named().eval(), _given(2, 5, 1), dynamic_shapes=shapes, inputs=others)
    assert program.verification.ok and len(program.verification.runs) == 3


@pytest.mark.slow
def test_parts_of_one_length_are_stacked(tmp_path):
    class Stacked(torch.nn.Module):
        def forward(self, x, lengths):
            parts, columns = x.split(lengths.tolist()), x.T.split(lengths.tolist(), 1)
            return torch.stack(parts), torch.stack(parts, 1), torch.stack(columns, -1), torch.stack(columns)

    others = [_given(*each) for each in ((4,), (2, 2, 2), (1, 1, 1, 1, 1), (0, 0))]
    path = tmp_path / "model.onnx"
    shapes = ({0: "size"}, {0: "parts"})
    program = opbridge.export(Stacked().eval(), _given(3, 3), path, dynamic_shapes=shapes, inputs=others)
    assert program.verification.ok and len(program.verification.runs) == 5
    x, lengths = _given(3, 3, 2)  # which torch.stack refuses
    with pytest.raises(Exception, match="Reshape|reshape"):
        opbridge.session(path).run(None, {"x": x.numpy(), "lengths": lengths.numpy()})


@pytest.mark.slow
@pytest.mark.parametrize("batch_first", [False, True])
def test_rows_are_unpadded(batch_first):
    class Unpadded(torch.nn.Module):
        def forward(self, x, lengths):
            parts = unpad_sequence(x, lengths, batch_first)
            sums = torch.stack([part.sum(0) for part in parts])
            return sums, torch.cat(parts), parts[-1], x * 2

    def given(count, longest, *lengths):
        return torch.randn(*((count, longest) if batch_first else (longest, count)), 2), torch.tensor(lengths)

    others = [given(1, 4, 4), given(4, 3, 0, 3, 1, 9), given(2, 1, 1, 0)]
    shapes = ({0: "count" if batch_first else "longest", 1: "longest" if batch_first else "count"}, {0: "count"})
    program = opbridge.export(Unpadded().eval(), given(3, 5, 2, 5, 1), dynamic_shapes=shapes, inputs=others)
    assert program.verification.ok and len(program.verification.runs) == 4


def test_the_functions_are_torchs_own_afterwards():
    codes, names = [each.__code__ for each in (pad_sequence, unpad_sequence)], set(vars(torch.nn.utils.rnn))
    with padding_by(lambda *given: torch.tensor(len(given)), lambda *given: len(given)):
        assert pad_sequence([torch.ones(2)], True).item() == 4
        assert unpad_sequence(torch.ones(2, 2), torch.ones(2)) == 3
        with padding_by(lambda *given: None, lambda *given: None):
            assert pad_sequence([torch.ones(2)], True).shape == (1, 2)
            assert [len(each) for each in unpad_sequence(torch.ones(1, 2), torch.tensor([1]), True)] == [1]
        assert pad_sequence([torch.ones(2)]).item() == 4
    assert [each.__code__ for each in (pad_sequence, unpad_sequence)] == codes
    assert set(vars(torch.nn.utils.rnn)) == names
