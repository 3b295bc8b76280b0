"""Reshape and Slice by sizes of which some are known only when the model runs."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from opbridge.onnx.builder import Builder
from opbridge.translations.lib.dims import Dim, dims_of
from opbridge.translations.lib.reshaping import ENDLESS, reshape, take_slice, unsqueeze_around, with_batch


@pytest.fixture
def builder():
    builder = Builder(18)
    with builder.translating():
        yield builder


def _tensor(builder, *shape):
    return builder.value(builder.unique("x"), ir.DataType.FLOAT, list(shape))


def _operators(builder):
    return [node.op_type for node in builder.nodes]


def _target(result):
    """The shape that a Reshape is given."""
    return result.producer().inputs[1].const_value.numpy().tolist()


def test_a_static_rest_is_computed(builder):
    result = reshape(_tensor(builder, 2, 6), [3, -1])
    assert _target(result) == [3, 4]
    assert result.shape == ir.Shape([3, 4])
    assert result.dtype == ir.DataType.FLOAT


def test_one_unknown_size_keeps_the_shape_a_constant(builder):
    x = _tensor(builder, "rows", 6)
    rows, columns = dims_of(x)
    result = reshape(x, [rows, columns // 2, 2])
    assert _target(result) == [-1, 3, 2]
    assert [dim if isinstance(dim, int) else None for dim in result.shape] == [None, 3, 2]


def test_several_unknown_sizes_are_put_together(builder):
    x = _tensor(builder, "rows", "columns", 2)
    rows, columns, _ = dims_of(x)
    result = reshape(x, [rows, columns * 2])
    assert result.producer().inputs[1].producer().op_type == "Concat"
    assert result.producer().attributes["allowzero"].as_int() == 1


def test_a_size_of_0_means_no_elements(builder):
    x = _tensor(builder, "rows", 0)
    result = reshape(x, [0, 3])
    assert _target(result) == [0, 3]
    assert result.producer().attributes["allowzero"].as_int() == 1


def test_a_shape_that_stays_builds_nothing(builder):
    x = _tensor(builder, 2, 3)
    assert reshape(x, [2, 3]) is x
    assert reshape(x, dims_of(x)) is x


def test_slices(builder):
    x, n = _tensor(builder, 2, 3), builder.value("n", ir.DataType.INT64, [])
    assert take_slice(x, 0, 0, ENDLESS) is x
    assert take_slice(x, 1, 1, Dim(n)).producer().op_type == "Slice"


def test_a_vector_among_other_axes(builder):
    vector = _tensor(builder, 3)
    assert unsqueeze_around(vector, 0, 1) is vector
    added = unsqueeze_around(vector, 1, 3)
    assert added.producer().inputs[1].const_value.numpy().tolist() == [0, 2]


def test_a_batch_for_the_time_being(builder):
    x = _tensor(builder, 4, 5)
    assert with_batch(x, 2, lambda each: each) is x
    ranks = []
    with_batch(x, 3, lambda each: ranks.append(len(each.shape)) or each)
    assert ranks == [3]
    assert _operators(builder) == ["Unsqueeze", "Squeeze"]
