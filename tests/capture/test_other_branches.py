"""Questions about sizes whose other side is the model for both."""

from __future__ import annotations

import math
import random

import pytest
import torch
from helpers.captures import assert_same
from torch import nn
from torch.export import Dim
from torch.utils import _pytree as pytree

import opbridge
from opbridge.capture import capture, dynamic_shapes, other_branches
from opbridge.capture.model_module import as_module
from opbridge.errors import VerificationError
from opbridge.graph.captured_graph import SizeCondition

X = torch.randn(2, 3, 10)


class Padded(nn.Module):
    """The state of a short convolution: the last four elements, of zeros where there are fewer."""

    def forward(self, x):
        if x.shape[-1] < 4:
            x = nn.functional.pad(x, (4 - x.shape[-1], 0))
        return x[..., -4:] * 3


class Convolved(nn.Module):
    """A causal convolution, with its state: what is padded is used whole."""

    def forward(self, x):
        length = x.shape[-1]
        if length < 4:
            x = nn.functional.pad(x, (4 - length, 0), value=0)
        return nn.functional.conv1d(nn.functional.pad(x, (1, 0)), torch.ones(3, 3, 2))[..., -length:], x[..., -4:]


class InFours(nn.Module):
    """The means of four elements each; a signal of another length is filled up."""

    def forward(self, x):
        length = x.shape[-1]
        if length % 4 != 0:
            x = nn.functional.pad(x, (0, 4 - length % 4), "constant", 1.0)
        return x.unflatten(-1, (-1, 4)).mean(-1) * 2


class AppendOnlyList(nn.Module):
    """Sinusoidal position embeddings, made anew for a sequence that is longer than all before."""

    def __init__(self) -> None:
        super().__init__()
        self._make(16)

    def _make(self, length):
        angles = torch.arange(length)[:, None] * torch.linspace(0.1, 1, 10)
        self.register_buffer("table", torch.sin(angles), persistent=False)

    def forward(self, x):
        if x.shape[1] > self.table.size(0):
            self._make(x.shape[1])
        return x + self.table[: x.shape[1]]


class Dropping(AppendOnlyList):
    """A layer that may be dropped in training asks for a random number that changes nothing otherwise."""

    def forward(self, x):
        return x if random.random() < 0.1 and self.training else super().forward(x)


