"""`for` loops whose number of turns data decide, and what is appended in them."""

from __future__ import annotations

import torch
from models.deciding.model import COUNTS, GROWING, ROWS, TURNS, count, deciding

__all__: list[str] = []


@deciding(0, COUNTS, loops=1)
def as_many_turns_as_data_say(x):
    y = x
    for i in range(count(x)):
        y = y * 0.9 + i
    return y


@deciding(0, COUNTS, loops=1)
def a_range_with_a_step(x):
    y = x
    for i in range(1, count(x), 2):
        y = y * 0.9 + i
    return y.sin()


@deciding(0, COUNTS, loops=1)
def downwards(x):
    y = x
    for i in range(count(x), 0, -1):
        y = y * 0.9 + i
    return y


@deciding(0, TURNS, loops=1)
def stacked_after_the_loop(x):
    found, h = [], x[:, 1]
    for i in range(count(x)):
        h = torch.tanh(h + i)
        found.append(h)
    return torch.stack(found, 1), h


@deciding(0, TURNS, loops=1)
def two_in_each_turn_concatenated(x):
    found, h = [], x
    for _ in range(count(x)):
        h = h * 0.9 + 0.1
        found.append(h)
        found.append(h.cos())
    return torch.cat(found, dim=0) / len(found)


@deciding(0, COUNTS, loops=1)
def a_list_that_begins_with_one(x):
    found = [x]
    for _ in range(count(x)):
        x = x * 0.9 + 0.1
        found.append(x)
    return torch.stack(found)


@deciding(0, COUNTS, loops=1)
def written_in_each_turn(x):
    y = x.new_zeros(32, 4)
    h = x[0]
    for i in range(count(x)):
        h = torch.tanh(h + 0.1)
        y[i] = h
    return y


@deciding(1, COUNTS, loops=1)
def a_break_in_a_loop(x):
    y = x
    for i in range(count(x)):
        y = y + 0.5
        if y.sum() > 30:
            break
        y = y * 1.1 + i
    return y.sin()


@deciding(1, GROWING, loops=1)
def a_break_beside_a_condition(x):
    while x.sum() < 30:
        x = x * 1.5
        if x.max() > 5:
            break
        x = x + 0.1
    return x


@deciding(1, COUNTS, loops=1)
def continued_for_some(x):
    y = x
    for i in range(count(x)):
        y = y + 1
        if y.sum() > 20:
            continue
        y = y * 1.2 - i
    return y


@deciding(1, COUNTS, loops=1)
def returned_from_a_loop(x):
    y = x
    for i in range(count(x)):
        y = y * 1.2 + i
        if y.sum() > 40:
            return y - 1
    return y + 1


@deciding(0, COUNTS, loops=1)
def the_last_of_two(x):
    y, last = x, x + 1
    for _ in range(count(x)):
        y = y * 0.9 + 0.1
        last = y
    return last


@deciding(0, COUNTS, loops=2)
def a_count_that_the_outer_loop_decides(x):
    y = x
    for i in range(count(x)):
        for j in range(i):
            y = y * 0.99 + j
        y = y + 1
    return y


@deciding(0, COUNTS, loops=2)
def handed_on_in_loops_in_loops(x):
    first, second, third, fourth = x, x + 1, x + 2, x + 3
    for i in range(count(x)):
        for _ in range(count(x)):
            first, second, third = second, third, first * 0.5 + fourth
        fourth = first * 0.5 + i
    return first, second, third, fourth


@deciding(0, COUNTS, loops=2)
def handed_on_from_the_begin_of_each_outer_turn(x):
    for i in range(count(x)):
        first, second, third, fourth = x, x + 1, x * 2, x - i
        for _ in range(count(x)):
            first, second, third, fourth = second, third, fourth, first * 0.5
        x = x * 0.9 + first
    return x


@deciding(0, (torch.ones(ROWS, 4) * 0.5, -torch.ones(ROWS, 4), torch.eye(ROWS, 4)), loops=1)
def rows_that_data_choose(x):
    h = x.new_zeros(4)
    for row in x[x[:, 0] > 0]:
        h = torch.tanh(h + row)
    return h


@deciding(0, COUNTS, loops=1)
def a_view_of_what_the_turns_have_written(x):
    y = torch.zeros(3, 4)
    for i in range(count(x)):
        y[i % 3, 1:] += x[0, 0]
    seen = y.t()
    scale = torch.tensor(3.0) * x.sum()  # which stands between the view and its use
    return seen * scale


@deciding(0, COUNTS, loops=1)
def a_number_that_counts_in_steps(x):
    y, steps = x, 0
    for _ in range(count(x)):
        steps += 2
        y = y * 0.9 + steps
    return y * steps


@deciding(1, TURNS, loops=1)
def appended_before_a_break_or_all(x):
    found, y = [], x
    for _ in range(count(x)):
        y = y + 0.5
        found.append(y)
        if y.sum() > 30:
            break
    return torch.stack(found)


@deciding(0, TURNS, loops=1)
def a_tuple_that_grows(x):
    outs, others, y = (), (), x
    for i in range(count(x)):
        y = y * 0.9 + i
        outs += (y,)
        others = (*others, y.cos(), y.sin())
    return torch.stack(outs), torch.cat(others)


@deciding(0, COUNTS, loops=1)
def a_tuple_that_begins_with_one(x):
    outs, y = (x,), x
    for i in range(count(x)):
        y = y * 0.9 + i + outs[-1].mean()
        outs = outs + (y,)  # noqa: RUF005
    return torch.cat(outs) * len(outs)


@deciding(0, COUNTS, loops=1)
def another_list_in_each_turn(x):
    outs, y = [x], x
    for i in range(count(x)):
        y = y * 0.9 + i
        outs = [*outs, y]
    return torch.stack(outs)


@deciding(1, COUNTS, loops=2)
def two_loops_left_by_a_flag(x):
    done = False
    for i in range(count(x)):
        for _ in range(count(x)):
            x = x + 0.3
            if x.sum() > 40:
                done = True
                break
        if done:
            break
        x = x * 1.01 + i
    return x


@deciding(1, COUNTS, loops=2)
def returned_from_two_loops_with_a_list(x):
    found = [x]
    for _ in range(count(x)):
        y = x
        for _ in range(count(x)):
            y = y + 0.1
            if y.sum() > 30:
                return torch.stack(found), y
        x = x + 0.1 + y * 0.01
        found.append(x)
    return torch.stack(found), x


@deciding(1, TURNS, loops=1)
def counted_where_something_is_appended(x):
    found = []
    for i in range(count(x)):
        y = x[:, 1] * i
        if y.sum() < 6:
            found.append(y)
            found.append(y.cos())
    return torch.stack(found), x * len(found)
