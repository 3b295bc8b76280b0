"""Questions after a loop about the size of a tensor that branches before it have made in different ways."""

from __future__ import annotations

import pytest
import torch
from helpers.matching import assert_matches
from torch.fx import Graph, GraphModule

from opbridge.base.sources import of_code
from opbridge.capture.control_flow.merge_points import Unjoined
from opbridge.capture.control_flow.sizes_of_variables import sizes_of_variables
from opbridge.capture.control_flow.unify_arguments import Computed, Given, unify_arguments
from opbridge.capture.tracer.sizes_of_data import sizes_read_from_data

X = torch.randn(20)
OTHERS = [(-torch.rand(20), torch.tensor(0)), (torch.rand(20), torch.tensor(2)), (torch.zeros(20), torch.tensor(1))]


def _normalised(found: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    for _ in range(int(count.item())):
        found = found * 2
    if len(found) > 0:
        found = found / found.abs().max()
    return found


def either_condition(x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    found = x[x > 0]
    if count > 0:
        found = x[torch.where(x.cos() > 0.3)[0]]
    return _normalised(found, count)


def first_elements(x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    found = x[torch.where(x > 0)[0]][:3]
    if count > 0:
        found = x[torch.where(x.cos() > 0.3)[0]][:3]
    return _normalised(found, count)


def _above_the_mean(x: torch.Tensor) -> torch.Tensor:
    if x.numel() == 0:
        return torch.empty((0,), dtype=torch.int64)
    return torch.where(x >= x.mean())[0]


def early_return(x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    kept = x[x > 0]
    return _normalised(kept[_above_the_mean(kept)], count)


def one_row_for_none(x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    rows = x[x > 0].repeat(2, 1).T
    if rows.shape[0] == 0:
        rows = x.new_ones((1, 2))
    for _ in range(int(count.item())):
        rows = rows + 1
    return rows.sum(0) if len(rows) > 1 else rows.amax(0) * 7


def an_early_return_for_each(x: torch.Tensor, count: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    found = []
    for each in (x, -x):
        kept = each[each > 0.1]
        found.append(kept[_above_the_mean(kept)][:4])
    total = found[0].shape[0] + found[1].shape[0]
    joined = _normalised(torch.cat(found), count)
    return (joined.reshape(total, 1) if total > 0 else joined[:, None]), count + total


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [either_condition, first_elements, early_return, one_row_for_none, an_early_return_for_each],
    ids=lambda model: model.__name__,
)
def test_other_data(model):
    assert_matches(model, X, torch.tensor(3), others=OTHERS)


class _Path:
    """An execution path with one decision, made by hand.

    Args:
        size: The size of the tensor that a variable holds at the decision.
    """

    def __init__(self, size: int | torch.SymInt) -> None:
        graph = Graph()
        made = graph.placeholder("made")
        self.number = graph.call_function(torch.ops.aten.sym_size.int, (made, 0))
        self.held = graph.call_function(torch.neg, (made,))
        self.number.meta["val"] = size
        for node in (made, self.held):
            node.meta["val"] = torch.empty(size, device="meta")
        self.decisions = (graph.call_function(print, ([self.held], [], None, True)),)
        self.module = GraphModule({}, graph)


class _Block:
    """A block that both paths decide at the end of."""

    decides, before = True, ()

    def __init__(self, *paths: _Path) -> None:
        self.passes = {(path, 0): (0, 0) for path in paths}


@pytest.fixture
def sizes():
    """Two sizes of data."""
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    env = ShapeEnv()
    return env.create_unbacked_symint(), env.create_unbacked_symint()


def test_a_number_is_the_size_of_what_a_variable_holds(sizes):
    paths = [_Path(size) for size in sizes]
    known = sizes_of_variables(_Block(*paths))
    form = unify_arguments({(path, 0): (path.number, 4) for path in paths}, known)
    (computed, constant) = form
    assert constant == 4 and isinstance(computed, Computed) and computed.target is torch.ops.aten.sym_size.int
    place, dim = computed.args
    assert isinstance(place, Given) and dim == 0
    assert [place.nodes[path, 0] for path in paths] == [path.held for path in paths]


def test_a_number_that_is_no_size_of_it(sizes):
    one, other = (_Path(size) for size in sizes)
    other.held.meta["val"] = torch.empty(3, device="meta")
    known = sizes_of_variables(_Block(one, other))
    assert known is not None and known({(each, 0): each.number for each in (one, other)}) is None
    assert known({(each, 0): 3 for each in (one, other)}) is None  # a constant stays one
    with pytest.raises(Unjoined):
        unify_arguments({(one, 0): "3", (other, 0): 3}, known)


def test_no_decision_no_variables(sizes):
    block = _Block(_Path(sizes[0]))
    block.decides = False
    assert sizes_of_variables(block) is None


def test_a_size_that_is_read_from_data_has_the_same_elements():
    def rows() -> torch.Tensor:
        return torch.arange(6.0).reshape(3, 2)

    source = of_code(rows.__code__, rows.__code__.co_firstlineno + 1)
    assert source is not None
    for made in ((), [(source, 3)], [(source, 2)], [(source, 7)]):
        with sizes_read_from_data(made):
            assert torch.equal(rows(), torch.arange(6.0).reshape(3, 2))


def test_each_result_of_an_operator_has_the_same_elements():
    def best() -> torch.Tensor:
        return torch.arange(6.0).topk(2)

    source = of_code(best.__code__, best.__code__.co_firstlineno + 1)
    with sizes_read_from_data([(source, 2)]):
        found = best()
    assert torch.equal(found.values, torch.tensor([5.0, 4.0])) and torch.equal(found.indices, torch.tensor([5, 4]))
