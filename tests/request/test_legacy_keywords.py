"""What calls of torch.onnx.export say in other ways."""

from __future__ import annotations

import io

import onnx
import pytest
import torch

import opbridge
from opbridge.errors import UsageError


class Model(torch.nn.Module):
    def forward(self, x, others, *, scale=None):
        total = x + others["y"]
        return total if scale is None else total * scale


ARGS = (torch.randn(2, 3), {"y": torch.randn(2, 3)})


def shapes(program):
    return [str(value.shape) for value in program.model.graph.inputs]


def test_dynamic_axes_by_the_names_that_inputs_are_given():
    program = opbridge.export(
        Model(),
        ARGS,
        input_names=["first", "second"],
        output_names=["sum"],
        dynamic_axes={"first": {0: "batch"}, "second": {0: "batch"}, "sum": {0: "batch"}},
    )
    assert shapes(program) == ["[batch,3]", "[batch,3]"]
    assert str(program.model.graph.outputs[0].shape) == "[batch,3]"
    assert "batch=" in program.verification.summary()


def test_dynamic_axes_by_the_models_own_names_and_as_a_list():
    program = opbridge.export(lambda x, y: (x * 2, y), (torch.randn(2, 3), torch.randn(4)), dynamic_axes={"x": [0, 1]})
    assert shapes(program) == ["[x_dim_0,x_dim_1]", "[4]"]


def test_dynamic_axes_of_another_form():
    with pytest.raises(UsageError, match=r"dynamic_axes has 'batch' for x; expected a dict"):
        opbridge.export(lambda x: x, (torch.randn(2),), dynamic_axes={"x": "batch"})
    with pytest.raises(UsageError, match="mutually exclusive"):
        opbridge.export(lambda x: x, (torch.randn(2),), dynamic_axes={"x": [0]}, dynamic_shapes={"x": {0: "n"}})


def test_a_file_that_is_open():
    file = io.BytesIO()
    program = opbridge.export(torch.nn.ReLU(), (torch.randn(3),), file)
    assert program.verification.ok and program.path is None
    onnx.checker.check_model(file.getvalue(), full_check=True)


def test_keywords_that_have_no_effect():
    program = opbridge.export(
        torch.nn.ReLU().eval(),
        (torch.randn(3),),
        export_params=True,
        verbose=False,
        do_constant_folding=True,
        keep_initializers_as_inputs=False,
        training=torch.onnx.TrainingMode.EVAL,
        dynamo=False,
    )
    assert program.verification.ok


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"export_params": False}, r"export_params=False is not supported.*weights are always part"),
        ({"keep_initializers_as_inputs": True}, r"keep_initializers_as_inputs=True.*never inputs"),
        ({"training": torch.onnx.TrainingMode.TRAINING}, r"Call model\.train\(\) first"),
    ],
)
def test_values_that_ask_for_something_else(keywords, message):
    with pytest.raises(UsageError, match=message):
        opbridge.export(torch.nn.ReLU().eval(), (torch.randn(3),), **keywords)


def test_training_mode_where_evaluation_is_asked_for():
    with pytest.raises(UsageError, match=r"Call model\.eval\(\) first"):
        opbridge.export(torch.nn.ReLU(), (torch.randn(3),), training=torch.onnx.TrainingMode.EVAL)


def test_a_keyword_that_nobody_has():
    with pytest.raises(TypeError, match="unexpected keyword argument 'dynamic_shape'"):
        opbridge.export(torch.nn.ReLU(), (torch.randn(3),), dynamic_shape={})


def test_keyword_inputs_at_the_end_of_args():
    x, y, scale = torch.randn(2, 3), torch.randn(2, 3), torch.tensor(2.0)
    program = opbridge.export(Model(), (x, {"y": y}, {"scale": scale}))
    assert len(program.model.graph.inputs) == 3 and program.verification.ok
    program = opbridge.export(lambda x, y: x + y, (x, {"y": y}))
    assert len(program.model.graph.inputs) == 2
    # A dict that the model takes by position, and whose keys are no parameters of its own, is that.
    assert opbridge.export(Model(), ARGS).verification.ok
    assert opbridge.export(torch.nn.ReLU(), (x, {})).verification.ok
