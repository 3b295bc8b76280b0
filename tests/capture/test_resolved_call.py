"""A model and its example inputs, in the one form that captures read."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim, ShapesCollection

from opbridge.capture.resolved_call import resolved_call
from opbridge.errors import UsageError

X = torch.ones(3, 4)


def names(call):
    return {axis.place: axis.name for axis in call.shapes.axes.values()}


def test_the_inputs_are_a_tuple_and_a_dict():
    for args in (X, (X,), [X]):
        call = resolved_call(torch.nn.ReLU(), args)
        assert call.args[0] is X and isinstance(call.args, tuple) and call.kwargs == {} and not call.notes


def test_a_tensor_that_is_given_twice_becomes_two_inputs():
    call = resolved_call(lambda x, y: x + y, (X, X), dynamic_shapes={"x": {0: "n"}})
    assert call.args[0] is X and call.args[1] is not X and torch.equal(call.args[1], X)
    assert names(call) == {"x.shape[0]": "n"}
    shapes = ShapesCollection()
    shapes[X] = {0: Dim("n")}
    call = resolved_call(lambda x, y: x + y, (X, X), dynamic_shapes=shapes)
    assert call.args[0] is call.args[1] is X


def test_the_module_and_what_the_file_is_compared_with():
    layer = torch.nn.Linear(4, 2).eval()
    call = resolved_call(layer, X)
    assert call.module is call.reference is layer
    call = resolved_call(torch.compile(layer), X)
    assert call.module is call.reference is layer
    call = resolved_call(torch.relu, X)
    assert isinstance(call.module, torch.nn.Module) and call.reference is torch.relu


def test_an_exported_program_stays_as_it_is():
    program = torch.export.export(torch.nn.ReLU(), (X,))
    call = resolved_call(program)
    assert call.module is call.reference is program and torch.equal(call.args[0], X)
    for shapes in ({"dynamic_shapes": "batch"}, {"dynamic_axes": {"input": [0]}}):
        with pytest.raises(UsageError, match="dynamic_shapes is not supported together with an ExportedProgram"):
            resolved_call(program, **shapes)


def test_dimensions_by_the_names_of_the_files_inputs():
    def model(x, others):
        return x + others["a"] + others["b"]

    args = (X, {"a": X + 1, "b": X + 2})
    axes = {"first": {0: "rows"}, "others_b": [1], "out": {0: "rows"}}
    call = resolved_call(model, args, dynamic_axes=axes, input_names=["first"])
    assert names(call) == {"x.shape[0]": "rows"}  # the rest has the name of its parameter
    call = resolved_call(model, args, dynamic_axes={"third": [1]}, input_names=["first", "second", "third"])
    assert names(call) == {"others['b'].shape[1]": "third_dim_1"}
    call = resolved_call(model, args, dynamic_shapes={"second": {0: "rows"}}, input_names=["first", "second"])
    assert names(call) == {"others['a'].shape[0]": "rows"}
