"""The paths in which dynamic shapes are spelled; the names in the file are those that were given."""

from __future__ import annotations

import pytest
import torch

import opbridge
from opbridge.errors import UsageError

X = torch.randn(3, 5)
IMAGE = torch.randn(2, 3, 4, 5)


def one(x):
    return x * 2


def two(x, y):
    return x + y


def several(*inputs):
    return inputs[0] + inputs[1]


def by_name(x, **others):
    return x + others["a"]


@pytest.mark.parametrize(
    ("model", "args", "shapes", "settings", "wanted"),
    [
        (one, (X,), "batch", {}, [("x", ["batch", "5"])]),
        (two, (X, X), "batch", {}, [("x", ["batch", "5"]), ("y", ["batch", "5"])]),
        (two, (X, X), "auto", {}, [("x", ["x_dim_0", "x_dim_1"]), ("y", ["x_dim_0", "x_dim_1"])]),
        (one, (X,), {"x": {0, 1}}, {}, [("x", ["x_dim_0", "x_dim_1"])]),
        (one, (X,), ({0},), {}, [("x", ["x_dim_0", "5"])]),
        (one, (IMAGE,), {"x": ("batch", 3, "h", "w")}, {}, [("x", ["batch", "3", "h", "w"])]),
        (one, (IMAGE,), [["batch", None, "h", "w"]], {}, [("x", ["batch", "3", "h", "w"])]),
        (two, (X, X), {0: "b", 1: "n"}, {}, [("x", ["b", "n"]), ("y", ["b", "n"])]),
        (several, (X, X), {"inputs": ({0: "b"}, {0: "b"})}, {}, [("inputs_0", ["b", "5"]), ("inputs_1", ["b", "5"])]),
        (several, (X, X), ({0: "b"}, {0: "b"}), {}, [("inputs_0", ["b", "5"]), ("inputs_1", ["b", "5"])]),
        (
            several,
            (X, X),
            {"inputs_0": {0: "b"}, "inputs_1": {0: "b"}},
            {},
            [("inputs_0", ["b", "5"]), ("inputs_1", ["b", "5"])],
        ),
        (by_name, (X,), {"x": {0: "b"}, "a": {0: "b"}}, {"kwargs": {"a": X}}, [("x", ["b", "5"]), ("a", ["b", "5"])]),
        (
            by_name,
            (X,),
            {"x": {0: "b"}, "others": {"a": {0: "b"}}},
            {"kwargs": {"a": X}},
            [("x", ["b", "5"]), ("a", ["b", "5"])],
        ),
        (
            two,
            (X, X),
            {"p": {0: "b"}, "q": {0: "b"}},
            {"input_names": ["p", "q"]},
            [("p", ["b", "5"]), ("q", ["b", "5"])],
        ),
    ],
)
def test_spellings(model, args, shapes, settings, wanted):
    program = opbridge.export(model, args, dynamic_shapes=shapes, verify=False, **settings)
    assert [(each.name, [str(size) for size in each.shape]) for each in program.model.graph.inputs] == wanted


def test_dynamic_axes_keep_their_names():
    axes = {"p": {0: "b"}, "q": {0: "b"}, "sum": {0: "b"}}
    program = opbridge.export(two, (X, X), input_names=["p", "q"], output_names=["sum"], dynamic_axes=axes)
    assert [(each.name, str(each.shape[0])) for each in program.model.graph.inputs] == [("p", "b"), ("q", "b")]
    assert [(each.name, str(each.shape[0])) for each in program.model.graph.outputs] == [("sum", "b")]


@pytest.mark.parametrize(
    ("shapes", "said"),
    [
        ({2: "b"}, "names dimension 2, which no input has"),
        ({"x": {7}}, "names dimension 7 of x"),
        ({"z": {0: "b"}}, "'z', which is not an input of the model"),
        ("rows", "'batch' or 'auto'"),
    ],
)
def test_what_does_not_fit_is_refused(shapes, said):
    with pytest.raises(UsageError, match=said):
        opbridge.export(one, (X,), dynamic_shapes=shapes)
