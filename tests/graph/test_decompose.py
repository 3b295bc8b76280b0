"""One operator, as operators that have translations."""

from __future__ import annotations

import pytest
import torch

import opbridge
from opbridge.base.torch_private import torch_operators
from opbridge.capture import capture
from opbridge.graph.decompose import decompose


@torch.library.custom_op("decomposetest::opaque", mutates_args=())
def opaque(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@opaque.register_fake
def _(x):
    return torch.empty_like(x)


def _node(function, *args, **keywords):
    graph = capture(function, args, **keywords).graph.graph
    return [node for node in graph.nodes if node.op == "call_function"][-1]


def _names(graph):
    return [torch_operators.operator_name(node.target) for node in graph.graph.nodes if node.op == "call_function"]


def test_a_composite_becomes_its_parts():
    graph = decompose(_node(torch.nn.functional.huber_loss, torch.randn(3), torch.randn(3)), lambda name: False)
    assert graph is not None
    assert "aten::huber_loss" not in _names(graph)
    x, y = torch.randn(3), torch.randn(3)
    result = torch.utils._pytree.tree_leaves(graph(x, y))[0]
    torch.testing.assert_close(result, torch.nn.functional.huber_loss(x, y))


def test_what_is_translated_is_left_whole():
    node = _node(torch.nn.functional.mish, torch.randn(3))
    assert "aten::softplus" not in _names(decompose(node, lambda name: False))
    assert "aten::softplus" in _names(decompose(node, lambda name: name == "aten::softplus"))


def test_there_may_be_no_other_form():
    assert decompose(_node(torch.ops.decomposetest.opaque, torch.randn(3)), lambda name: False) is None


def test_sizes_stay_symbolic():
    def model(x):
        return torch.special.entr(x)

    program = opbridge.export(model, (torch.randn(3, 4),), dynamic_shapes=({0: "rows"},))
    assert {run.label for run in program.verification.runs} >= {"example"}
    assert any(run.kind == "sizes" for run in program.verification.runs)


@pytest.mark.slow
def test_what_is_registered_later_is_used_too():
    torch_operators.decomposition_table()
    with torch.library._scoped_library("decomposetest", "FRAGMENT") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: 2 * x, "CPU")
        library.impl("twice", torch.empty_like, "Meta")
        twice = torch.ops.decomposetest.twice.default
        torch._decomp.register_decomposition(twice)(lambda x: x + x)
        try:
            plan = opbridge.check(lambda x: twice(x), (torch.randn(3),))
        finally:
            del torch._decomp.decomposition_table[twice]
    assert plan.rows[0].how == "decomposed into aten::add.Tensor"


@pytest.mark.slow
def test_a_composite_implementation_is_traced():
    """CompositeImplicitAutograd: torch.export sees through such an operator."""
    with torch.library._scoped_library("decomposetest", "FRAGMENT") as library:
        library.define("thrice(Tensor x) -> Tensor")
        library.impl("thrice", lambda x: x + x + x, "CompositeImplicitAutograd")
        program = opbridge.export(lambda x: torch.ops.decomposetest.thrice(x), (torch.randn(3),))
    assert [node.op_type for node in program.model.graph] == ["Add", "Add"]


def test_a_write_to_a_view_reaches_the_whole():
    node = _node(lambda x: x.clone().fill_diagonal_(1.0), torch.randn(3, 4))
    graph = decompose(node, lambda name: False)
    assert not any(each.target._schema.is_mutable for each in graph.graph.nodes if each.op == "call_function")
    x = torch.randn(3, 4)
    torch.testing.assert_close(torch.utils._pytree.tree_leaves(graph(x))[0], x.clone().fill_diagonal_(1.0))


def test_a_decomposition_for_one_size_is_none():
    node = _node(lambda x: torch.kron(x, torch.eye(2)), torch.randn(3, 4), dynamic_shapes=({0: "rows"},))
    assert decompose(node, lambda name: False) is None
    assert isinstance(node.args[0].meta["val"].shape[0], torch.SymInt)
    assert str(node.args[0].meta["val"].shape[0]) != "3"


def test_arguments_keep_their_shapes_where_the_operator_changes_them():
    node = _node(lambda x: x.clone().resize_(6), torch.randn(3, 4))
    clone = node.args[0]
    decompose(node, lambda name: False)
    assert list(clone.meta["val"].shape) == [3, 4]


def test_a_dynamic_batch_of_one_in_the_example_is_not_taken_for_one():
    node = _node(torch.fft.fft2, torch.randn(1, 4, 6), dynamic_shapes=({0: "batch"},))
    graph = decompose(node, lambda name: name in ("aten::_fft_r2c", "aten::_fft_c2c"))
    assert graph is not None
    x = torch.randn(3, 4, 6)
    torch.testing.assert_close(torch.utils._pytree.tree_leaves(graph(x))[0], torch.fft.fft2(x))
