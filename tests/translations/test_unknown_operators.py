"""Translations of names that no operator has."""

import onnx
import pytest
import torch
from onnxscript import opset18 as op

import opbridge
from opbridge.base.version import __version__


@torch.library.custom_op("unknowntest::hswish_scale", mutates_args=())
def hswish_scale(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@hswish_scale.register_fake
def _(x):
    return torch.empty_like(x)


ARGS = (torch.randn(3),)


def model(x):
    return torch.ops.unknowntest.hswish_scale(x)


def test_a_misspelt_name_in_a_table_is_an_error_with_the_nearest_one():
    table = {"unknowntest::hswish_scal": lambda x: op.Mul(x, 2.0)}
    with pytest.raises(opbridge.UsageError, match=r"'unknowntest::hswish_scal'\. Did you mean 'unknowntest::hswish_sc"):
        opbridge.check(model, ARGS, custom_translation_table=table)


def test_a_misspelt_registration_is_a_note_and_is_named_beside_the_missing_operator():
    with opbridge.override():
        opbridge.translation("unknowntest::hswish_scal")(lambda x: op.Mul(x, 2.0))
        opbridge.translation("notloaded::anything")(lambda x: x)
        plan = opbridge.check(model, ARGS)
    [note] = [note for note in plan.notes if "is not used" in note]
    assert note.endswith("Did you mean 'unknowntest::hswish_scale'?")
    assert "a translation is registered for 'unknowntest::hswish_scal'" in plan.missing[0].reason


def test_a_broken_translation_is_named_with_its_line_and_is_to_be_corrected():
    def broken(x):
        return op.Mul(x, undefined)  # noqa: F821  # what fails

    with opbridge.override():
        opbridge.translation("unknowntest::hswish_scale")(broken)
        [row] = opbridge.check(model, ARGS).missing
    assert "test_unknown_operators.py:" in row.reason and "NameError" in row.reason
    assert row.remedy.startswith("Correct that translation.")


def test_files_name_opbridge_as_their_producer(tmp_path):
    opbridge.export(torch.relu, ARGS, tmp_path / "relu.onnx")
    written = onnx.load(tmp_path / "relu.onnx")
    assert (written.producer_name, written.producer_version) == ("opbridge", __version__)
