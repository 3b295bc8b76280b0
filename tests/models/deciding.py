"""Small models that decide by data, each with inputs that take every way."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

__all__ = ["DECIDING", "Deciding"]

_ROWS = 3


@dataclass(frozen=True)
class Deciding:
    """A model that decides by data.

    Attributes:
        model: The model, of one tensor.
        inputs: Inputs that take each of its ways.
        decisions: How many decisions the file has.
        dynamic: Whether the number of rows may vary.
        loops: How many loops the file has.
        rows: Whether a loop over the rows is unrolled where their number may not vary.
    """

    model: Any
    inputs: tuple[torch.Tensor, ...]
    decisions: int
    dynamic: bool = True
    loops: int = 0
    rows: bool = False

    @property
    def name(self) -> str:
        return getattr(self.model, "__name__", type(self.model).__name__)


DECIDING: list[Deciding] = []

_signs = tuple(torch.tensor([[float(a), b, c, 0.25]] * _ROWS) for a, b, c in itertools.product((-3, 0.5, 4), repeat=3))


def _deciding(
    decisions: int,
    inputs: tuple[torch.Tensor, ...] = _signs,
    *,
    dynamic: bool = True,
    loops: int = 0,
    rows: bool = False,
) -> Callable[[Any], Any]:
    def add(model: Any) -> Any:
        torch.manual_seed(0)
        made = model().eval() if isinstance(model, type) else model
        DECIDING.append(Deciding(made, inputs, decisions, dynamic, loops, rows))
        return model

    return add


@_deciding(1)
class OneOfTwoLayers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right, self.last = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        y = self.left(x) if x.sum() > 0 else self.right(x) * 2
        return torch.relu(self.last(y)) + 1


@_deciding(3)
def steps_that_are_left_out(x):
    if x.sum() > 0:
        x = x + 1
    if x.max() > 2:
        x = x * 3
    if x.min() < -1:
        x = x - 5
    return x


@_deciding(3)
def nested_with_early_return(x):
    y = x * 2
    if x.sum() > 0:
        if x.max() > 3:
            y = y + 1
        elif x.max() > 0.4:
            return y - 1
        else:
            y = y.cos()
        y = y * 3
    return y.sin()


@_deciding(3)
def chain_of_elifs(x):
    if x.max() > 3:
        return x + 1
    elif x.max() > 0.4:
        return x + 2
    elif x.sum() > -4:
        return x + 3
    return x + 4


@_deciding(2)
def flag_for_later(x):
    large = False
    if x.sum() > 0:
        large = True
    if x[0, 0] > 1:
        x = x + 10 if large else x - 10
    return x * 2


@_deciding(2)
def value_that_only_one_side_uses_later(x):
    y = x.sin() if x.sum() > 0 else x.cos()
    z = x * 2
    if x.max() > 1:
        return z + y
    return z


@_deciding(2)
def both_of_two(x):
    return x + 1 if x.sum() > 0 and x[0, 0] > 1 else x - 1


@_deciding(2)
def one_of_two(x):
    return x + 1 if x.sum() > 0 or not x[0, 0] > -1 else x - 1


@_deciding(1)
def asked_again(x):
    positive = x.sum() > 0
    y = x + 1 if positive else x - 1
    return y * 2 if positive else y * 3


@_deciding(1)
def swapped(x):
    a, b = x + 1, x * 2
    if x.sum() > 0:
        a, b = b, a
    return a - b


@_deciding(1)
def a_temporary_value(x):
    return x.sin() + _absolute_or_not(x)


def _absolute_or_not(x):
    return x.abs() if x.sum() > 0 else x


@_deciding(2)
def in_a_list(x):
    found = [x]
    if x.sum() > 0:
        found[0] = x.sin()
    if x[0, 0] > 1:
        found.append(x * 2)
    return sum(found)


@_deciding(1)
def written_in_place(x):
    y = x.clone()
    if x.sum() > 0:
        y[:, 0] = 7
    y += 1
    return y


@_deciding(2)
def written_to_what_others_see(x):
    y = x.clone()
    row = y[:, 1]
    if x.sum() > 0:
        row += 5
    if x[0, 0] > 1:
        row *= 2
    return y


@_deciding(3)
def equal_numbers_of_a_list(x):
    for factor in [2, 2, 2]:
        if x.sum() > 0:
            x = x * factor - 1
    return x


@_deciding(4)
def for_each_column(x):
    for i in range(4):
        if x[:, i].sum() > 0:
            x = x * 1.5 + i
    return x


@_deciding(1)
class Counting(nn.Module):
    """Sets an attribute of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def forward(self, x):
        self.seen += 1
        self.last = x.abs() if x.sum() > 0 else x
        return self.last + self.last.exp()


