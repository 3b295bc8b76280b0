"""Sizes that a capture fixes, and the example that does not."""

from __future__ import annotations

import functools

import pytest
import torch
from helpers.captures import assert_same
from helpers.matching import assert_matches
from torch import nn
from torch.export import Dim

import opbridge
from opbridge.capture import capture
from opbridge.capture.dynamic_shapes import resolve
from opbridge.capture.fixed_sizes import with_larger_example
from opbridge.capture.model_module import as_module
from opbridge.errors import CaptureError
from opbridge.request import VerificationConfig
from opbridge.verification import verify_program

X = torch.randn(3, 4)


class Kept(nn.Module):
    """A detector's head: its anchors are for the size of the last input, from which it keeps two things."""

    def __init__(self) -> None:
        super().__init__()
        self.size, self.anchors, self.tables = 0, torch.empty(0), {}
        self(X)

    def forward(self, x):
        if self.size != x.shape[0]:
            self.size, self.anchors = x.shape[0], torch.arange(x.shape[0]).float()
        if x.shape not in self.tables:
            self.tables[x.shape] = torch.ones(x.shape[0])
        return x * self.anchors[:, None] + self.tables[x.shape][:, None]


def test_what_an_earlier_run_left_does_not_fix_a_size():
    taken = capture(Kept(), X, dynamic_shapes={"x": {0: "n"}})
    assert not [note for note in taken.notes if "valid only for" in note]
    for size in (1, 3, 8):
        assert_same(taken, torch.randn(size, 4))


def test_the_model_is_afterwards_what_it_was():
    model = Kept()
    size, anchors, tables = model.size, model.anchors, dict(model.tables)
    capture(model, X, dynamic_shapes={"x": {0: "n"}})
    assert model.size is size and model.anchors is anchors
    assert list(model.tables) == list(tables) == [torch.Size([3, 4])] and type(model.tables) is dict
    assert torch.equal(model(X), Kept()(X))


class KeptBesideLoop(nn.Module):
    """A recurrent layer that keeps the batch size of its last input."""

    def __init__(self) -> None:
        super().__init__()
        self.batch, self.layer = 2, nn.Linear(4, 4)

    def forward(self, x):
        if self.batch != x.shape[0]:
            self.batch = x.shape[0]
        state, found = x.new_zeros(self.batch, 4), []
        for step in range(x.shape[1]):
            state = torch.tanh(self.layer(x[:, step]) + state)
            found.append(state)
        return torch.stack(found, 1)


@pytest.mark.slow
def test_a_size_that_is_kept_beside_a_loop_over_another_one():
    others = [(torch.randn(batch, steps, 4),) for batch, steps in ((1, 1), (3, 9), (2, 4))]
    shapes = {"x": {0: "batch", 1: "steps"}}
    program = assert_matches(
        KeptBesideLoop(), torch.randn(2, 6, 4), others=others, dynamic_shapes=shapes, rtol=1e-4, atol=1e-5
    )
    assert not [note for note in program.plan.notes if "valid only for" in note]


_TABLES: dict = {}


@functools.lru_cache
def _table(size):
    return torch.arange(size).float()


class OfModule(nn.Module):
    def forward(self, x):
        if x.shape[0] not in _TABLES:
            _TABLES[x.shape[0]] = torch.arange(x.shape[0]).float()
        return x * _TABLES[x.shape[0]][:, None] * _table(x.shape[0])[:, None]


@pytest.mark.parametrize("shapes", [None, {"x": {0: "n"}}])
def test_caches_of_the_python_module_keep_nothing_of_a_capture(shapes):
    _TABLES.clear()
    _table.cache_clear()
    capture(OfModule(), X, dynamic_shapes=shapes)
    # A run of the model itself may leave numbers: one is made in a process with operators that have no fake form.
    assert all(type(key) is int and type(value) is torch.Tensor for key, value in _TABLES.items())
    assert not _table.cache_info().currsize
    assert type(OfModule()(X)) is torch.Tensor


class Memoised:
    """A decorator that is a class; what it makes for a length serves shorter ones too."""

    def __init__(self, function) -> None:
        self.function, self.made = function, {}

    def __call__(self, size, width):
        if width not in self.made or self.made[width][0] < size:
            self.made[width] = size, self.function(size, width)
        return self.made[width][1]


class Angles(nn.Module):
    def __init__(self, size, width) -> None:
        super().__init__()
        self.register_buffer("sines", torch.arange(size)[:, None] * torch.arange(width).float())


_angles = Memoised(Angles)


class OfMemoised(nn.Module):
    def forward(self, x):
        return x * _angles(x.shape[0], x.shape[1]).sines[: x.shape[0]]


@pytest.mark.parametrize("shapes", [None, {"x": {0: "n"}}])
def test_attributes_of_objects_of_the_python_module_keep_nothing_of_a_capture(shapes):
    _angles.made.clear()
    capture(OfMemoised(), X, dynamic_shapes=shapes)
    assert all(type(size) is int and type(made.sines) is torch.Tensor for size, made in _angles.made.values())
    assert type(OfMemoised()(X)) is torch.Tensor


