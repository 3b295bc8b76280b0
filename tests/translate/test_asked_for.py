"""What was asked to be dynamic is dynamic in the file, or the export ends with an error."""

from __future__ import annotations

import onnx_ir as ir
import pytest
import torch
from torch.export import Dim

import opbridge
from opbridge.capture import capture
from opbridge.translate.asked_for import check_dimensions

X = torch.randn(2, 4, 16)


class Spectrum(torch.nn.Module):
    """A model of which torch.export fixes a dimension only when it takes out what the model writes in place."""

    def forward(self, x):
        spectrum = torch.fft.rfft(x)
        kept = torch.zeros(x.shape[0], 4, spectrum.shape[-1], dtype=spectrum.dtype)
        kept[:, :, :5] = spectrum[:, :, :5]
        return torch.fft.irfft(kept)


def _graph_of(shape):
    value = ir.Value(name="x", shape=ir.Shape(shape), type=ir.TensorType(ir.DataType.FLOAT))
    return ir.Model(ir.Graph([value], [value], nodes=[], opset_imports={"": 20}), ir_version=10)


def test_a_dimension_that_is_fixed_in_the_file():
    taken = capture(lambda x: x * 2, X, dynamic_shapes={"x": {0: "batch", 2: Dim.AUTO}})
    assert check_dimensions(taken, _graph_of(["batch", 4, "n"])) == ()
    with pytest.raises(opbridge.CaptureError, match="dimension 0 of input 'x', which was named 'batch', is fixed at 2"):
        check_dimensions(taken, _graph_of([2, 4, "n"]))
    assert check_dimensions(taken, _graph_of(["batch", 4, 16])) == (
        "dimensions that are fixed in the ONNX model: x.shape[2] == 16",
    )


@pytest.mark.slow
def test_a_fourier_operator_has_the_dimensions_that_were_asked_for():
    program = opbridge.export(Spectrum(), (X,), dynamic_shapes={"x": {0: "batch", 2: "n"}})
    assert str(program.model.graph.inputs[0].shape) == "[batch,4,n]"


@pytest.mark.slow
@pytest.mark.parametrize("function", [opbridge.check, opbridge.export])
def test_a_later_stage_that_fixes_a_dimension(function):
    taken = {"capture": "torch.export"}
    shapes = {"x": {0: "batch", 2: "n"}}
    try:
        found = function(Spectrum(), (X,), dynamic_shapes=shapes, **taken)
    except opbridge.CaptureError as error:
        assert "dimension 2 of input 'x', which was named 'n', is fixed at 16" in str(error)
    else:
        assert function is opbridge.check or str(found.model.graph.inputs[0].shape) == "[batch,4,n]"


@pytest.mark.slow
def test_a_later_stage_that_fixes_a_dimension_that_may_be_fixed():
    shapes = {"x": {0: "batch", 2: Dim.AUTO}}
    program = opbridge.export(Spectrum(), (X,), dynamic_shapes=shapes, capture="torch.export")
    size = program.model.graph.inputs[0].shape[2]
    assert isinstance(size, int) == any("x.shape[2] == 16" in note for note in program.plan.notes)


def test_an_exported_program_keeps_its_dimensions():
    exported = torch.export.export(torch.nn.ReLU(), (X,), dynamic_shapes=({0: Dim("batch")},))
    taken = capture(exported)
    with pytest.raises(opbridge.CaptureError, match="dimension 0 of input 'x' is fixed at 2"):
        check_dimensions(taken, _graph_of([2, 4, 16]))
    assert not isinstance(opbridge.export(exported).model.graph.inputs[0].shape[0], int)


@pytest.mark.slow
@pytest.mark.usefixtures("one_branch")
def test_torch_export_fixes_a_named_dimension():
    def model(x):
        return x if x.shape[0] == 1 else x * 2  # torch.export leaves the dimension symbolic, for one size

    for way in ("export", "torch.export"):
        with pytest.raises(opbridge.CaptureError, match="requires batch == 1"):
            opbridge.export(model, (X[:1],), dynamic_shapes={"x": {0: "batch"}}, capture=way)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["export", "torch.export"])
@pytest.mark.parametrize(
    "model, needs",
    [
        (lambda x: x * 2 if x.shape[0] < 10 else x * 3, r"x\.shape\[0\] <= 9"),
        (lambda x: x * 2 if x.shape[0] % 2 == 0 else x * 3, r"x\.shape\[0\] % 2 == 0"),
    ],
    ids=["range", "multiple"],
)
@pytest.mark.usefixtures("one_branch")
def test_a_range_without_a_name(model, needs, way):
    shapes = {"x": {0: Dim.DYNAMIC(min=1, max=64)}}
    with pytest.raises(opbridge.CaptureError, match=needs):
        opbridge.export(model, (X,), dynamic_shapes=shapes, capture=way)
    # Without a range every size was asked for, and the model takes others than the file has.
    with pytest.raises(opbridge.VerificationError, match=needs):
        opbridge.export(model, (X,), dynamic_shapes={"x": {0: Dim.DYNAMIC}}, capture=way)
    assert opbridge.export(model, (X,), dynamic_shapes={"x": {0: Dim.AUTO}}, capture=way).plan.notes
