"""Capture: what is taken, what is said, and what is refused."""

from __future__ import annotations

import dataclasses
import functools
import random
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from helpers.captures import LAYER, SMALL, X, assert_same, computed, operators, shapes
from torch import nn
from torch.export import Dim

from opbridge.capture import capture
from opbridge.errors import CaptureError, UsageError


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x, scale, *, shift=None):
        y = self.linear(x) * scale
        return y if shift is None else y + shift

    def encode(self, x):
        return self.linear(x)


# --- models and inputs -----------------------------------------------------------------------------------------------


def test_a_module_is_taken_without_a_copy_of_its_weights():
    model = Scaled().eval()
    taken = capture(model, (X, torch.tensor(2.0)), {"shift": torch.ones(3)})
    assert (taken.mode, taken.notes, taken.dim_names) == ("direct", (), {})
    assert taken.model is model and taken.seconds > 0
    assert taken.args[0] is X and list(taken.kwargs) == ["shift"]
    weight = next(each.tensor for each in taken.graph.weights.values() if each.name == "linear.weight")
    assert weight.data_ptr() == model.linear.weight.data_ptr() and weight.requires_grad
    assert_same(taken)


@pytest.mark.parametrize("args", [X, (X,), [X]])
def test_one_tensor_stands_for_a_tuple(args):
    taken = capture(nn.ReLU(), args)
    assert isinstance(taken.args, tuple) and taken.args[0] is X
    assert_same(taken)


def test_inputs_by_keyword_only():
    taken = capture(Scaled().eval(), kwargs={"shift": torch.ones(3), "x": X, "scale": torch.ones(1)})
    assert_same(taken)


TWO = torch.tensor(2.0)


def head(x, scale=TWO):
    return LAYER(x) * scale


class Holder:
    def __init__(self) -> None:
        self.layer = nn.Linear(4, 3).eval()
        self.offset = torch.ones(3)

    def __call__(self, x):
        return self.layer(x) + self.offset

    def method(self, x):
        return self.layer(x)


HOLDER = Holder()
SCALED = Scaled().eval()


@pytest.mark.parametrize(
    "function, weights",
    [
        (head, {"LAYER.weight", "LAYER.bias"}),
        (lambda x: LAYER(x).relu(), {"LAYER.weight", "LAYER.bias"}),
        (functools.partial(head, scale=torch.tensor(3.0)), {"LAYER.weight", "LAYER.bias"}),
        (functools.partial(lambda layer, x: layer(x), LAYER), {"argument_0.weight", "argument_0.bias"}),
        (SCALED.encode, {"module.linear.weight", "module.linear.bias"}),
        (HOLDER, {"layer.weight", "layer.bias"}),
        (HOLDER.method, {"layer.weight", "layer.bias"}),
        (torch.relu, set()),
    ],
    ids=["function", "lambda", "partial", "partial-module", "bound", "callable", "method", "builtin"],
)
def test_any_callable_is_taken_with_the_weights_it_uses(function, weights):
    taken = capture(function, X)
    assert taken.model is function
    assert {each.name for each in taken.graph.weights.values() if each.kind == "parameter"} == weights
    assert_same(taken)


def test_a_function_keeps_the_names_of_its_parameters():
    def model(first, *, second):
        return first + second

    taken = capture(model, X, {"second": X}, dynamic_shapes={"first": {0: "rows"}, "second": {0: "rows"}})
    assert [leaf.name for leaf in taken.graph.inputs] == ["first", "second"]
    assert shapes(taken) == [("rows", "4"), ("rows", "4")]


@pytest.mark.slow
def test_what_torch_compile_was_put_around_is_taken():
    taken = capture(torch.compile(SCALED), (X, torch.ones(1)))
    assert taken.model is SCALED
    assert_same(taken)


def test_an_exported_program_is_taken_as_it_is():
    program = torch.export.export(LAYER, (X,), dynamic_shapes=({0: Dim("n")},))
    taken = capture(program)
    assert taken.model is program and taken.mode == "given"
    assert [node.name for node in taken.graph.graph.nodes] == [node.name for node in program.graph.nodes]
    assert taken.graph.module is not program.graph_module
    assert taken.args[0] is X and list(taken.dim_names.values()) == ["input_dim_0"]
    assert capture(program, X + 1).args[0] is not X


