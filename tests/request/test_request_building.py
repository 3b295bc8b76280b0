"""The request of an export: a wrong argument is refused before the model runs, the others stand in their groups."""

from __future__ import annotations

import dataclasses
import inspect
import io
from typing import Any

import pytest
import torch

import opbridge
from opbridge import pipeline
from opbridge.capture.config import CaptureConfig
from opbridge.errors import SaveError, UsageError
from opbridge.plan.permitted_routes import PermittedRoutes
from opbridge.request import VerificationConfig, export_request
from opbridge.translate.graph_names import GraphNames


class Model(torch.nn.Module):
    """Adds its inputs, and counts how often it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.runs = 0

    def forward(self, x, y, *, scale=None):
        self.runs += 1
        return x + y if scale is None else (x + y) * scale


X, Y = torch.randn(2, 3), torch.randn(2, 3)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"legacy": {"export_params": False}}, "export_params=False is not supported"),
        ({"verify": False, "rtol": 0.1}, "rtol= would have no effect"),
        ({"verify": False, "atol": 0.1, "inputs": []}, "inputs= and atol= would have no effect"),
        ({"dynamic_axes": {"x": [0]}, "dynamic_shapes": "batch"}, "mutually exclusive"),
        ({"task": "translation"}, "Unknown task 'translation'"),
        ({"task": "text-generation", "dynamic_shapes": "batch"}, "Leave dynamic_shapes out"),
        ({"task": "text-generation", "dynamic_axes": {"x": [0]}}, "Leave dynamic_shapes out"),
        ({"allow": "aten"}, "allow='aten' is a string"),
        ({"allow": ("standard", "magic")}, "Unknown route 'magic'"),
        ({"routes": {"aten::add": "magic"}}, "Unknown route 'magic'"),
        ({"operator_export_type": "ONXX"}, "operator_export_type='ONXX' is invalid"),
        ({"operator_export_type": "ONNX", "allow": ("aten",)}, "conflicts with allow="),
        ({"target": "abacus"}, "abacus"),
        ({"opset_version": 3}, "opset_version=3 is not supported"),
        ({"provides": "MyTopK"}, "MyTopK"),
        ({"custom_translation_table": {"aten::ad": torch.add}}, "unknown operator 'aten::ad'"),
        ({"max_captures": 0}, "max_captures=0"),
        ({"max_capture_seconds": -1}, "max_capture_seconds=-1"),
        ({"capture": "magic"}, "capture='magic'"),
        ({"capture": "trace", "opset_version": 24}, "opset_version=24 is not supported by capture='trace'"),
        ({"precision": "int3"}, "int3"),
        ({"architectures": ("sm80",)}, "Unknown architecture 'sm80'"),
        ({"rtol": -1}, "rtol=-1"),
        ({"atol": "small"}, "atol='small'"),
        ({"args": {"x": X}}, "args is a mapping"),
        ({"args": 3}, "args is of type int"),
        ({"args": (X.numpy(), Y)}, "NumPy ndarray"),
        ({"kwargs": [X]}, "kwargs is of type list"),
        ({"args": (X,)}, "do not match forward"),
        ({"model": Model}, "is the class Model"),
        ({"model": "model.pt"}, "of type str"),
        ({"model": torch.nn.LazyLinear(3), "args": X}, "uninitialized parameters"),
        ({"dynamic_axes": {"x": "batch"}}, "dynamic_axes has 'batch' for x"),
        ({"dynamic_shapes": {"z": {0: "batch"}}}, "dynamic_shapes"),
        ({"dynamic_shapes": {"x": {5: "batch"}}}, "dimension 5 of x"),
    ],
)
def test_a_wrong_argument_is_refused_before_the_model_runs(wrong: dict[str, Any], said: str) -> None:
    model = Model()
    given: dict[str, Any] = {"model": model, "args": (X, Y), **wrong}
    with pytest.raises(UsageError) as caught:
        export_request(**given)
    assert said in str(caught.value)
    assert not model.runs


def test_an_exported_program_cannot_be_traced():
    program = torch.export.export(Model(), (X, Y))
    with pytest.raises(UsageError, match="capture='trace' is not supported for an ExportedProgram"):
        export_request(program, capture="trace")
    assert export_request(program, capture="auto").call.module is program


def test_a_keyword_that_nobody_has_is_a_type_error():
    with pytest.raises(TypeError, match="unexpected keyword argument 'dynamic_shape'"):
        export_request(Model(), (X, Y), legacy={"dynamic_shape": {}})


def test_a_path_that_cannot_be_written_is_refused(tmp_path):
    for path, said in ((tmp_path, "is a folder"), (tmp_path / "none" / "model.onnx", "does not exist")):
        with pytest.raises(SaveError, match=said):
            export_request(Model(), (X, Y), path)


@pytest.mark.parametrize(
    ("given", "args", "kwargs", "names"),
    [
        (["a", "b", "c"], (X, None, Y), {}, ["a", "c"]),
        (["a", "b"], (X, None, Y), {}, ["a", "b"]),
        (["a", "b", "c"], (X, Y, 2.0), {}, ["a", "b"]),
        (["a", "b", "c"], (X, Y), {"scale": None}, ["a", "b"]),
        (["a"], (X, None), {}, ["a"]),
        (["a"], X, {}, ["a"]),
        (["a", "b", "c"], (X, [Y, None]), {}, ["a", "b"]),
    ],
)
def test_names_of_inputs_that_are_none_are_left_out(given, args, kwargs, names):
    def model(x, y=None, scale=None):
        return x

    assert export_request(model, args, kwargs=kwargs, input_names=given).building.names.inputs == names


def test_dynamic_axes_go_by_the_names_of_the_tensors():
    def model(x, mask, y):
        return x + y

    axes = {"left": {0: "n"}, "mask": {0: "m"}, "right": {1: "w"}}
    request = export_request(model, (X, None, Y), input_names=["left", "mask", "right"], dynamic_axes=axes)
    assert {axis.place: axis.name for axis in request.call.shapes.axes.values()} == {
        "x.shape[0]": "n",
        "y.shape[1]": "w",
    }


def test_each_argument_stands_in_the_group_of_the_stage_that_reads_it(tmp_path):
    request = export_request(
        Model(),
        (X, Y),
        tmp_path / "model.onnx",
        kwargs={"scale": torch.ones(3)},
        input_names=["left", "right"],
        output_names=["sum"],
        dynamic_shapes={"left": {0: "batch"}, "right": {0: "batch"}},
        opset_version=18,
        custom_opsets={"mine": 2},
        external_data=True,
        allow=("standard",),
        routes={"aten::mul": "standard"},
        target="tensorrt:10.1",
        capture="auto",
        rtol=0.5,
        inputs=[(X, Y)],
        max_captures=3,
        max_capture_seconds=9,
        strict=True,
        precision="float16",
        architectures="sm_90",
        autotune={"kernel": 1},
    )
    assert request.call.args[0] is X and set(request.call.kwargs) == {"scale"}
    assert {axis.place: axis.name for axis in request.call.shapes.axes.values()} == {
        "x.shape[0]": "batch",
        "y.shape[0]": "batch",
    }
    capturing = dataclasses.replace(request.capturing, handler=None)
    assert capturing == CaptureConfig("auto", 3, 9, strict=True, opset=18)
    building = request.building
    assert (building.opset_version, building.target.opset, building.target.limits.name) == (18, 18, "tensorrt")
    assert building.routes == PermittedRoutes(("standard",), {"aten::mul": "standard"})
    assert building.names == GraphNames(["left", "right"], ["sum"]) and building.custom_opsets == {"mine": 2}
    verification = request.verification
    assert verification.complete and verification.rtol == 0.5 and len(verification.inputs) == 1
    output = request.output
    assert (output.path, output.file, output.external_data) == (tmp_path / "model.onnx", None, True)
    assert output.precision == "float16"
    assert request.kernels.architectures == ("sm_90",) and request.kernels.autotune == {"kernel": 1}
    assert request.label == str(tmp_path / "model.onnx")


def test_an_open_file_is_no_path_and_no_verification_is_none():
    file = io.BytesIO()
    request = export_request(Model(), (X, Y), file, verify=False)
    assert request.output.file is file and request.output.path is None
    assert request.verification is None and request.label == "Model"
    assert export_request(Model(), (X, Y)).verification == VerificationConfig(complete=True)


@pytest.mark.parametrize(
    ("legacy", "plain"),
    [
        ({"dynamic_axes": {"x": {0: "batch"}, "y": [0]}}, {"dynamic_shapes": {"x": {0: "batch"}, "y": {0: "y_dim_0"}}}),
        (
            {"input_names": ["a"], "dynamic_axes": {"a": {1: "width"}, "out": {0: "batch"}}},
            {"dynamic_shapes": {"x": {1: "width"}}},
        ),
        ({"input_names": ["a"], "dynamic_shapes": {"a": {1: "width"}}}, {"dynamic_shapes": {"x": {1: "width"}}}),
        ({"operator_export_type": "ONNX_ATEN_FALLBACK"}, {"allow": ("standard", "function", "kernel", "aten")}),
        ({"args": (X, {"y": Y})}, {"args": (X,), "kwargs": {"y": Y}}),
        ({"legacy": {"dynamo": True, "do_constant_folding": True}}, {}),
    ],
)
def test_what_torch_says_otherwise_is_translated(legacy: dict[str, Any], plain: dict[str, Any]) -> None:
    def told(given: dict[str, Any]) -> tuple[Any, ...]:
        request = export_request(**{"model": Model(), "args": (X, Y), **given})
        call = request.call
        axes = sorted((axis.place, axis.name) for axis in call.shapes.axes.values())
        assert all(tensor is each for tensor, each in zip((*call.args, *call.kwargs.values()), (X, Y), strict=True))
        return axes, len(call.args), request.building.routes

    assert told(legacy) == told(plain)


def test_nothing_that_is_given_is_changed_or_kept():
    tables: dict[str, Any] = {
        "kwargs": {"scale": torch.ones(3)},
        "dynamic_shapes": {"x": {0: "batch"}},
        "custom_opsets": {"mine": 1},
        "custom_translation_table": {"aten::add.Tensor": lambda x, y: x},
        "routes": {"aten::*": "standard"},
        "autotune": {"kernel": 0},
    }
    before = {name: dict(table) for name, table in tables.items()}
    request = export_request(Model(), (X, Y), **tables)
    assert {name: dict(table) for name, table in tables.items()} == before
    assert tables["dynamic_shapes"]["x"] == {0: "batch"}
    for table in tables.values():
        table.clear()
    assert set(request.call.kwargs) == {"scale"} and request.building.custom_opsets == {"mine": 1}
    assert request.building.routes.pinned == {"aten::*": "standard"} and request.kernels.autotune == {"kernel": 0}


def test_a_request_and_its_groups_are_frozen():
    request = export_request(Model(), (X, Y))
    for group in (request, *(getattr(request, each.name) for each in dataclasses.fields(request))):
        if dataclasses.is_dataclass(group):
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(group, dataclasses.fields(group)[0].name, None)


@pytest.mark.parametrize("function", [opbridge.check, opbridge.export, pipeline.raw])
def test_the_arguments_of_the_public_functions_are_those_of_the_request(function: Any) -> None:
    known = inspect.signature(export_request).parameters
    asked = inspect.signature(function).parameters
    for name, parameter in asked.items():
        if parameter.kind is not parameter.VAR_KEYWORD:
            assert (known[name].default, known[name].annotation) == (parameter.default, parameter.annotation), name
    if function is opbridge.export:
        assert set(asked) == set(known)


@pytest.mark.slow
def test_a_model_whose_file_cannot_go_on_from_a_cache_has_a_note():
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_layer=1, n_head=2, n_embd=4, vocab_size=8)
    model, ids = transformers.GPT2LMHeadModel(config).eval(), torch.ones(1, 2, dtype=torch.int64)
    (note,) = export_request(model, (), kwargs={"input_ids": ids}).notes
    assert "task='text-generation'" in note
    assert not export_request(model, (), kwargs={"input_ids": ids, "use_cache": False}).notes
