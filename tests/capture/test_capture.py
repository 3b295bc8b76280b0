"""Capture: what is taken, what is said, and what is refused."""

from __future__ import annotations

import dataclasses
import functools
import linecache
import random
import re
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import nn
from torch.export import AdditionalInputs, Dim, ShapesCollection
from torch.utils import _pytree as pytree

from opbridge import _torch
from opbridge.capture import Capture, capture
from opbridge.errors import CaptureError, UsageError

X = torch.arange(8, dtype=torch.float32).reshape(2, 4) / 8


def assert_same(taken: Capture, *args: Any, model: Any = None, **kwargs: Any) -> None:
    """The captured graph and the model give the same, on the example or on other inputs."""
    inputs = (args, kwargs) if args or kwargs else (taken.args, taken.kwargs)
    copies = pytree.tree_map_only(torch.Tensor, torch.clone, inputs)
    with torch.no_grad():
        got = pytree.tree_leaves(taken.exported_program.module()(*inputs[0], **inputs[1]))
        want = pytree.tree_leaves((model or taken.model)(*copies[0], **copies[1]))
    torch.testing.assert_close(got, want)


def operators(taken: Capture) -> list[str]:
    return [str(node.target) for node in taken.exported_program.graph.nodes if node.op == "call_function"]


def shapes(taken: Capture) -> list[tuple[str, ...]]:
    """The sizes of the inputs, with the names that their symbols have."""
    user = taken.exported_program.graph_signature.user_inputs
    nodes = [node for node in taken.exported_program.graph.nodes if node.op == "placeholder" and node.name in user]
    values = [node.meta["val"] for node in nodes if isinstance(node.meta["val"], torch.Tensor)]
    return [tuple(named(str(size), taken.dim_names) for size in value.shape) for value in values]


def named(size: str, names: dict[str, str]) -> str:
    return re.sub(r"[su]\d+", lambda found: names[found[0]], size)


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
    assert (taken.strategy, taken.notes, taken.dim_names) == ("non-strict", (), {})
    assert taken.model is model and taken.seconds > 0
    assert taken.args[0] is X and list(taken.kwargs) == ["shift"]
    weight = taken.exported_program.state_dict["linear.weight"]
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


LAYER = nn.Linear(4, 3).eval()
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
    assert set(taken.exported_program.graph_signature.parameters) == weights
    assert_same(taken)


def test_a_function_keeps_the_names_of_its_parameters():
    def model(first, *, second):
        return first + second

    taken = capture(model, X, {"second": X}, dynamic_shapes={"first": {0: "rows"}, "second": {0: "rows"}})
    assert list(taken.exported_program.graph_signature.user_inputs) == ["first", "second"]
    assert shapes(taken) == [("rows", "4"), ("rows", "4")]


def test_what_torch_compile_was_put_around_is_taken():
    taken = capture(torch.compile(SCALED), (X, torch.ones(1)))
    assert taken.model is SCALED
    assert_same(taken)


def test_an_exported_program_is_taken_as_it_is():
    program = torch.export.export(LAYER, (X,), dynamic_shapes=({0: Dim("n")},))
    taken = capture(program)
    assert taken.exported_program is program and taken.model is None and taken.strategy == "given"
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
    assert len(taken.exported_program.graph_signature.user_inputs) == 5
    assert_same(taken)


def test_dataclasses_that_torch_does_not_know():
    def model(picture):
        return Boxes(picture.pixels * 2, [picture.masks["left"], None])

    taken = capture(model, (Picture(X, {"left": X + 1}),), dynamic_shapes="auto")
    assert [first for first, _ in shapes(taken)] == ["picture_pixels_dim_0", "picture_masks_left_dim_0"]
    assert isinstance(taken.exported_program.module()(*taken.args), Boxes)
    assert_same(taken)