class _MaybeLinear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        if x.mean() > 0:
            return self.linear(x)
        return x * 0.5


@_deciding(2)
class LayersThatAreLeftOut(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(_MaybeLinear() for _ in range(2)))

    def forward(self, x):
        return self.layers(x) + x


@_deciding(1)
def results_of_several_sizes(x):
    y = torch.cat([x, x]) if x.sum() > 0 else x
    z = y * 2
    return z.reshape(z.shape[0] * 4)


@_deciding(1, (torch.ones(_ROWS, 4), -torch.ones(_ROWS, 4), torch.tensor([[1.0, -1, 2, -3]] * _ROWS)))
def nothing_is_left(x):
    y = x[x > 0]
    if y.numel() == 0:
        return torch.zeros(1)
    return y.mean().reshape(1)


@_deciding(1)
def two_results(x):
    if x.sum() > 0:
        return {"a": x + 1, "b": (x.sum(), x)}
    return {"a": x - 1, "b": (x.max(), x * 2)}


@_deciding(0)
def both_sides_alike(x):
    if x.sum() > 0:
        return x * 2 + 1
    return x * 2 + 1


@_deciding(1)
def random_numbers_of_no_use(x):
    if x.sum() > 0:
        torch.rand(3)
        return x + 1
    return x


@_deciding(1)
def a_comparison_of_two_tensors(x):
    return x * 3 if x[:, 0].sum() >= x[:, 1].sum() else x / 3


@_deciding(1)
def around_a_cond(x):
    y = torch.cond(x.max() > 1, lambda v: v + 1, lambda v: v - 1, (x,))
    return y.sin() if x.sum() > 0 else y.cos()


@_deciding(1)
def an_item(x):
    largest = x.max().item()
    return x / largest if largest > 1 else x


def _two_or_three(x):
    return 2 if x.sum() > 0 else 3


def _one_or_none(x):
    return 1 if x.max() > 1 else 0


@_deciding(3)
def numbers_that_no_variable_holds(x):
    return x * (_two_or_three(x) * (_one_or_none(x) + (5 if x.min() < -1 else 4)))


@_deciding(2, (torch.ones(_ROWS, 4), -torch.ones(_ROWS, 4), torch.tensor([[1.0, -1, -2, -3]] * _ROWS)))
def sizes_known_on_one_side(x):
    y = x[x > 0]
    if y.numel() == 0:
        return x.sum().reshape(1)
    if y.numel() == 3:
        y = y + torch.arange(3)
    return y.max().reshape(1)


@_deciding(1, (torch.ones(4, 4), -torch.ones(4, 4), torch.tensor([[0.1, -1, -2, -3]] * 4)))
def a_size_that_one_side_divides(x):
    y = x[x > 0]
    if x.sum() > 3:
        y = y.reshape(-1, 2).sum(1)
    return y * 2


@_deciding(0)
def an_assertion_about_data(x):
    assert x.isfinite().all()
    y = x[x > -100]
    if y.numel() == 0:
        raise ValueError("nothing is left")
    return y.amax(0, keepdim=True)


_growing = tuple(torch.full((_ROWS, 4), start) for start in (0.01, 0.3, 1.0, 2.0, 7.0, 100.0))


@_deciding(0, _growing, loops=1)
def a_while_loop(x):
    while x.sum() < 30:
        x = x * 1.5 + 0.1
    return x.sin()


@_deciding(0, _growing, loops=1)
def a_loop_that_ends_with_a_break(x):
    y = x
    while True:
        y = y + x
        if y.sum() > 30:
            break
    return y * 2


@_deciding(1, _growing, loops=1)
def a_decision_in_a_loop(x):
    y = x.new_zeros(())
    while x.sum() < 30:
        x = x + 0.5 if x.max() > 1 else x * 1.5
        y = y + 1
    return x, y


@_deciding(0, _growing, loops=2)
def a_loop_in_a_loop(x):
    y = x
    while y.sum() < 30:
        z = x
        while z.sum() < y.sum():
            z = z * 2
        y = y + z
    return y


@_deciding(0, _growing, loops=1)
def a_loop_that_adds_rows(x):
    y = x[:1]
    while y.sum() < 10:
        y = torch.cat([y, y[-1:] + x[:1]])
    return y * 2