@dataclasses.dataclass
class Boxes:
    corners: torch.Tensor
    extra: Any = None


@dataclasses.dataclass
class Picture:
    pixels: torch.Tensor
    masks: dict[str, torch.Tensor]


def test_nested_inputs_and_outputs():
    class Model(nn.Module):
        def forward(self, batch, *rest, flag=True, **more):
            return {"sum": (batch["a"] + batch["b"][0], [each * 2 for each in rest]), "more": more["z"], "none": None}

    args = ({"a": X, "b": [X]}, torch.ones(3), torch.ones(5))
    taken = capture(Model(), args, {"z": torch.ones(6)})
    assert len(taken.graph.inputs) == 5
    assert_same(taken)


def test_dataclasses_that_torch_does_not_know():
    def model(picture):
        return Boxes(picture.pixels * 2, [picture.masks["left"], None])

    taken = capture(model, (Picture(X, {"left": X + 1}),), dynamic_shapes="auto")
    assert [first for first, _ in shapes(taken)] == ["picture_pixels_dim_0", "picture_masks_left_dim_0"]
    assert isinstance(computed(taken, *taken.args), Boxes)
    assert_same(taken)


IDS = torch.arange(14).reshape(2, 7)
TOKENS = {"input_ids": IDS, "attention_mask": torch.ones_like(IDS)}


@pytest.mark.slow
def test_bert_with_a_dynamic_batch_and_length():
    model = transformers.BertModel(transformers.BertConfig(**SMALL, max_position_embeddings=32)).eval()
    dims = {0: "batch", 1: "length"}
    taken = capture(model, kwargs=TOKENS, dynamic_shapes={"input_ids": dims, "attention_mask": dims})
    assert shapes(taken) == [("batch", "length")] * 2
    assert len(taken.graph.outputs) == 2
    (note,) = taken.notes
    assert "length <= 32 (transformers/models/bert/modeling_bert.py:" in note and "batch" not in note
    other = torch.arange(11).reshape(1, 11)
    assert_same(taken, input_ids=other, attention_mask=torch.ones_like(other))


@pytest.mark.slow
def test_a_cache_in_the_output_is_tensors():
    config = transformers.GPT2Config(
        vocab_size=60, n_embd=16, n_layer=2, n_head=2, n_positions=32, bos_token_id=0, eos_token_id=0
    )
    taken = capture(transformers.GPT2LMHeadModel(config).eval(), kwargs=TOKENS)
    assert len(taken.graph.outputs) == 1 + 2 * 2


@pytest.mark.slow
def test_a_cache_of_encoder_and_decoder_in_the_output_is_tensors():
    config = transformers.T5Config(vocab_size=60, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2)
    taken = capture(transformers.T5Model(config).eval(), kwargs={**TOKENS, "decoder_input_ids": IDS})
    assert [leaf.name for leaf in taken.graph.outputs if leaf.name.startswith("present")] == [
        f"present.0.{half}.{what}" for half in ("decoder", "encoder") for what in ("key", "value")
    ]


def test_a_cache_that_torch_does_not_know_is_refused():
    class OwnCache:
        pass

    class Model(torch.nn.Module):
        def forward(self, x):
            return x + 1, OwnCache()

    with pytest.raises(CaptureError, match=r"OwnCache.*use_cache=False"):
        capture(Model(), (torch.ones(2),))


# --- wrong use -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model, args, kwargs, said",
    [
        (nn.ReLU, X, None, "The model is the class ReLU, not an instance. Pass ReLU(...)."),
        ("model.py", X, None, "The model is of type str."),
        (None, X, None, "The model is of type NoneType."),
        (nn.Sequential(nn.LazyLinear(3)), X, None, "Run it once on the example inputs."),
        (nn.ReLU(), np.zeros(3), None, "args is a NumPy ndarray. Convert it with torch.as_tensor."),
        (nn.ReLU(), (np.zeros(3),), None, "One of the inputs is a NumPy ndarray."),
        (nn.ReLU(), "inputs.pt", None, "args is of type str."),
        (nn.ReLU(), {"input": X}, None, "Pass keyword inputs as kwargs="),
        (nn.ReLU(), X, [X], "kwargs is of type list."),
        (nn.ReLU(), (), None, "missing a required argument: 'input'"),
        (nn.ReLU(), (X, X), None, "too many positional arguments"),
        (nn.ReLU(), X, {"other": X}, "unexpected keyword argument 'other'"),
        (lambda x: x.layer, (HOLDER,), None, "Unsupported input type test_capture.Holder"),
    ],
)
def test_models_and_inputs_of_a_wrong_kind(model, args, kwargs, said):
    with pytest.raises(UsageError) as caught:
        capture(model, args, kwargs)
    assert said in str(caught.value)
    assert caught.value.exit_status == 2


