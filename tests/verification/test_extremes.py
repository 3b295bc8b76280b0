"""The ends of dtypes are drawn: strictly where a model only converts, and for a note elsewhere."""

from __future__ import annotations

import math

import pytest
import torch
from onnxscript.values import Opset

import opbridge
from opbridge.verification.extremes import ends_of, inputs_at_ends

op = Opset("", 19)
X = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)
INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, *FLOATS[4:]], ids=str)
def test_the_ends_of_floats(dtype):
    found = ends_of(dtype, torch.float32)
    largest, least = torch.finfo(dtype).max, torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
    for number in (largest, -largest, math.inf, least, least / 2, 0.0):
        assert number in found.tolist()
    assert bool(found.isnan().any()) and str(-0.0) in map(str, found.tolist())
    step = 2.0 ** math.floor(math.log2(largest)) * torch.finfo(dtype).eps
    assert largest + step / 2 in found.tolist(), "halfway to the next number that there would be"


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_the_ends_of_integers(dtype):
    info = torch.iinfo(dtype)
    assert {info.min, info.max} <= set(ends_of(dtype, dtype).tolist())
    assert ends_of(dtype, torch.float64).dtype == torch.float64


@pytest.mark.parametrize("of", [*FLOATS, *INTEGERS], ids=str)
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=str)
def test_the_ends_of_one_dtype_in_another(dtype, of):
    found = ends_of(dtype, of)
    assert found.dtype == of and found.dim() == 1 and len(found)


@pytest.mark.parametrize("dtype", [torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz], ids=str)
def test_a_conversion_that_saturates_is_refused(dtype):
    """F8: the ends of the range were not drawn, and the file gave its largest number for all beyond."""
    with opbridge.override():

        @opbridge.translation("aten::to.dtype", opset=19)
        def to_dtype(self, dtype):
            return op.Cast(self, to=dtype)

        with pytest.raises(opbridge.VerificationError, match="inputs at the ends of float8") as caught:
            opbridge.export(lambda x: x.to(dtype).float(), (X,))
    assert "57344" in str(caught.value) or "240" in str(caught.value)


def test_a_conversion_that_is_right_is_verified_at_the_ends():
    found = opbridge.export(lambda x: (x.to(torch.float8_e5m2).float(), x.half(), x.double().T), (X,)).verification
    labels = [run.label for run in found.runs if run.kind == "ends"]
    assert found.ok and not found.notes and labels[0] == "ends of float8_e5m2, float32, float16 and 1 more"


@pytest.mark.slow
def test_floats_that_become_integers_stay_in_their_range():
    for convert in (lambda x: x.to(torch.int8), lambda x: (x.half(), x.to(torch.uint8)), lambda x: x.float().long()):
        for example in (X.abs(), (X * 10).to(torch.int32)):
            found = opbridge.export(convert, (example,)).verification
            assert found.ok and any(run.kind == "ends" for run in found.runs)


def test_a_difference_at_the_ends_is_a_note_where_a_model_computes():
    with opbridge.override():

        @opbridge.translation("aten::to.dtype", opset=19)
        def to_dtype(self, dtype):
            return op.Cast(self, to=dtype)

        found = opbridge.export(lambda x: (x * 2).to(torch.float8_e5m2).float(), (X,)).verification
    (run,) = found.left_out
    assert found.ok and run.invented == "'x' is at the ends of float8_e5m2"
    assert any("aten::to.dtype at" in note and "inputs=" in note for note in found.notes)


def test_a_difference_on_ordinary_inputs_of_such_a_model_is_refused():
    program = opbridge.export(lambda x: (x * 2).to(torch.float8_e5m2).float(), (X,), verify=False)
    assert not opbridge.verify(program, lambda x: (x * -4).to(torch.float8_e5m2).float(), (X,)).ok


def test_the_ends_of_narrow_integers_are_drawn():
    x = torch.randint(-50, 50, (10,), dtype=torch.int8, generator=torch.Generator().manual_seed(0))
    found = opbridge.export(lambda x: (x + 1, x.abs(), x * x, x // 3), (x,)).verification
    assert found.ok and not found.notes and "ends of int8" in {run.label for run in found.runs}
    (drawn,) = inputs_at_ends(None, (x,), {}, names={0: "x"}, kept=())
    assert {-128, 127} <= set(drawn.args[0].tolist()) and not drawn.is_exact


def test_other_models_have_no_such_run():
    for model in (lambda x: x * 2, lambda x: x.T, lambda x: x.double() + 1):
        assert {run.kind for run in opbridge.export(model, (X,)).verification.runs} == {"example", "fresh"}


def test_inputs_that_the_model_does_not_take_are_no_runs():
    table = torch.arange(100.0)
    rows = torch.randint(0, 100, (8,), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    found = opbridge.export(lambda x: table[x.long()], (rows,)).verification
    assert found.ok and {run.kind for run in found.runs} == {"example", "fresh"}


def test_a_trace_does_not_tell_what_a_model_computes():
    found = opbridge.export(lambda x: x.double() * 2, (X,), capture="trace").verification
    assert {run.kind for run in found.runs} == {"example", "fresh"}
