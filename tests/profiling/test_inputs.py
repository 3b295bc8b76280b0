"""The inputs that a file is profiled on."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import opbridge
from opbridge.profiling.inputs import as_value, random_feeds, sizes_given, sizes_of
from opbridge.runtimes.arguments import NodeArgument

IDS = NodeArgument("ids", "tensor(int64)", ["batch", "seq"])
MASK = NodeArgument("mask", "tensor(float)", ["batch", 4, "past + seq"])
FREE = NodeArgument("free", "tensor(float)", [None, None])


def test_sizes_that_nobody_gives():
    shapes, chosen = sizes_of([IDS, FREE], {})
    assert shapes == {"ids": [1, 64], "free": [1, 64]}
    assert chosen == {"batch": 1, "seq": 64, "free:0": 1, "free:1": 64}


def test_sizes_by_name_by_input_and_by_expression():
    shapes, chosen = sizes_of([IDS, MASK, FREE], {"seq": 8, "past": 3, "free:1": 5})
    assert shapes == {"ids": [1, 8], "mask": [1, 4, 11], "free": [1, 5]}
    assert chosen == {"batch": 1, "seq": 8, "past": 3, "free:0": 1, "free:1": 5}


def test_a_size_of_no_dimension_is_refused():
    with pytest.raises(opbridge.UsageError, match="given for 'n', which is no dynamic dimension .* are: batch, seq"):
        sizes_of([IDS], {"n": 2})


def test_sizes_as_the_command_line_has_them():
    assert sizes_given(["n=8, x:0=2", "m=1"]) == {"n": 8, "x:0": 2, "m": 1}
    assert sizes_given(None) == {}
    for given in (["n"], ["n=-1"], ["n=2.5"]):
        with pytest.raises(opbridge.UsageError, match="Invalid value for --size"):
            sizes_given(given)
    with pytest.raises(opbridge.UsageError, match="expected a size, such as 8"):
        sizes_given({"n": 2.5})


def test_random_inputs_have_the_types_of_the_file():
    shapes, _ = sizes_of([IDS, MASK], {})
    first = random_feeds([IDS, MASK], shapes)[0]
    assert (first["ids"].dtype, first["mask"].dtype, first["mask"].shape) == (np.int64, np.float32, (1, 4, 128))
    with pytest.raises(opbridge.UsageError, match=r"type seq\(tensor\(float\)\).* Give the inputs in an .npz file"):
        random_feeds([NodeArgument("s", "seq(tensor(float))", [])], {"s": []})


def test_values_for_onnx_runtime():
    value = as_value("x", np.ones((2, 0), ml_dtypes.bfloat16))
    assert (value.data_type(), list(value.shape())) == ("tensor(bfloat16)", [2, 0])
    assert list(as_value("x", np.float32(1.0)).shape()) == []
    with pytest.raises(opbridge.UsageError, match="'x' holds texts"):
        as_value("x", np.array(["a"], object))