SMALL = {"vocab_size": 60, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
IDS = torch.arange(14).reshape(2, 7)
TOKENS = {"input_ids": IDS, "attention_mask": torch.ones_like(IDS)}


def test_bert_with_a_dynamic_batch_and_length():
    model = transformers.BertModel(transformers.BertConfig(**SMALL, max_position_embeddings=32)).eval()
    dims = {0: "batch", 1: "length"}
    taken = capture(model, kwargs=TOKENS, dynamic_shapes={"input_ids": dims, "attention_mask": dims})
    assert shapes(taken) == [("batch", "length")] * 2
    assert len(taken.exported_program.graph_signature.user_outputs) == 2
    (note,) = taken.notes
    assert "length <= 32 (transformers/models/bert/modeling_bert.py:" in note and "batch" not in note
    other = torch.arange(11).reshape(1, 11)
    assert_same(taken, input_ids=other, attention_mask=torch.ones_like(other))


def test_a_cache_in_the_output_is_tensors():
    config = transformers.GPT2Config(
        vocab_size=60, n_embd=16, n_layer=2, n_head=2, n_positions=32, bos_token_id=0, eos_token_id=0
    )
    taken = capture(transformers.GPT2LMHeadModel(config).eval(), kwargs=TOKENS)
    assert len(taken.exported_program.graph_signature.user_outputs) == 1 + 2 * 2


def test_a_cache_that_torch_does_not_know_is_refused():
    config = transformers.T5Config(vocab_size=60, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2)
    with pytest.raises(CaptureError, match=r"EncoderDecoderCache.*use_cache=False"):
        capture(transformers.T5Model(config).eval(), kwargs={**TOKENS, "decoder_input_ids": IDS})


# --- dynamic shapes --------------------------------------------------------------------------------------------------


def added(x, y):
    return torch.cat([x, y]) * x.shape[0]


def collected(collection: Any) -> Any:
    collection[X] = {0: "batch"}
    return collection


def with_others(inputs: Any) -> Any:
    inputs.add((torch.ones(3, 4), torch.ones(5, 4)))
    return inputs


SIZE = Dim("size", min=1, max=64)


@pytest.mark.parametrize(
    "given, expected",
    [
        ({"x": {0: "batch"}, "y": {0: "batch"}}, [("batch", "4"), ("batch", "4")]),
        ({"x": {0: "batch"}}, [("batch", "4"), ("2", "4")]),
        ({"x": {-2: "batch"}, "y": None}, [("batch", "4"), ("2", "4")]),
        (({0: "m"}, {0: "n"}), [("m", "4"), ("n", "4")]),
        ([["m", None], (2, 4)], [("m", "4"), ("2", "4")]),
        (({0: SIZE, 1: Dim.STATIC}, {0: SIZE}), [("size", "4"), ("size", "4")]),
        (({0: Dim.AUTO}, {0: Dim.DYNAMIC(max=9)}), [("x_dim_0", "4"), ("y_dim_0", "4")]),
        ("auto", [("x_dim_0", "x_dim_1"), ("y_dim_0", "x_dim_1")]),
        (collected(ShapesCollection()), [("batch", "4"), ("2", "4")]),
        (with_others(AdditionalInputs()), [("x_dim_0", "4"), ("y_dim_0", "4")]),
        (None, [("2", "4"), ("2", "4")]),
    ],
    ids=["names", "some", "negative", "tuple", "list", "Dim", "hints", "auto", "collection", "additional", "none"],
)
def test_every_form_of_dynamic_shapes(given, expected):
    y = X + 1
    taken = capture(added, (X, y), dynamic_shapes=given)
    assert shapes(taken) == expected
    assert taken.notes == ()
    rows = [5 if each[0] != "2" else 2 for each in expected]
    assert_same(taken, torch.ones(rows[0], 4), torch.ones(rows[1], 4))


def test_a_dimension_computed_from_another():
    taken = capture(lambda x, y: x.repeat(2, 1) + y, (X, torch.ones(4, 4)), dynamic_shapes=({0: SIZE}, {0: 2 * SIZE}))
    assert shapes(taken) == [("size", "4"), ("2*size", "4")] and taken.notes == ()
    alone = capture(lambda y: y.view(-1, 2, 4), torch.ones(4, 4), dynamic_shapes=({0: 2 * SIZE},))
    assert shapes(alone) == [("2*size", "4")] and alone.notes == ()


def test_dynamic_shapes_inside_nested_inputs():
    def model(batch, *rest):
        return batch["a"] + batch["b"][0], rest[1]

    inputs = ({"a": X, "b": [X + 1]}, torch.ones(3), torch.ones(5))
    taken = capture(model, inputs, dynamic_shapes={"batch": {"a": {0: "n"}, "b": [{0: "n"}]}, "rest": (None, {0: "m"})})
    assert shapes(taken) == [("n", "4"), ("n", "4"), ("3",), ("m",)]


def test_an_int_may_be_an_input():
    taken = capture(lambda x, n: x[:, :n], (X, 3), dynamic_shapes=(None, Dim.DYNAMIC))
    assert list(taken.dim_names.values()) == ["n"] and taken.notes == ()
    assert_same(taken, X, 2)


def test_the_form_of_dynamic_shapes_that_came_later():
    from torch.fx.experimental.dynamic_spec import ParamsSpec, ShapeVar, TensorSpec

    given = ParamsSpec({"x": TensorSpec([ShapeVar("n"), 4])})
    if _torch.takes_shapes_specs():
        assert shapes(capture(lambda x: x * 2, X, dynamic_shapes=given)) == [("x_dim_0", "4")]
    else:
        with pytest.raises(UsageError, match="takes no ParamsSpec"):
            capture(lambda x: x * 2, X, dynamic_shapes=given)


@pytest.mark.parametrize("dim", ["batch", Dim("batch"), Dim.AUTO, Dim.DYNAMIC], ids=str)
def test_a_dimension_of_one_in_the_example_stays_dynamic(dim):
    taken = capture(LAYER, X[:1], dynamic_shapes=({0: dim},))
    assert shapes(taken)[0][0] in ("batch", "input_dim_0") and taken.notes == ()
    assert_same(taken, torch.ones(7, 4))


@pytest.mark.parametrize(
    "model, condition, low, high",
    [
        (lambda x: x * 2 if x.shape[0] > 4 else x, "n <= 4", 0, 4),
        (lambda x: x * 2 if x.shape[0] == 1 else x, "n >= 2", 2, None),
        (lambda x: x + torch.ones(16, 4)[: x.shape[0]], "n <= 16", 0, 16),
        (lambda x: x * 2 if x.shape[0] % 2 == 0 else x, "n % 2 == 0", 0, None),
    ],
    ids=["branch", "one", "table", "even"],
)
def test_sizes_that_are_not_covered_are_told(model, condition, low, high):
    taken = capture(model, X, dynamic_shapes={"x": {0: "n"}})
    (note,) = taken.notes
    line = model.__code__.co_firstlineno
    assert f"where {condition} (" in note and f"test_capture.py:{line})" in note
    ((_, found),) = taken.exported_program.range_constraints.items()
    assert found.lower == low and (high is None or found.upper == high)


def test_dimensions_that_the_model_fixed_are_told():
    taken = capture(lambda x: x * len(x), X, dynamic_shapes="auto")
    assert shapes(taken) == [("2", "x_dim_1")]
    assert re.search(r"where x\.shape\[0\] == 2 \(\S*test_capture\.py:\d+\); other sizes", taken.notes[0])


def test_a_size_that_torch_sets_apart_is_told():
    # The branch contradicts a named dimension unless torch leaves out 0 and 1, which it does without a word.
    taken = capture(lambda x: x if x.shape[0] == 1 else x * 2, X, dynamic_shapes={"x": {0: Dim("n")}})
    assert "where n >= 2;" in taken.notes[0]
    assert [each.lower for each in taken.exported_program.range_constraints.values()] == [2]


def test_a_broadcast_dimension_of_one():
    taken = capture(lambda x, y: x + y, (X, X[:1]), dynamic_shapes="auto")
    assert shapes(taken)[1][0] == "1" and "y.shape[0] == 1" in taken.notes[0]
    with pytest.raises(CaptureError, match="size 1 in the example is dynamic, and is broadcast"):
        capture(lambda x, y: x + y, (X, X[:1]), dynamic_shapes=({0: "a"}, {0: "b"}))


class Table(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(16, 4))

    def forward(self, x):
        return x + self.table[: x.shape[0]]  # fails: table


@pytest.mark.parametrize(
    "model, given, needs, remedy",
    [
        (lambda x: x * len(x), {0: "n"}, "n == 2", "Leave the dimension out of dynamic_shapes"),
        (lambda x: x * int(x.shape[0]), {0: Dim("n")}, "n == 2", "(n = 2)"),
        (Table(), {0: Dim("n")}, "n <= 16", "(n = Dim('n', max=16))"),
        (lambda x: x if x.shape[0] % 2 else x * 2, {0: Dim("n")}, "n % 2 == 0", "n = 2*_n"),
    ],
    ids=["len", "int", "table", "even"],
)
def test_dynamic_shapes_that_the_model_does_not_allow(model, given, needs, remedy):
    with pytest.raises(CaptureError) as caught:
        capture(model, X, dynamic_shapes={"x": given})
    assert f"it needs {needs} (" in str(caught.value) and remedy in str(caught.value)
    paragraph, code = str(caught.value).split("\n")
    number = int(re.search(r"test_capture\.py:(\d+)", paragraph)[1])
    assert code.strip() == linecache.getline(__file__, number).strip()
    assert caught.value.__cause__ is not None


def test_two_dimensions_that_have_to_be_equal():
    with pytest.raises(CaptureError, match=r"it needs a == b \(.*\(b = a\)"):
        capture(lambda x, y: x + y, (X, X + 1), dynamic_shapes=({0: Dim("a")}, {0: Dim("b")}))
    taken = capture(lambda x, y: x + y, (X, X + 1), dynamic_shapes=({0: "a"}, {0: "b"}))
    assert "where a == b (" in taken.notes[0]


def test_additional_inputs_that_the_capture_does_not_fit():
    others = AdditionalInputs()
    others.add((torch.ones(17, 4),))
    with pytest.raises(CaptureError, match=rf"it needs x\.shape\[0\] <= 16 \(\S*test_capture\.py:{line_of('table')}\)"):
        capture(Table(), X, dynamic_shapes=others)


@pytest.mark.parametrize(
    "given, said",
    [
        ({"y": {0: "n"}}, "names 'y', which is no input here; the inputs are x"),
        ({"x": {5: "n"}}, "dimension 5 of x, which has 2 dimensions"),
        ({"x": {"0": "n"}}, "dimension '0' of x"),
        ({"x": {0: 7}}, "fixes x.shape[0] at 7, and in the example it is 2"),
        ({"x": {0: 3.5}}, "gives 3.5 for x.shape[0]"),
        ({"x": ("n",)}, "gives 1 dimensions for x, which has 2"),
        ({"x": "n"}, "gives 'n' for x"),
        ({"x": {0: Dim("n", min=10)}}, "x.shape[0] is 2 in the example, outside the range"),
        (({0: "n"}, None), "has 2 entries and the model has 1 inputs (x)"),
        ("dynamic", "dynamic_shapes is a str"),
        (5, "dynamic_shapes is an int"),
    ],
)
def test_dynamic_shapes_that_do_not_fit_the_inputs(given, said):
    with pytest.raises(UsageError) as caught:
        capture(lambda x: x * 2, X, dynamic_shapes=given)
    assert said in str(caught.value)


def test_dynamic_shapes_in_another_structure():
    with pytest.raises(UsageError, match=r"inputs\['x'\]` has 2 elements, but `dynamic_shapes\['x'\]` has 1"):
        capture(lambda x: x["a"] + x["b"], ({"a": X, "b": X},), dynamic_shapes={"x": {"a": {0: "n"}}})


def test_one_name_for_two_sizes():
    with pytest.raises(UsageError, match=r"both x\.shape\[0\] and x\.shape\[1\] 'n'.* 2 and 4"):
        capture(lambda x: x * 2, X, dynamic_shapes={"x": {0: "n", 1: "n"}})


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
        (lambda x: x.layer, (HOLDER,), None, "Among the inputs is a test_capture.Holder"),
    ],
)
def test_models_and_inputs_of_a_wrong_kind(model, args, kwargs, said):
    with pytest.raises(UsageError) as caught:
        capture(model, args, kwargs)
    assert said in str(caught.value)
    assert caught.value.exit_status == 2