@pytest.mark.slow
@pytest.mark.usefixtures("one_branch")
def test_a_size_that_is_special_to_the_model_is_refused():
    def model(x):
        return x if x.shape[0] == 1 else x * 2

    with pytest.raises(CaptureError, match="n == 1"):
        capture(model, X[:1], dynamic_shapes={"x": {0: "n"}})


class Interpolated(nn.Module):
    """Position embeddings that are interpolated for other sizes than those of the table."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, 4)
        self.table = nn.Parameter(torch.randn(1, 8, 2, 2))

    def forward(self, x):
        height, width = x.shape[2] // 4, x.shape[3] // 4
        x = self.patches(x)
        if height * width == 4 and height == width:
            return x + self.table
        return x + nn.functional.interpolate(self.table, (height, width), mode="bilinear", align_corners=False)


@pytest.mark.slow
def test_a_branch_for_the_sizes_of_the_example_does_not_fix_them():
    x = torch.randn(2, 3, 8, 8)
    model = Interpolated().eval()
    program = opbridge.export(model, (x,), dynamic_shapes=({0: "batch", 2: "height", 3: "width"},))
    assert not any(
        "!= 4" in note for note in program.plan.notes
    )  # interpolation to the size that it has changes nothing
    others = [(torch.randn(1, 3, height, width),) for height, width in ((8, 8), (4, 12), (16, 4), (9, 9), (8, 11))]
    assert verify_program(program, VerificationConfig(inputs=others)).ok


@pytest.mark.usefixtures("one_branch")
def test_a_branch_that_leaves_the_example_out_is_not_taken():
    def model(x):
        return x * 2 if x.shape[0] <= 4 else x * 3

    taken = capture(model, X, dynamic_shapes={"x": {0: "n"}})
    assert any("n <= 4" in note for note in taken.notes)
    assert_same(taken, torch.randn(2, 4))


@pytest.mark.slow
def test_the_line_is_that_of_the_question_that_fixes_a_size():
    def model(x):
        if x.shape[0] < 2:
            x = x + 1
        return {str(index): row * 2 for index, row in enumerate(x)}

    with pytest.raises(CaptureError, match=r"requires n == 3 .*\n.*for index, row in enumerate\(x\)"):
        capture(model, X, dynamic_shapes={"x": {0: "n"}})


def test_a_larger_example_is_a_multiple_within_the_ranges():
    def model(x, y):
        return x.sum() + y.sum()

    height = Dim("height")
    given = (torch.zeros(3, 64), torch.zeros(5, 1))
    shapes = {"x": {0: Dim("a", max=5), 1: 32 * height}, "y": {0: "b", 1: "c"}}
    found = with_larger_example(resolve(as_module(model, given, {}), given, {}, shapes))
    assert found is not None
    assert {axis.place: axis.size for axis in found.axes.values()} == {
        "x.shape[0]": 3,
        "x.shape[1]": 128,
        "y.shape[0]": 10,
        "y.shape[1]": 1,
    }


@pytest.mark.usefixtures("one_branch")
def test_a_capture_of_a_larger_example_is_the_model_on_the_example_too():
    def model(x):
        return x + 1 if x.shape[0] * x.shape[1] == 12 else x * 2

    taken = capture(model, torch.ones(4, 3), dynamic_shapes=({0: "n", 1: "m"},))
    assert [text for text, _ in taken.demands] == ["m*n == 12"]
    assert_same(taken)


class Chunks(torch.nn.Module):
    """Rows in chunks of four, the last one filled up; each chunk takes the sum of those before it."""

    def forward(self, x):
        missing = (4 - x.shape[0] % 4) % 4
        chunks = torch.nn.functional.pad(x, (0, 0, 0, missing)).view(-1, 4, x.shape[1])
        seen, found = torch.zeros(x.shape[1]), torch.zeros_like(chunks)
        for i in range((x.shape[0] + missing) // 4):
            found[i] = chunks[i] + seen
            seen = seen + chunks[i].sum(0)
        return found.view(-1, x.shape[1])[: x.shape[0]], seen


@pytest.mark.slow
def test_a_loop_over_chunks_of_a_size_that_is_filled_up():
    others = [(torch.randn(size, 3),) for size in (1, 3, 4, 5, 8, 13)]
    assert_matches(Chunks(), torch.randn(7, 3), others=others, dynamic_shapes={"x": {0: "n"}})


@pytest.mark.slow
def test_a_comprehension_of_several_lines():
    def model(x, places):
        return torch.cat(
            [
                torch.index_select(x[index], 0, places[index]).unsqueeze(0)  # of one row
                for index in range(places.shape[0])
            ]
        )

    given = torch.randn(2, 5, 3), torch.tensor([[0, 1], [4, 2]])
    shapes = {"x": {0: "batch"}, "places": {0: "batch", 1: "count"}}
    others = [[torch.randn(batch, 5, 3), torch.randint(0, 5, (batch, 4))] for batch in (1, 5)]
    assert_matches(model, *given, others=others, dynamic_shapes=shapes)
