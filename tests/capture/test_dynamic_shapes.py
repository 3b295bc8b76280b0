"""Capture: dynamic shapes."""

from __future__ import annotations

import linecache
import operator
import re
from typing import Any

import pytest
import torch
from helpers.captures import LAYER, X, assert_same, line_of, shapes
from torch import nn
from torch.export import AdditionalInputs, Dim, ShapesCollection

from opbridge.base.torch_private import capabilities
from opbridge.capture import capture
from opbridge.capture.config import CaptureConfig
from opbridge.errors import CaptureError, UsageError


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
    if capabilities.exports_shapes_specs.present:
        assert shapes(capture(lambda x: x * 2, X, dynamic_shapes=given)) == [("x_dim_0", "4")]
    else:
        with pytest.raises(UsageError, match="does not support ParamsSpec"):
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
@pytest.mark.usefixtures("one_branch")
def test_sizes_that_are_not_covered_are_told(model, condition, low, high):
    taken = capture(model, X, dynamic_shapes={"x": {0: "n"}})
    (note,) = taken.notes
    line = model.__code__.co_firstlineno
    assert f"only for {condition} (" in note and f"test_dynamic_shapes.py:{line})" in note
    ((_, found),) = taken.graph.ranges.items()
    assert found == (low, high)


def test_dimensions_that_the_model_fixed_are_told():
    taken = capture(lambda x: x * operator.index(x.shape[0]), X, dynamic_shapes="auto")
    assert shapes(taken) == [("2", "x_dim_1")]
    assert re.search(r"only for x\.shape\[0\] == 2 \(\S*test_dynamic_shapes\.py:\d+\); other sizes", taken.notes[0])


def test_a_length_stays_dynamic():
    taken = capture(lambda x: x * len(x), X, dynamic_shapes="auto")
    assert taken.notes == () and shapes(taken) == [("x_dim_0", "x_dim_1")]
    assert_same(taken, torch.ones(5, 3))
    assert "len" not in globals()


def test_a_size_that_torch_sets_apart_is_told():
    # The branch decides for all sizes but 1, which are the ones that the capture is for.
    taken = capture(lambda x: x if x.shape[0] == 1 else x * 2, X, dynamic_shapes={"x": {0: Dim("n")}})
    assert re.search(r"only for n >= 2 \(\S*test_dynamic_shapes\.py:\d+\);", taken.notes[0])
    assert [low for low, _ in taken.graph.ranges.values()] == [2]


@pytest.mark.slow
def test_a_broadcast_dimension_of_one():
    taken = capture(lambda x, y: x + y, (X, X[:1]), dynamic_shapes="auto")
    assert shapes(taken)[1][0] == "1" and "y.shape[0] == 1" in taken.notes[0]
    with pytest.raises(CaptureError, match="size 1 in the example inputs is dynamic and is broadcast"):
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
        (lambda x: x * range(9)[x.shape[0]], {0: "n"}, "n == 2", 'Leave dimension 0 of "x" out of dynamic_shapes: '),
        (
            lambda x: x * operator.index(x.shape[0]),
            {0: Dim("n")},
            "n == 2",
            'Leave dimension 0 of "x" out of dynamic_shapes: ',
        ),
        (Table(), {0: Dim("n")}, "n <= 16", 'State "x": {0: Dim("n", max=16)} in dynamic_shapes: '),
        (
            lambda x: x if x.shape[0] % 2 else x * 2,
            {0: Dim("n")},
            "n % 2 == 0",
            'State "x": {0: 2*Dim("n")} in dynamic_shapes: ',
        ),
    ],
    ids=["index", "int", "table", "even"],
)
def test_dynamic_shapes_that_the_model_does_not_allow(model, given, needs, remedy):
    with pytest.raises(CaptureError) as caught:
        capture(model, X, dynamic_shapes={"x": given})
    assert str(caught.value).startswith(remedy) and f"it requires {needs} (" in str(caught.value)
    paragraph, code = str(caught.value).split("\n")
    number = int(re.search(r"test_dynamic_shapes\.py:(\d+)", paragraph)[1])
    assert code.strip() == linecache.getline(__file__, number).strip()
    assert caught.value.__cause__ is not None


@pytest.mark.slow
def test_two_dimensions_that_have_to_be_equal():
    with pytest.raises(CaptureError, match=r'^State "y": \{0: a\} in dynamic_shapes: .* it requires a == b \('):
        capture(
            lambda x, y: x + y,
            (X, X + 1),
            dynamic_shapes=({0: Dim("a")}, {0: Dim("b")}),
            config=CaptureConfig(strict=True),
        )
    taken = capture(lambda x, y: x + y, (X, X + 1), dynamic_shapes=({0: "a"}, {0: "b"}))
    assert "'b' is a" in taken.notes[0]


def test_additional_inputs_that_the_capture_does_not_fit():
    others = AdditionalInputs()
    others.add((torch.ones(17, 4),))
    with pytest.raises(
        CaptureError,
        match=rf"it requires x\.shape\[0\] <= 16 \(\S*test_dynamic_shapes\.py:{line_of(__file__, 'table')}\)",
    ):
        capture(Table(), X, dynamic_shapes=others)


@pytest.mark.parametrize(
    "given, said",
    [
        ({"y": {0: "n"}}, "names 'y', which is not an input of the model; the inputs are x"),
        ({"x": {5: "n"}}, "dimension 5 of x, which has 2 dimensions"),
        ({"x": {"0": "n"}}, "dimension '0' of x"),
        ({"x": {0: 7}}, "fixes x.shape[0] to 7, but its size in the example inputs is 2"),
        ({"x": {0: 3.5}}, "has 3.5 for x.shape[0]"),
        ({"x": ("n",)}, "has 1 element for x, which has 2"),
        ({"x": "n"}, "has 'n' for x"),
        ({"x": {0: Dim("n", min=10)}}, "x.shape[0] is 2 in the example inputs, which is outside of its range"),
        (({0: "n"}, None), "has 2 entries, but the model has 1 input (x)"),
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