@_deciding(1, _growing, loops=1)
class ALoopOnOneSide(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        if x.sum() < 5:
            while x.abs().sum() < 10:
                x = self.linear(x) + x * 2
            return x
        return self.linear(x)


@_deciding(0, _growing, loops=2)
def one_loop_after_the_other(x):
    while x.sum() < 30:
        x = x * 1.5
    while x.mean() > 1:
        x = x / 2
    return x


@_deciding(0, _growing, loops=1)
def swapped_in_each_turn(x):
    a, b = x, x * 2 + 1
    while a.sum() < 30:
        a, b = b, a + b
    return a - b


@_deciding(0, _growing, loops=1)
def handed_on_from_turn_to_turn(x):
    a = b = c = d = x
    while a.sum() < 30:
        a, b, c, d = b, c, d, d * 1.5 + 1
    return a + d


_levels = tuple(torch.full((_ROWS, 4), level) for level in (0.3, 1.2, 2.7, 3.4))
_masks = (torch.ones(_ROWS, 4), -torch.ones(_ROWS, 4), torch.tensor([[1.0, -1, 2, -3]] * _ROWS))
_lengths = tuple(
    torch.tensor([[float(a), b, 6 - a - b, 0]] * _ROWS) for a, b in ((2, 1), (1, 1), (0, 3), (5, 1), (6, 0))
)


@_deciding(0, _levels)
def numbers_as_scales(x):
    largest = x.max().item()
    return x * int(x.max()) + float(x.min()) / (largest + 1) + x.mean().item()


@_deciding(0, _levels)
def numbers_through_arithmetic(x):
    s = x.max().item()
    n = int(s * 10)
    y = x * round(s) + math.ceil(s) - math.floor(s) + math.trunc(-s) * math.sqrt(s)
    return y * min(s, 2) + max(s, 1.5, n // 3) - n % 3 + n / 4 + x ** int(s)


@_deciding(0, _levels)
def numbers_as_indices(x):
    n = int(x.max())
    y = x + torch.arange(4)
    y[:, n] = 7
    return y[:, n] + y[:, x.min().long().item()] + y[0, int(x.max())]


@_deciding(0, _levels)
def numbers_as_slice_bounds(x):
    n = int(x.max())
    y = x.clone()
    y[:, n : n + 1] = 5
    return y[:, :n].sum(1) + y[:, -n - 1 :].sum(1) + y[:, 1 : n + 1].sum(1)


@_deciding(0, _levels)
def numbers_as_sizes(x):
    n = int(x.max()) + 1
    y = torch.arange(n * 6.0).reshape(n, -1) + torch.ones(n, 2).sum()
    z = x[:1].expand(n, -1) + torch.linspace(0, 1, n).unsqueeze(1) + x[:1].repeat(n, 1)
    return y, z, torch.nn.functional.interpolate(x[None, None], size=(n, 2 * n)), x.flatten().topk(min(n, 3)).values


@_deciding(0, _levels)
def a_padding_up_to_a_length(x):
    n = int(x.max())
    return torch.nn.functional.pad(x[:, :n], (0, 4 - n)) + torch.nn.functional.one_hot(torch.tensor(0), n + 1).sum()


@_deciding(1, _levels)
def a_comparison_of_a_number(x):
    n = int(x.max())
    return x + 1 if n > 2 else x[:, : n + 1]


@_deciding(3, _levels, dynamic=False)
def the_best_of_several(x):
    best, least = (0, 0), float("inf")
    size = x.max().item()
    for height, width in ((1, 2), (2, 2), (4, 4)):
        scale = min(width / size, height / size)
        waste = height * width - int(size * scale)
        if waste < least:
            best, least = (height, width), waste
    return x * best[0] + best[1]


@_deciding(0, _lengths)
def pieces_of_lengths(x):
    values = torch.arange(12.0).reshape(6, 2)
    parts = values.split(x[0].long().tolist())
    return torch.cat([part * 2 + part.sum() for part in parts]), sum(part.sum() * len(part) for part in parts)


@_deciding(0, _lengths)
def numbers_of_a_list(x):
    a, b, c, _ = map(int, x[0])
    first, *others = x[0].tolist()
    return torch.arange(a * b + c), torch.tensor([int(first), *others]) + sum(int(each) for each in x[0].tolist())


@_deciding(0, _lengths)
def repeated_by_lengths(x):
    lengths = x[0].long()
    y = torch.arange(4.0).repeat_interleave(lengths)
    places = [torch.arange(n) for n in lengths]
    return y * y.shape[0] + torch.cat(places), lengths.cumsum(0)


@_deciding(0, _masks)
def sizes_that_data_decides(x):
    y = x[x > 0]
    found, counts = x.unique(return_counts=True)
    return y / max(len(y), 1), (x > 0).nonzero() * y.numel(), found * len(found) + counts.max().item()


@_deciding(0)
def rows_beside_as_many_as_data_say(x):
    """torch_geometric's GATConv: there is nothing where there are neither nodes nor edges."""
    both = torch.cat([x, x[x[:, 0] > 0]])
    if both.numel() == 0:
        return both
    return both.softmax(0) * 2


@_deciding(1, _levels)
def a_number_that_an_answer_makes_zero(x):
    """The product of a number that data decides and one that a decision chooses, which no variable holds."""
    return (x + x.mean().item() * (1 if x.max() > 2 else 0)).sin().cos()


# As many turns as the first number of a row says: none, one, a few, and more than any capture has.
_counts = tuple(torch.tensor([[float(count), 0.5, -1, 0.25]] * _ROWS) for count in (3, 0, 1, 2, 7, 20))
_turns = tuple(torch.tensor([[float(count), 0.5, -1, 0.25]] * _ROWS) for count in (3, 1, 2, 7, 20))


def _count(x):
    return x[0, 0].long().item()


@_deciding(0, _counts, loops=1)
def as_many_turns_as_data_say(x):
    y = x
    for i in range(_count(x)):
        y = y * 0.9 + i
    return y


@_deciding(0, _counts, loops=1)
def a_range_with_a_step(x):
    y = x
    for i in range(1, _count(x), 2):
        y = y * 0.9 + i
    return y.sin()


@_deciding(0, _counts, loops=1)
def downwards(x):
    y = x
    for i in range(_count(x), 0, -1):
        y = y * 0.9 + i
    return y


@_deciding(0, _turns, loops=1)
def stacked_after_the_loop(x):
    found, h = [], x[:, 1]
    for i in range(_count(x)):
        h = torch.tanh(h + i)
        found.append(h)
    return torch.stack(found, 1), h


@_deciding(0, _turns, loops=1)
def two_in_each_turn_concatenated(x):
    found, h = [], x
    for _ in range(_count(x)):
        h = h * 0.9 + 0.1
        found.append(h)
        found.append(h.cos())
    return torch.cat(found, dim=0) / len(found)


@_deciding(0, _counts, loops=1)
def a_list_that_begins_with_one(x):
    found = [x]
    for _ in range(_count(x)):
        x = x * 0.9 + 0.1
        found.append(x)
    return torch.stack(found)


@_deciding(0, _counts, loops=1)
def written_in_each_turn(x):
    y = x.new_zeros(32, 4)
    h = x[0]
    for i in range(_count(x)):
        h = torch.tanh(h + 0.1)
        y[i] = h
    return y


@_deciding(1, _counts, loops=1)
def a_break_in_a_loop(x):
    y = x
    for i in range(_count(x)):
        y = y + 0.5
        if y.sum() > 30:
            break
        y = y * 1.1 + i
    return y.sin()


@_deciding(1, _growing, loops=1)
def a_break_beside_a_condition(x):
    while x.sum() < 30:
        x = x * 1.5
        if x.max() > 5:
            break
        x = x + 0.1
    return x


@_deciding(1, _counts, loops=1)
def continued_for_some(x):
    y = x
    for i in range(_count(x)):
        y = y + 1
        if y.sum() > 20:
            continue
        y = y * 1.2 - i
    return y


@_deciding(1, _counts, loops=1)
def returned_from_a_loop(x):
    y = x
    for i in range(_count(x)):
        y = y * 1.2 + i
        if y.sum() > 40:
            return y - 1
    return y + 1


@_deciding(0, _counts, loops=1)
def the_last_of_two(x):
    y, last = x, x + 1
    for _ in range(_count(x)):
        y = y * 0.9 + 0.1
        last = y
    return last


@_deciding(0, _counts, loops=2)
def a_count_that_the_outer_loop_decides(x):
    y = x
    for i in range(_count(x)):
        for j in range(i):
            y = y * 0.99 + j
        y = y + 1
    return y


@_deciding(0, (torch.ones(_ROWS, 4) * 0.5, -torch.ones(_ROWS, 4), torch.eye(_ROWS, 4)), loops=1)
def rows_that_data_choose(x):
    h = x.new_zeros(4)
    for row in x[x[:, 0] > 0]:
        h = torch.tanh(h + row)
    return h


@_deciding(0, loops=1, rows=True)
def one_row_after_the_other(x):
    h, found = x.new_zeros(4), []
    for i in range(x.shape[0]):
        h = torch.tanh(h + x[i])
        found.append(h)
    return torch.stack(found), h


@_deciding(0, loops=1, rows=True)
def each_row_with_its_number(x):
    h = x.new_zeros(4)
    for i, (row, other) in enumerate(zip(x, x * 2)):  # noqa: B905
        h = torch.tanh(h * i + row - other)
    return h


@_deciding(0, loops=1, rows=True)
def from_the_last_row_to_the_first(x):
    y = torch.zeros_like(x)
    h = x.new_zeros(4)
    for i in reversed(range(len(x))):
        h = torch.tanh(h + x[i])
        y[i] = h
    return y


@_deciding(0, _counts, loops=1)
def a_view_of_what_the_turns_have_written(x):
    y = torch.zeros(3, 4)
    for i in range(_count(x)):
        y[i % 3, 1:] += x[0, 0]
    seen = y.t()
    scale = torch.tensor(3.0) * x.sum()  # which stands between the view and its use
    return seen * scale


@_deciding(0, _turns, loops=1)
def a_comprehension_that_is_stacked(x):
    return torch.stack([torch.tanh(x[:, 1] * i) for i in range(_count(x))])


@_deciding(0, _turns, loops=1)
def a_generator_in_a_tuple(x):
    return torch.cat(tuple(x * i for i in range(_count(x))), 1)


@_deciding(1, _turns, loops=1)
def a_comprehension_of_two_sides(x):
    found = [x * i if i < 2 else x.cos() for i in range(_count(x))]
    return torch.stack(found) * len(found)


@_deciding(0, loops=1, rows=True)
def a_comprehension_of_rows(x):
    mean = x.mean(0)
    return torch.stack([torch.tanh(row + mean) for row in x])


@_deciding(0, loops=1, rows=True)
def mapped_rows(x):
    return torch.cat(list(map(lambda row, other: (row * other)[None], x, x.flip(0))))


@_deciding(0, loops=2, rows=True)
def a_comprehension_in_a_comprehension(x):
    return torch.stack([torch.stack([one @ other for other in x]) for one in x])


@_deciding(0, loops=1, rows=True)
def a_first_turn_that_differs(x):
    h, found = None, []
    for row in x:
        h = row if h is None else torch.tanh(h + row)
        found.append(h * 2)
    return torch.stack(found), h


@_deciding(0, _counts, loops=1)
def a_number_that_counts_in_steps(x):
    y, count = x, 0
    for _ in range(_count(x)):
        count += 2
        y = y * 0.9 + count
    return y * count


@_deciding(0, _growing, loops=1)
def turns_that_are_counted(x):
    turns, share = 0, 1.0
    while x.sum() < 30:
        x = x * 1.5 + turns
        turns += 1
        share *= 0.5
    return x, x * turns, x * share


@_deciding(0, _counts, loops=1)
def a_number_in_the_condition(x):
    i = 0
    while i < _count(x):
        x = torch.cat([x[:, :1], x[:, 1:] * 1.1 + i], 1)
        i += 1
    return x


# The segments end where the second number is positive.
_segments = tuple(
    torch.tensor([[0.5, end, -1, 0.25] for end in ends]) for ends in ((1.0, 1, 1), (-1, -1, 1), (1, -1, 1), (-1, 1, 1))
)


def _segment_lengths(x):
    ends = (x[:, 1] > 0).nonzero()[:, 0] + 1
    return torch.diff(ends, prepend=ends.new_zeros(1))


@_deciding(0, _segments, dynamic=False, loops=1)
def segments_of_lengths_that_data_decide(x):
    return torch.cat([part.softmax(0) for part in x.split(_segment_lengths(x).tolist())])


@_deciding(0, _segments, dynamic=False, loops=1)
def segments_of_two_tensors(x):
    lengths = _segment_lengths(x)
    splits = [torch.split(each, lengths.tolist(), dim=1) for each in (x.T, x.T.cos())]
    found = [one @ other.T + other.sum() for one, other in zip(*splits)]  # noqa: B905
    return torch.stack(found)


_STEPS = (torch.sin, torch.cos, torch.neg, lambda x: x * x)


@_deciding(2, _signs)
def an_element_that_data_choose(x):
    return _STEPS[int(x[0, :3].argmax())](x) + 1


@_deciding(3, _signs)
class LayerThatDataChoose(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(4)])

    def forward(self, x):
        place = x.sum(0).argmax() - 2  # some are counted from the last
        return torch.tanh(self.layers[place](x))