def test_an_exported_program_with_what_does_not_fit():
    program = torch.export.export(LAYER, (X,))
    with pytest.raises(UsageError, match="whose dimensions are settled"):
        capture(program, dynamic_shapes="auto")
    with pytest.raises(UsageError, match="has 1 inputs, and 2 were given"):
        capture(program, (X, X))
    program.example_inputs = None
    with pytest.raises(UsageError, match="holds no example inputs"):
        capture(program)


# --- what cannot be captured -----------------------------------------------------------------------------------------


def branch(x):
    if x.sum() > 0:  # fails: branch
        return x + 1
    return x - 1


def nested_branch(x):
    return branch(x) * 2


def loop(x):
    for _ in range(int(x.max())):  # fails: loop
        x = x * 2
    return x


def repeat(x):
    while x.sum() < 100:  # fails: repeat
        x = x * 2
    return x


def size(x):
    found = x.nonzero()
    if found.shape[0] > 3:  # fails: size
        return x
    return found


def index(x):
    return x * [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0][x.argmax()]  # fails: index


def equal(x):
    return x * bool(torch.equal(x, x * 1))  # fails: equal


def as_scales(x):
    return nn.functional.interpolate(x[None, None], scale_factor=(x + 1).mean(1).tolist())  # fails: as_scales