class Relative(nn.Module):
    """Scores of relative positions after two convolutions, whose table has both signs and grows with the signal."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(3, 4, 3, 2), nn.Conv1d(4, 4, 3, 2)
        self.table = self._made(8)

    def _made(self, length):
        angles = torch.arange(length, dtype=torch.float32)[:, None] * torch.linspace(0.1, 1, 4)
        above, below = torch.zeros(length, 4), torch.zeros(length, 4)
        above[:, :], below[:, :] = angles.sin(), (-angles).sin()
        return torch.cat([above.flip([0])[None], below[1:][None]], dim=1)

    def forward(self, x):
        x = self.second(self.first(x)).transpose(1, 2)
        length = x.size(1)
        if self.table.size(1) < 2 * length - 1:
            self.table = self._made(length)
        middle = self.table.size(1) // 2
        scores = x @ self.table[:, middle - length + 1 : middle + length].transpose(1, 2)
        batch, rows, columns = scores.shape
        shifted = nn.functional.pad(scores, (1, 0)).view(batch, columns + 1, rows)[:, 1:].view_as(scores)
        return shifted[..., :length].softmax(-1)


class Interpolated(nn.Module):
    """Patches of two, for which a signal of odd length is interpolated."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(3, 4, 3, 2, 1)

    def forward(self, x):
        x = self.convolution(x)
        length = int(math.ceil(x.shape[-1] / 2) * 2)
        if length != x.shape[-1]:
            x = nn.functional.interpolate(x, size=(length,), mode="linear", align_corners=False)
        patches = x.reshape(x.shape[0], 4, length // 2, 2).permute(0, 2, 3, 1)
        return patches.softmax(-1).permute(0, 2, 1, 3).contiguous().view(x.shape[0], -1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "axis", "sizes"),
    [
        (Padded(), 2, (1, 3, 4, 30)),
        (Convolved(), 2, (1, 2, 3, 4, 30)),
        (AppendOnlyList(), 1, (1, 15, 17, 40)),
        (Dropping(), 1, (1, 15, 17, 40)),
        (Interpolated(), 2, (5, 6, 7, 8, 31)),
        (Relative(), 2, (7, 8, 34, 35, 80)),
    ],
    ids=["pad", "convolution", "table", "random", "interpolate", "relative"],
)
def test_a_capture_of_the_other_side_covers_both(model, axis, sizes):
    shapes = ({0: "batch", axis: "length"},)
    program = opbridge.export(model.eval(), (X,), dynamic_shapes=shapes)
    # What is known of the example's side; where torch can compare the sizes of both, each is captured.
    assert program.plan.decisions or any("valid only for" in note for note in program.plan.notes)
    session = program.session()
    for size in sizes:
        shape = list(X.shape)
        shape[axis] = size
        x = torch.randn(3, *shape[1:])
        got = session.run(None, {session.get_inputs()[0].name: x.numpy()})
        expected = pytree.tree_leaves(type(model).forward(model, x))
        for one, other in zip(got, expected, strict=True):
            torch.testing.assert_close(torch.from_numpy(one), other, atol=1e-5, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.usefixtures("one_branch")
def test_a_side_that_does_something_else_is_not_taken():
    def model(x):
        if x.shape[-1] % 4 != 0:
            x = nn.functional.pad(x, (0, 4 - x.shape[-1] % 4)) + 1
        return x.unflatten(-1, (-1, 4))

    given = (torch.randn(2, 3, 8),)
    with pytest.raises(VerificationError, match=r'^State "x": \{2: "4\*length"\} in .* only for length % 4 == 0 '):
        opbridge.export(model, given, dynamic_shapes=({2: "length"},))
    assert_same(capture(model, given, dynamic_shapes=({2: "length"},)), torch.randn(2, 3, 12))


@pytest.mark.slow
@pytest.mark.parametrize("length", [7, 8])
def test_padding_to_a_multiple(length):
    given = (torch.randn(2, 3, length),)
    session = opbridge.export(InFours(), given, dynamic_shapes=({2: "length"},), verify=False).session()
    for other in (1, 3, 4, 5, 7, 8, 16, 18, 30):
        x = torch.randn(2, 3, other)
        (got,) = session.run(None, {"x": x.numpy()})
        torch.testing.assert_close(torch.from_numpy(got), InFours()(x))


@pytest.mark.usefixtures("one_branch")
def test_a_side_for_which_nothing_is_proved_is_not_taken():
    def model(x):
        return x * 0 if x.shape[-1] < 4 else (x - x) * x.shape[-1]

    taken = capture(model, (X,), dynamic_shapes=({2: "length"},))
    assert "aten::sub.Tensor" in [str(node.target).replace(".", "::", 1) for node in taken.graph.graph.nodes]


def test_a_question_about_a_range_that_the_user_gave_is_answered_by_the_example():
    taken = capture(Padded(), (X,), dynamic_shapes=({2: Dim("length", min=4)},))
    assert not [node for node in taken.graph.graph.nodes if "pad" in str(node.target)]
    assert_same(taken, torch.randn(2, 3, 5))


def test_a_capture_in_which_sizes_are_equal_that_are_not_so_in_the_example_is_not_taken():
    module, shape = nn.Conv2d(3, 3, 4, 4), {2: "height", 3: "width"}
    shapes = dynamic_shapes.resolve(module, (torch.randn(2, 3, 12, 16),), {}, (shape,))
    x = torch.randn(2, 3, 12, 16)
    found, other = (capture(module, (x,), dynamic_shapes=(shape,)).graph for _ in range(2))
    (width,) = (symbol for symbol, place in other.places.items() if place.endswith("[3]"))
    condition = SizeCondition(f"(1 + (((-4) + {width}) // 4)) == 1", (width,))
    assert other_branches.merged(found, other, shapes)
    other.conditions = (condition,)
    assert not other_branches.merged(found, other, shapes)


def test_another_number_of_iterations_is_no_other_branch():
    """`range(0, n, 100)` has asked for its number; `if n < 7` has asked for a truth value."""
    module, x = nn.ReLU(), torch.randn(5)
    shapes = dynamic_shapes.resolve(module, (x,), {}, ({0: "n"},))
    graph = capture(module, (x,), dynamic_shapes=({0: "n"},)).graph
    (n,) = graph.places
    iterations = SizeCondition(f"(99 + {n}) // 100 == 1", (n,), is_number=True)
    branch = SizeCondition(f"{n} < 7", (n,))
    graph.conditions = (iterations, branch)
    ((condition, sizes),) = other_branches.with_other_branches(graph, shapes)
    assert condition is branch and all(7 <= size <= 100 for size in sizes.values())


def test_sizes_that_no_memory_holds_are_not_tried():
    taken = capture(lambda x: x * 2 if x.shape[0] > 10**11 else x + 1, (torch.randn(3, 4),), dynamic_shapes=({0: "n"},))
    assert taken.mode == "direct"
    (note,) = taken.notes
    assert note.startswith("the file is valid only for n <= 100000000000 ")


def test_opposite_values_are_of_the_same_dtypes():
    given = [torch.tensor([1.0, -2.0]), torch.tensor([True, False]), torch.tensor([1, 2]), 3]
    signed, truth, integers, number = other_branches.of_opposite_values(given)
    assert signed.tolist() == [-1.0, 2.0] and truth.tolist() == [False, True]
    assert integers is given[2] and number == 3


class GrowingTable(nn.Module):
    """Positions after those that are kept, of a table that grows: the mask has a size that follows from theirs."""

    def __init__(self):
        super().__init__()
        self.table = nn.Buffer(self.made(16), persistent=False)

    @staticmethod
    def made(count):
        return torch.arange(count * 4.0).reshape(count, 4).sin()

    def forward(self, x, past, mask):
        count = x.shape[0] + past.shape[0]
        if count > self.table.shape[0]:
            self.table = nn.Buffer(self.made(count), persistent=False)
        x = x + self.table.index_select(0, torch.arange(x.shape[0]) + past.shape[0])
        return torch.cat([past, x]) * mask[:count, None]


def test_a_table_grows_where_a_size_follows_from_others():
    def given(past, count):
        return torch.randn(count, 4), torch.randn(past, 4), torch.rand(past + count)

    shapes = {"x": {}, "past": {0: "past"}, "mask": {0: "past + 2"}}
    program = opbridge.export(GrowingTable(), given(5, 2), dynamic_shapes=shapes)
    for past in (1, 14, 15, 40):
        inputs = given(past, 2)
        (found,) = program.session().run(None, dict(zip(shapes, (each.numpy() for each in inputs), strict=True)))
        torch.testing.assert_close(torch.from_numpy(found), GrowingTable()(*inputs))


def test_twice_the_sizes_with_those_that_follow_from_them():
    x, mask = torch.arange(3), torch.arange(7)
    module = as_module(lambda x, mask: (x, mask), (x, mask), {})
    shapes = dynamic_shapes.resolve(module, (x, mask), {}, {"x": {0: "n"}, "mask": {0: "2*n + 1"}})
    assert [each.shape[0] for each in other_branches.twice([x, mask], shapes)] == [6, 13]
