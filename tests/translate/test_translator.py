"""Capture and plan become a model."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest
import torch
from helpers.matching import assert_matches
from helpers.running import run
from torch.export import Dim

import opbridge


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(inplace=True), torch.nn.Linear(8, 3))
        self.tied = self.layers[0]

    def forward(self, x):
        return self.layers(x) + self.tied(x).sum(-1, keepdim=True)


def _export(model, *args, **keywords):
    return opbridge.export(
        model.eval() if isinstance(model, torch.nn.Module) else model, args, verify=False, **keywords
    )


def test_every_node_says_where_it_comes_from():
    program = _export(Net(), torch.randn(2, 4))
    for node in program.model.graph:
        assert node.metadata_props["opbridge.operator"].startswith("aten::")
        assert node.metadata_props["opbridge.source"].partition(":")[0].endswith("test_translator.py")
    relu = next(node for node in program.model.graph if node.op_type == "Relu")
    assert relu.metadata_props["opbridge.module"] == "layers.1"
    assert relu.name == "layers.1/relu_/Relu"
    assert relu.outputs[0].name == relu.metadata_props["opbridge.output"] == "layers.1/relu_"


def test_the_file_is_the_same_from_run_to_run():
    torch.manual_seed(0)
    model = Net()
    first, second = (ir.to_proto(_export(model, torch.randn(2, 4)).model).SerializeToString() for _ in range(2))
    assert first == second


def test_weights_keep_their_names_and_their_memory():
    model = Net()
    program = _export(model, torch.randn(2, 4))
    weights = program.model.graph.initializers
    assert {"layers.0.weight", "layers.0.bias", "layers.2.weight", "layers.2.bias"} <= set(weights)
    assert "tied.weight" not in weights, "a tied weight is stored once"
    assert weights["layers.0.weight"].const_value.tensor.data_ptr() == model.layers[0].weight.data_ptr()


def test_the_model_is_valid_onnx():
    program = _export(Net(), torch.randn(2, 4), dynamic_shapes={"x": {0: Dim("batch")}})
    onnx.checker.check_model(ir.to_proto(program.model), full_check=True)
    assert [str(dim) for dim in program.model.graph.inputs[0].shape] == ["batch", "4"]
    assert [str(dim) for dim in program.model.graph.outputs[0].shape] == ["batch", "3"]


def test_inputs_are_the_tensor_inputs_in_order_used_or_not():
    def model(table, unused, *, flag=True, scale):
        return table["b"] * scale if flag else table["a"]

    table = {"a": torch.ones(2), "b": torch.ones(3)}
    program = opbridge.export(
        model, (table, torch.zeros(1)), kwargs={"flag": True, "scale": torch.tensor(2.0)}, verify=False
    )
    assert [list(value.shape.numpy()) for value in program.model.graph.inputs] == [[2], [3], [1], []]
    (got,) = run(program, (table, torch.zeros(1)), {"flag": True, "scale": torch.tensor(3.0)})
    assert got.tolist() == [3, 3, 3]


def test_outputs_are_named_after_their_place():
    def model(x):
        return {"logits": x + 1, "hidden": [x * 2, (x * 3, None)], "constant": 7}

    program = _export(model, torch.ones(2))
    assert [value.name for value in program.model.graph.outputs] == ["logits", "hidden.0", "hidden.1.0", "constant"]
    assert [value.name for value in _export(lambda x: (x + 1, x), torch.ones(1)).model.graph.outputs] == [
        "output_0",
        "output_1",
    ]


def test_names_can_be_given():
    program = _export(Net(), torch.randn(2, 4), input_names=["features"], output_names=["scores"])
    assert program.model.graph.inputs[0].name == "features"
    assert program.model.graph.outputs[0].name == "scores"
    with pytest.raises(opbridge.UsageError, match=r"3 names.*1 inputs"):
        _export(Net(), torch.randn(2, 4), input_names=["a", "b", "c"])
    with pytest.raises(opbridge.UsageError, match="duplicate name"):
        _export(lambda x, y: x + y, torch.ones(1), torch.ones(1), input_names=["a", "a"])


def test_an_output_may_be_an_input_a_weight_a_constant_or_given_twice():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(3))

        def forward(self, x):
            y = x + 1
            return x, self.weight, y, y, torch.arange(4), y.view(-1)

    program = assert_matches(Model(), torch.randn(3))
    onnx.checker.check_model(ir.to_proto(program.model), full_check=True)


def test_symbolic_sizes_are_outputs_and_arithmetic():
    class Model(torch.nn.Module):
        def forward(self, x):
            rows, columns = x.shape
            return rows * 2 + columns, x.new_ones(rows * 3) * rows, x.view(rows // 1, -1)

    assert_matches(Model(), torch.randn(4, 5), others=[(torch.randn(7, 5),)], dynamic_shapes={"x": {0: Dim("rows")}})


def test_complex_values_travel_as_pairs():
    def model(x):
        z = torch.complex(x, 2 * x)
        return z, (z * z.conj()).real, torch.view_as_real(z + 1)

    program = assert_matches(model, torch.randn(3))
    assert list(program.model.graph.outputs[0].shape.numpy()) == [3, 2]


@pytest.mark.parametrize(
    "function",
    [
        lambda x, n: x + n,
        lambda x, n: n / 2 + x,
        lambda x, n: torch.where(n > 1, x, n),
        lambda x, n: torch.maximum(x, n),
        lambda x, n: (n * 2.5, n > 1.5, torch.sin(n)),
        lambda x, n: x.double() * n + x,
        lambda x, n: x.half() + x,
        lambda x, n: (n > 1) + n,
        lambda x, n: torch.cat([x, n]),
        lambda x, n: torch.tensor(2.5) * n,
    ],
)
def test_types_are_promoted_as_torch_does(function):
    x, n = torch.randn(3), torch.tensor([1, 2, 3])
    assert_matches(function, x, n, others=[(torch.randn(3), torch.tensor([-5, 0, 9]))])


def test_metadata_of_the_file_says_what_made_it():
    program = _export(Net(), torch.randn(2, 4))
    metadata = program.model.metadata_props
    assert metadata["opbridge.version"] == opbridge.__version__
    assert metadata["torch.version"] == torch.__version__
    assert metadata["opbridge.opset"] == str(program.plan.opset)
    assert metadata["opbridge.target"].startswith("onnxruntime ")


@pytest.mark.parametrize("opset", [18, 19, 20, 21, 22, 23])
def test_models_are_built_for_the_opset_asked_for(opset):
    program = assert_matches(Net(), torch.randn(2, 4), opset_version=opset, rtol=1e-5, atol=1e-6)
    assert program.model.opset_imports[""] == opset


def test_a_failed_translation_does_not_hide_the_next():
    def failing(x):
        raise ValueError("not this one")

    table = {"aten::sin": failing, "aten::cos": failing}
    with pytest.raises(opbridge.MissingOperators) as caught:
        _export(lambda x: x.sin().relu().cos(), torch.ones(2), custom_translation_table=table)
    assert [row.operator for row in caught.value.plan.missing] == ["aten::sin", "aten::cos"]
