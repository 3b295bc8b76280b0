"""What goes over a list in C: `functools.reduce`, `filter`, functions of `itertools`, and `in`."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Iterator
from functools import reduce
from itertools import chain, islice
from itertools import pairwise as pairs_of
from typing import Any, NamedTuple

import pytest
import torch
from helpers.rows import one_in
from torch import Tensor

import opbridge
from opbridge.base.python_private import instructions
from opbridge.capture.tracer import iterating_functions
from opbridge.capture.tracer.taking_sequences import iterating_tensors


def _means(x: Tensor, lengths: Tensor) -> list[Tensor]:
    return [part.mean(0) for part in x.split(lengths.tolist())]


def largest(x: Tensor, lengths: Tensor) -> Tensor:
    return functools.reduce(torch.maximum, _means(x, lengths))


def largest_by_imported_name(x: Tensor, lengths: Tensor) -> Tensor:
    return reduce(torch.maximum, _means(x, lengths), x[0])


def of_generator(x: Tensor, lengths: Tensor) -> Tensor:
    return functools.reduce(lambda one, other: one * 0.5 + other, (part.sum(0) for part in x.split(lengths.tolist())))


def ends(x: Tensor, lengths: Tensor) -> Tensor:
    found = list(itertools.accumulate(lengths.tolist()))
    return torch.stack([x[:end].sum(0) for end in found])


def running(x: Tensor, lengths: Tensor) -> Tensor:
    return torch.stack(list(itertools.accumulate(_means(x, lengths), lambda one, other: torch.tanh(one + other))))


def running_from_zeros(x: Tensor, lengths: Tensor) -> Tensor:
    found = itertools.accumulate(_means(x, lengths), operator.add, initial=torch.zeros(4))
    return torch.stack(list(found))


def of_pairs(x: Tensor, lengths: Tensor) -> Tensor:
    pairs = ((part.amin(0), part.amax(0)) for part in x.split(lengths.tolist()))
    return torch.stack(list(chain.from_iterable(pairs)))


def of_two_lists(x: Tensor, lengths: Tensor) -> Tensor:
    means = _means(x, lengths)
    return torch.stack(list(chain(means, [each * 2 for each in means])))


def first_and_others(x: Tensor, lengths: Tensor) -> Tensor:
    found = []
    for each in itertools.chain([x[0]], _means(x, lengths)):
        found.append(each * 2)
    return torch.stack(found)


def without_first(x: Tensor, lengths: Tensor) -> Tensor:
    return sum(each * 2 for each in islice(_means(x, lengths), 1, None)) + x[0]


def neighbours(x: Tensor, lengths: Tensor) -> Tensor:
    found = [x[0]]
    for one, other in pairs_of(_means(x, lengths)):
        found.append(one - other)
    return torch.stack(found)


def of_stars(x: Tensor, lengths: Tensor) -> Tensor:
    pairs = [(part.mean(0), part.sum(0)) for part in x.split(lengths.tolist())]
    return torch.stack(list(itertools.starmap(torch.add, pairs)))


def long_enough(x: Tensor, lengths: Tensor) -> Tensor:
    found = list(filter(lambda part: part.shape[0] > 1, x.split(lengths.tolist())))
    return torch.cat([x[:1], *found])


def repeated_beside(x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    times = int(lengths.max())
    rows = [x[0]] * times + [x[1]]
    numbers = [0] + [2] * times + [1]
    return torch.stack(rows + [x[2]] * times), torch.tensor(numbers)


def new_tensors(x: Tensor, lengths: Tensor) -> Tensor:
    sums, sizes = zip(*[(part.sum(0), x.new_tensor(len(part))) for part in x.split(lengths.tolist())], strict=True)
    return torch.stack(sums) / torch.stack(sizes)[:, None]


def without_some(x: Tensor, lengths: Tensor) -> Tensor:
    kept = []
    for length in lengths.tolist():
        if length not in (1, 3):
            kept.append(length)
    return torch.tensor(kept, dtype=torch.int64)


def without_repeated(x: Tensor, lengths: Tensor) -> Tensor:
    kept, last = [], -1
    for length in lengths.tolist():
        if length not in [last, 3]:
            kept.append(length)
        last = length
    return torch.tensor(kept, dtype=torch.int64)


def up_to_one_of(x: Tensor, lengths: Tensor) -> Tensor:
    stops = [2, 5]
    count = 0
    for length in lengths:
        if length in stops:
            break
        count += 1
    return x[: count + 1].sum(0)


def has_seen(x: Tensor, lengths: Tensor) -> Tensor:
    seen = lengths[1:].tolist()
    return x * 2 if int(lengths[0]) in seen else x


def longest(x: Tensor, lengths: Tensor) -> Tensor:
    parts = x.split(lengths.tolist())
    return torch.stack([max(parts, key=len).mean(0), min(list(parts), key=lambda part: part.shape[0]).sum(0)])


def in_order_of_lengths(x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    sizes, parts = lengths.tolist(), x.split(lengths.tolist())
    order = sorted(range(len(sizes)), key=lambda i: -sizes[i])
    return torch.tensor(order), torch.stack([parts[i].mean(0) for i in order])


class _Result(NamedTuple):
    mean: Tensor
    norm: Tensor


def of_named_tuples(x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    results = [_Result(part.mean(0), part.norm()) for part in x.split(lengths.tolist())]
    return torch.stack([each.mean for each in results]), torch.stack([norm for _, norm in results])


def of_results_of_operators(x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    found = []
    for part in x.split(lengths.tolist()):
        found.append(part.max(0))
    return torch.stack([each.values for each in found]), torch.stack([each.indices for each in found])


def of_own_generator(x: Tensor, lengths: Tensor) -> Tensor:
    def cut() -> Iterator[Tensor]:
        begin = 0
        for length in lengths.tolist():
            yield x[begin : begin + length]
            begin += length

    means = [each.mean(0) for each in cut()]
    return torch.stack(means + [each.sum(0) for each in cut() if each.shape[0] > 1] + [x[0]])


MODELS: list[Any] = [
    longest,
    in_order_of_lengths,
    of_named_tuples,
    of_results_of_operators,
    of_own_generator,
    largest,
    largest_by_imported_name,
    of_generator,
    ends,
    running,
    running_from_zeros,
    of_pairs,
    of_two_lists,
    first_and_others,
    without_first,
    neighbours,
    of_stars,
    long_enough,
    repeated_beside,
    new_tensors,
    without_some,
    without_repeated,
    up_to_one_of,
    has_seen,
]


@pytest.mark.slow
@pytest.mark.parametrize("model", one_in(2, MODELS), ids=lambda model: model.__name__)
def test_it_is_right_for_other_numbers_of_elements(model: Any) -> None:
    given = torch.randn(9, 4), torch.tensor([2, 4, 3])
    shapes = {"x": {0: "rows"}, "lengths": {0: "parts"}}
    session = opbridge.export(model, given, dynamic_shapes=shapes, verify=False).session()
    for lengths in ([3, 1, 1, 3], [5], [1, 5, 2], [2, 2, 2, 2, 1, 1], [1, 1, 3, 3, 4, 1, 3]):
        x = torch.randn(sum(lengths), 4)
        found = session.run(None, {"x": x.numpy(), "lengths": torch.tensor(lengths).numpy()})
        expected = model(x, torch.tensor(lengths))
        for one, other in zip(found, expected if isinstance(expected, tuple) else (expected,), strict=True):
            torch.testing.assert_close(torch.from_numpy(one), other)


def test_the_functions_are_pythons_own_afterwards() -> None:
    before = functools.reduce, itertools.chain, itertools.accumulate
    opbridge.export(largest, (torch.randn(9, 4), torch.tensor([2, 4, 3])), verify=False)
    assert before == (functools.reduce, itertools.chain, itertools.accumulate)


def test_code_of_the_package_gets_pythons_own(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(iterating_functions, "_form", asked.append)
    with iterating_tensors():
        instructions.instructions(compile("for each in values: pass", "model.py", "exec"))  # which uses `pairwise`
        assert not asked
        assert list(itertools.pairwise("abc")) == [("a", "b"), ("b", "c")]
        assert list(itertools.chain.from_iterable(["ab", "c"])) == ["a", "b", "c"]
    assert asked == ["abc", ["ab", "c"]]


def in_thirds(x: Tensor) -> Tensor:
    step = max(x.shape[0] // 3, 1)
    return torch.stack([each.sum(0) for each in x.split(step)])


def in_steps_of_a_size(x: Tensor) -> Tensor:
    step = x.shape[0] // 4 + 1
    return torch.stack([x[begin : begin + step].sum(0) for begin in range(0, x.shape[0], step)])


@pytest.mark.slow
@pytest.mark.parametrize("model", [in_thirds, in_steps_of_a_size], ids=lambda model: model.__name__)
def test_steps_of_a_size(model: Any) -> None:
    session = opbridge.export(model, (torch.randn(7, 4),), dynamic_shapes=({0: "n"},), verify=False).session()
    for size in (1, 2, 3, 4, 5, 8, 12, 31):
        x = torch.randn(size, 4)
        (found,) = session.run(None, {"x": x.numpy()})
        torch.testing.assert_close(torch.from_numpy(found), model(x))
