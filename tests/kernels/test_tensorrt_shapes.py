"""The shapes of TensorRT plug-ins: expressions that shape functions build of sizes that are not known yet."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from device import SOURCE
from tensorrt_host import Host, HostTensor

from opbridge.kernels import tensorrt
from opbridge.kernels.compiler import Settings

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the stand-in for TensorRT is built as a Linux library"),
]

PLUGINS = Path(__file__).with_name("plugins.cpp")
OF = HostTensor.of


@pytest.fixture(scope="module")
def host() -> Host:
    return Host(tensorrt.build(PLUGINS, SOURCE, settings=Settings(debug=True, flags=("-DSEEMING_CUDA",))))


def dynamic(*shapes: Sequence[int]) -> list[HostTensor]:
    return [OF(shape, dynamic=True) for shape in shapes]


def test_sizes_are_computed_by_expressions(host):
    plugin = host.create("plugintest::arithmetic", {"step": 3})
    for x, y in itertools.product((1, 3, 4, 17), (0, 2, 3, 9)):
        taken = (x - 1) // 3 + 1
        expected = (taken, y % 3 + 1, min(x, 5), max(y, 2 * taken), x + y, 0)
        assert plugin.shapes(dynamic((x, y))) == [expected]
        assert plugin.shapes([OF((x, y))]) == [expected]


def test_sizes_that_depend_on_comparisons_are_selected(host):
    plugin = host.create("plugintest::branches")
    for x, y in itertools.product((1, 3, 4, 5, 9), (1, 4, 5, 8)):
        expected = (10 * x, y) if x < 4 else (x, 1) if x == y else (x + y, y)
        assert plugin.shapes(dynamic((x, y))) == [expected]
        assert plugin.shapes([OF((x, y))]) == [expected]


def test_what_is_required_of_dynamic_sizes_is_left_to_the_call(host):
    plugin = host.create("elementtest::scaled_add")
    assert plugin.shapes(dynamic((2, 3), (2, 3))) == [(2, 3)]
    assert plugin.expressions <= 12  # nothing is selected
    assert plugin.shapes([OF((2, 3)), OF((2, 4))]) is None
    assert "scaled_add: the tensors must have the same shape: (2, 3), (2, 4)" in host.messages()
    assert plugin.run([OF((2, 3)), OF((2, 4))], [OF((2, 3))]) == 2
    assert "scaled_add: the tensors must have the same shape: (2, 3), (2, 4)" in host.messages()


@pytest.mark.parametrize(
    ("a", "b"),
    [((2, 3), (2, 3)), ((2, 1), (1, 4)), ((3,), (5, 3)), ((1, 1, 2), (4, 1)), ((), (2, 0)), ((1, 0), (3, 1))],
)
def test_broadcast_sizes_hold_for_whichever_is_1(host, a, b):
    plugin = host.create("elementtest::broadcast_add")
    expected = tuple(torch.broadcast_shapes(a, b))
    assert plugin.shapes(dynamic(a, b)) == [expected]
    assert plugin.shapes([OF(a), *dynamic(b)]) == [expected]


def test_a_shape_function_of_several_outputs_and_of_lists(host):
    assert host.create("elementtest::split").shapes(dynamic((4, 5))) == [(4, 5), (4, 5)]
    plugin = host.create("plugintest::joined", {"left": 2, "right": 1, "plugin_outputs": 2})
    assert plugin.shapes(dynamic((1,), (2, 3), (4,), (5,))) == [(2, 3), (4,)]
    other = host.create("plugintest::joined", {"left": 2, "right": 1, "plugin_outputs": 3})
    assert other.shapes(dynamic((1,), (2, 3), (4,), (5,))) is None
    assert "the node has 3 outputs, and the operator returns 2 tensors here" in host.messages()


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        ("ranks", (2, 3), "the number of dimensions of output 0 depends on sizes"),
        ("as_number", (2,), "takes a size that is not known when the engine is built as a number (Dim::value())"),
        ("computed", (2,), "output 0 has a size that only the kernel can compute"),
        ("throws", (2,), "the shape function ends"),
        ("throws_number", (2,), "an exception that is not a std::exception was thrown"),
        ("counting", (2,), "compares too many sizes that are not known when the engine is built"),
        ("many", (2,), "output 0 has 9 dimensions, and TensorRT's tensors have at most 8"),
    ],
)
def test_what_has_no_expression_is_an_error_in_words(host, name, shape, words):
    plugin = host.create(f"plugintest::{name}")
    assert plugin.shapes(dynamic(shape)) is None
    assert f"1 plugintest::{name}: " in (said := host.messages())
    assert words in said


def test_fixed_sizes_may_be_taken_as_numbers(host):
    assert host.create("plugintest::as_number").shapes([OF((4,))]) == [(5,)]
    assert host.create("plugintest::counting").shapes([OF((6,))]) == [(6,)]


def test_a_node_with_other_inputs_is_refused(host):
    plugin = host.create("elementtest::scaled_add")
    assert plugin.shapes(dynamic((2,))) is None
    assert "scaled_add: the input 'b' is missing" in host.messages()
    assert plugin.shapes(dynamic((2,), (2,), (2,))) is None
    assert "the node has 3 inputs, which do not match the schema" in host.messages()
