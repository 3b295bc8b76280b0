"""Differences on what no caller gave are notes, and those on ordinary inputs are errors."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional

import opbridge

NAN = float("nan")


def drawn(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(0))


def top_scores(heat):
    top = functional.max_pool2d(heat, 2).flatten()
    top = (top - top.min()) / (top.max() - top.min() + 1e-6)
    found = top[top >= 0.0]
    return found.topk(12).values if found.shape[0] > 12 else found


def sums_of_parts(x, lengths):
    return torch.cat([part.cumsum(0) for part in torch.tensor_split(x, lengths.cumsum(0)[:-1])])


def only_note(found: opbridge.Verification) -> str:
    """The note on the one difference that does not count."""
    assert found.ok, found.describe_mismatch()
    (note,) = (each for each in found.notes if each.startswith("the file differs from PyTorch where"))
    assert f"note: {note}" in str(found)
    return note


@pytest.mark.slow
def test_a_nan_that_no_caller_gave_is_a_note():
    found = opbridge.export(top_scores, (drawn(1, 1, 10, 10),)).verification
    note = only_note(found)
    line = top_scores.__code__.co_firstlineno
    assert "'heat' has a NaN" in note and "aten::max_pool2d at" in note and f"test_invented.py:{line + 1}" in note
    assert f"test_invented.py:{line + 4} `found.shape[0] > 12` is False" in note and "inputs=" in note
    (run,) = found.left_out
    assert run.invented == "'heat' has a NaN" and run.label == "with a NaN"
    assert "'heat' has a NaN" in {run["invented"] for run in json.loads(json.dumps(found.to_json()))["runs"]}


@pytest.mark.slow
def test_a_nan_of_the_example_is_an_error():
    heat = drawn(1, 1, 10, 10)
    heat[0, 0, 0, 0] = NAN
    with pytest.raises(opbridge.VerificationError, match="max_pool2d"):
        opbridge.export(top_scores, (heat,))


@pytest.mark.slow
def test_a_nan_that_a_caller_gives_is_an_error():
    heat = drawn(1, 1, 10, 10)
    program = opbridge.export(top_scores, (heat,), verify=False)
    heat = heat.clone()
    heat[0, 0, 0, 0] = NAN
    found = opbridge.verify(program, inputs=[(heat,)])
    assert not found.ok and not found.left_out


@pytest.mark.slow
def test_the_other_branch_is_an_error_on_ordinary_inputs():
    def model(x):
        return x * 2 if x.sum() > 0 else x

    def other(x):
        return x * 2 if x.sum() > 0 else x + 1

    program = opbridge.export(model, (drawn(3, 4),), verify=False)
    found = opbridge.verify(program, other, (drawn(3, 4),))
    assert [run.label for run in found.runs if not run.ok] == ["negated"]


@pytest.mark.slow
def test_an_infinity_that_no_caller_gave_is_a_note():
    def model(x):
        return x.isinf().float() if x.isinf().any() else x + 1

    def other(x):
        return x.isinf().float() * 2 if x.isinf().any() else x + 1

    x = drawn(3, 4)
    program = opbridge.export(model, (x,), verify=False)
    assert "'x' has an infinity" in only_note(opbridge.verify(program, other, (x,)))
    with_infinity = x.clone()
    with_infinity[0, 0] = float("inf")
    assert not opbridge.verify(program, other, (x,), inputs=[(with_infinity,)]).ok, "what a caller gives counts"


@pytest.mark.slow
def test_a_size_of_0_that_no_caller_gave_is_a_note():
    x, lengths = drawn(9, 3), torch.tensor([2, 3, 4])
    program = opbridge.export(sums_of_parts, (x, lengths), dynamic_shapes=({0: "n"}, {0: "b"}))
    note = only_note(program.verification)
    line = sums_of_parts.__code__.co_firstlineno + 1
    assert "where b=0" in note and f"test_invented.py:{line}" in note and 'Dim("b", min=1)' in note
    assert any(run.invented == "b=0" for run in program.verification.left_out)
    given = opbridge.verify(program, inputs=[(x, lengths[:0])])
    assert not given.ok, "what a caller gives counts"


@pytest.mark.slow
def test_the_remedy_for_a_size_of_0_leaves_no_note():
    sizes = ({0: Dim("n")}, {0: Dim("b", min=1)})
    found = opbridge.export(sums_of_parts, (drawn(9, 3), torch.tensor([2, 3, 4])), dynamic_shapes=sizes).verification
    assert found.ok and not any("b=0" in note for note in found.notes)


@pytest.mark.slow
def test_a_size_that_is_not_0_is_an_error():
    program = opbridge.export(lambda x: x * 2, (drawn(3, 4),), dynamic_shapes=({0: "rows"},), verify=False)
    found = opbridge.verify(program, lambda x: x * 2 if x.shape[0] == 3 else x * 3, (drawn(3, 4),))
    assert not found.ok and {run.label for run in found.runs if not run.ok} == {"rows=1", "rows=4"}


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)

    def forward(self, x, pad):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return self.layers(x, mask=mask, src_key_padding_mask=pad, is_causal=True)


def padding(*rows: str) -> torch.Tensor:
    return torch.tensor([[each == "x" for each in row] for row in rows])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Support for mismatched")
@pytest.mark.parametrize("rows", [("....xx", "...xxx"), (".x.x..", "....xx")], ids=["at the end", "anywhere"])
def test_a_mask_that_leaves_nothing_to_attend_to_is_a_note(rows):
    x = drawn(2, 6, 16)
    program = opbridge.export(Encoder().eval(), (x, padding(*rows)))
    note = only_note(program.verification)
    assert "'pad' leaves nothing to attend to, and PyTorch gives NaN" in note and "test_invented.py:" in note
    labels = [run.label for run in program.verification.runs if run.left_out is None]
    assert labels[0] == "example" and "fresh 1 with other masks" in labels, "fresh values are compared nevertheless"
    assert not opbridge.verify(program, inputs=[(x, padding("xxxxxx", "......"))]).ok, "what a caller gives counts"


@pytest.mark.filterwarnings("ignore:Support for mismatched")
def test_a_mask_without_padding_is_drawn_as_the_example_has_it():
    found = opbridge.export(Encoder().eval(), (drawn(2, 6, 16), padding("......", "....xx"))).verification
    assert found.ok and not found.notes and not found.left_out


def attention(x, mask):
    return x.masked_fill(mask, float("-inf")).softmax(-1)


@pytest.mark.parametrize(
    "changed",
    [lambda x, y: y + 0.1, lambda x, y: torch.where(x < 0.5, NAN, y)],
    ids=["other numbers", "NaN that masks do not make"],
)
def test_masks_excuse_no_other_difference(changed):
    example, mask = drawn(3, 4), padding("..x.", "x...", "....")
    program = opbridge.export(attention, (example, mask), verify=False)

    def model(x, mask):
        y = attention(x, mask)
        return y if torch.equal(x, example) else changed(x, y)

    found = opbridge.verify(program, model, (example, mask))
    assert {run.label for run in found.runs if not run.ok} == {"fresh 1", "fresh 2"}


def test_rows_that_are_masked_as_a_whole_are_a_note_where_the_file_gives_nan():
    def defined(x, mask):
        return torch.nan_to_num(attention(x, mask))

    x, mask = drawn(3, 4), padding("x...", ".x..", "....")
    program = opbridge.export(attention, (x, mask), dynamic_shapes=({1: "n"}, {1: "n"}))
    found = opbridge.verify(program, defined, (x, mask))
    assert "where 'mask' masks all of a row" in only_note(found)
    assert [run.label for run in found.left_out] == ["n=1"] and "n=1 with other masks" in found.summary()
    assert not opbridge.verify(program, defined, (x, mask), inputs=[(x, padding("xxxx", "....", "...."))]).ok