def test_an_exported_program_with_what_does_not_fit():
    program = torch.export.export(LAYER, (X,))
    with pytest.raises(UsageError, match="which defines its own"):
        capture(program, dynamic_shapes="auto")
    with pytest.raises(UsageError, match="has 1 inputs, but 2 were given"):
        capture(program, (X, X))
    program.example_inputs = None
    with pytest.raises(UsageError, match="contains no example inputs"):
        capture(program)


# --- what is captured otherwise than it looks ------------------------------------------------------------------------


@pytest.mark.slow
def test_a_value_that_python_takes_from_a_tensor_is_not_frozen():
    def model(x):
        return torch.arange(int(x.max()))

    taken = capture(model, torch.tensor([3, 5]))
    assert taken.mode == "direct" and not taken.notes
    assert_same(taken, torch.tensor([9, 2]))


@pytest.mark.parametrize(
    ("model", "strategy"),
    [
        (lambda x: x * float(x.mean()), "direct"),
        (lambda x: x * np.mean(x.numpy()), "strict"),
        (lambda x: torch.tensor([x.max(), x.min()]), "direct"),
    ],
    ids=["float", "numpy", "tensor"],
)
def test_numbers_of_data_follow_the_input(model, strategy):
    taken = capture(model, X)
    assert taken.mode == strategy
    assert_same(taken, X * 3 + 1)


def test_state_kept_in_python_is_told():
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0
            self.seen: list[Any] = []
            self.inner = nn.ReLU()

        def forward(self, x):
            self.calls += 1
            self.seen.append(x)
            self.inner.last = self.inner(x)
            return self.inner.last + self.calls

    model = Model()
    taken = capture(model, X)
    assert (
        "forward() sets self.calls, self.seen, self.inner.last, but an ONNX graph keeps no Python state"
        in taken.notes[0]
    )
    assert model.calls == 0 and model.seen == [] and not hasattr(model.inner, "last")


def test_random_numbers_of_python_are_told():
    assert "random numbers" in capture(lambda x: x * random.random(), X).notes[0]
    assert "random numbers" in capture(lambda x: x * np.random.rand(), X).notes[0]
    assert capture(lambda x: x * torch.rand(4), X).notes == ()


def test_python_numbers_among_the_inputs_are_told():
    taken = capture(SCALED, (X, 2.5))
    assert taken.notes == (
        "inputs that are Python numbers become constants in the graph (scale = 2.5); pass tensors to keep them as "
        "inputs",
    )
    assert capture(lambda x, flag, name: x, (X, True, "a")).notes == ()


def test_training_mode_is_told_where_it_matters():
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout())
    note, updates = capture(model, X).notes
    assert "updates 0.num_batches_tracked; an ONNX model keeps no state" in updates
    assert "in training mode, so aten::batch_norm, aten::dropout behave as in training; call model.eval()" in note
    assert capture(model.eval(), X).notes == ()
    assert capture(nn.ReLU().train(), X).notes == ()


def test_gradients_leave_no_trace_in_the_graph():
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x):
            with torch.no_grad():
                x = self.linear(x)
            with torch.inference_mode():
                return self.linear(x)

    assert operators(capture(Model().eval(), X)) == ["aten.linear.default"] * 2


def test_a_model_that_computes_gradients():
    def force(x):
        x = x.detach().requires_grad_()
        return torch.autograd.grad((x * x).sum(), x)[0]

    taken = capture(force, X)
    assert "captured with gradients enabled" in taken.notes[0]
    torch.testing.assert_close(computed(taken, X), 2 * X)