def pointer(x):
    return x * x.data_ptr()  # fails: pointer


def unknown_container(x):
    return Holder()


@pytest.fixture(scope="module", autouse=True)
def operators_of_our_own():
    library = torch.library.Library("opbridge_capture_test", "DEF")
    library.define("no_kernel(Tensor x) -> Tensor")
    yield
    library._destroy()


def line_of(marker: str) -> int:
    with open(__file__) as file:
        return next(number for number, line in enumerate(file, 1) if line.rstrip().endswith(f"# fails: {marker}"))


@pytest.mark.parametrize(
    "model, what, instead",
    [
        (branch, "a Python `if` depends on the values of a tensor", "torch.where(condition, a, b), or torch.cond("),
        (loop, "the number of passes of a Python loop depends on", "Loop to a fixed maximum"),
        (repeat, "a Python while loop runs as long as", "torch.while_loop("),
        (size, "depends on a size that only the data decides", "torch._check"),
        (index, "Python needs a number here", "Keep it a tensor"),
        (equal, "turned into a Python bool", "(a == b).all()"),
        (as_scales, "an operator wants a plain Python number here", "Give it a constant"),
        (pointer, "native code", "torch.library.custom_op"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_stops_a_capture_is_told_with_its_line(model, what, instead, capfd):
    with pytest.raises(CaptureError) as caught:
        capture(model, X)
    paragraph, code = str(caught.value).split("\n")
    assert f"test_capture.py:{line_of(model.__name__)}, in {model.__name__}" in paragraph
    assert what in paragraph and instead in paragraph
    assert code.strip().endswith(f"# fails: {model.__name__}")
    assert caught.value.__cause__ is not None and caught.value.exit_status == 1
    assert capfd.readouterr() == ("", "")


def test_an_operator_of_torch_without_a_fake_implementation_is_told():
    with pytest.raises(CaptureError, match="aten::geqrf has no fake") as caught:
        capture(lambda x: torch.geqrf(x)[0], X, dynamic_shapes=({0: "rows"},))
    assert "torch.library.register_fake(" in str(caught.value)


def test_the_innermost_line_of_the_model_is_named():
    with pytest.raises(CaptureError, match=rf"test_capture\.py:{line_of('branch')}, in branch, "):
        capture(nested_branch, X)


def test_the_line_of_the_user_stands_beside_that_of_a_library():
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = transformers.Wav2Vec2Model(
                transformers.Wav2Vec2Config(
                    **{**SMALL, "vocab_size": 8},
                    conv_dim=(8,),
                    conv_stride=(5,),
                    conv_kernel=(10,),
                    num_feat_extract_layers=1,
                    num_conv_pos_embeddings=4,
                    num_conv_pos_embedding_groups=2,
                    apply_spec_augment=False,
                )
            )

        def forward(self, x):
            return self.encoder(x)  # fails: library

    with pytest.raises(CaptureError) as caught:
        capture(Model(), torch.ones(1, 400))
    said = str(caught.value)
    assert re.search(r"at transformers/models/wav2vec2/modeling_wav2vec2\.py:\d+, in forward, called at ", said)
    assert f"test_capture.py:{line_of('library')}, " in said
    assert "in training mode only: for inference call model.eval() first" in said


def test_an_output_that_torch_does_not_know():
    with pytest.raises(CaptureError, match=r"returns a test_capture\.Holder.*tuple, list, dict or dataclass"):
        capture(unknown_container, X)


@pytest.mark.parametrize(
    "model, said",
    [
        (lambda x: x @ torch.ones(7, 7), "cannot be multiplied (2x4 and 7x7)"),
        (lambda x: torch.ops.opbridge_capture_test.no_kernel(x), "Could not run 'opbridge_capture_test::no_kernel'"),
        (lambda x: x.missing, "has no attribute 'missing'"),
    ],
    ids=["shapes", "kernel", "attribute"],
)
def test_a_model_that_fails_by_itself(model, said):
    with pytest.raises(UsageError) as caught:
        capture(model, X)
    paragraph, _ = str(caught.value).split("\n")
    assert paragraph.startswith("The model itself fails on these inputs in plain PyTorch")
    assert said in paragraph and "(float32[2, 4])" in paragraph
    assert f"test_capture.py:{model.__code__.co_firstlineno}, in <lambda>" in paragraph


def test_a_failed_capture_leaves_the_model_as_it_was():
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(4)
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            self.last = self.norm(x)
            return branch(self.last)

    model = Model()
    with pytest.raises(CaptureError):
        capture(model, X)
    assert model.calls == 0 and not hasattr(model, "last") and model.training
    assert model.norm.num_batches_tracked == 0 and torch.equal(model.norm.running_mean, torch.zeros(4))


# --- what is captured otherwise than it looks ------------------------------------------------------------------------


def test_a_value_that_python_takes_from_a_tensor_is_not_frozen():
    def model(x):
        return torch.arange(int(x.max()))  # fails: strict

    taken = capture(model, torch.tensor([3, 5]))
    assert taken.strategy == "strict"
    (note,) = taken.notes
    assert f"test_capture.py:{line_of('strict')}, Python needs a number here" in note
    assert_same(taken, torch.tensor([9, 2]))


@pytest.mark.parametrize(
    "model",
    [
        lambda x: x * float(x.mean()),
        lambda x: x * np.mean(x.numpy()),
        lambda x: torch.tensor([x.max(), x.min()]),
    ],
    ids=["float", "numpy", "tensor"],
)
def test_what_the_strict_mode_takes_follows_its_input(model):
    taken = capture(model, X)
    assert taken.strategy == "strict"
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
    assert "forward() sets self.calls, self.seen, self.inner.last, and a graph keeps no Python state" in taken.notes[0]
    assert model.calls == 0 and model.seen == [] and not hasattr(model.inner, "last")


def test_random_numbers_of_python_are_told():
    assert "random numbers" in capture(lambda x: x * random.random(), X).notes[0]
    assert "random numbers" in capture(lambda x: x * np.random.rand(), X).notes[0]
    assert capture(lambda x: x * torch.rand(4), X).notes == ()


def test_python_numbers_among_the_inputs_are_told():
    taken = capture(SCALED, (X, 2.5))
    assert taken.notes == (
        "inputs that are Python numbers are fixed in the graph (scale = 2.5); a tensor stays an input",
    )
    assert capture(lambda x, flag, name: x, (X, True, "a")).notes == ()


def test_training_mode_is_told_where_it_matters():
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout())
    (note,) = capture(model, X).notes
    assert "in training mode, and aten::batch_norm, aten::dropout act as in training; call model.eval()" in note
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
    assert "captured with gradients on" in taken.notes[0]
    torch.testing.assert_close(taken.exported_program.module()(X), 2 * X)
