"""Loops by `zip` and `enumerate` over lists that earlier loops have filled with numbers, or with tuples of these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers.rows import one_in

import opbridge

SHAPES = {"x": {0: "batch", 1: "length"}}


def attended(x: torch.Tensor, chunks: Any) -> torch.Tensor:
    """Attention within chunks, as transformers' Canine does it."""
    found = []
    for (begin, end), (first, last) in chunks:
        query, key = x[:, begin:end], x[:, first:last]
        found.append((query @ key.mT).softmax(-1) @ key)
    return torch.cat(found, 1)


def chunks_of(length: Any, begin: int = 0) -> list[tuple[Any, Any]]:
    found = []
    for start in range(begin, length, 3):
        found.append((start, min(length, start + 3)))
    return found


def compared(x: torch.Tensor, chunks: Any) -> torch.Tensor:
    """Parts of several lengths, of which each is compared with another."""
    found = []
    for (begin, end), (first, last) in chunks:
        found.append(x[:, begin:end] - x[:, first:last].amax(1, keepdim=True))
    return torch.cat(found, 1)


def first_alone(x: torch.Tensor) -> torch.Tensor:
    """The first element attends to all; lists that are not as long as each other."""
    length = x.shape[1]
    begins, ends = [(0, 1)], [(0, length)]
    for start in range(1, length, 3):
        begins.append((start, min(length, start + 3)))
    for start in range(0, length, 3):
        ends.append((start, min(length, start + 3)))
    return attended(x, zip(begins, ends))  # noqa: B905  # as models write it


def last_alone(x: torch.Tensor) -> torch.Tensor:
    chunks = chunks_of(x.shape[1])
    chunks.append((0, x.shape[1]))
    return compared(x, zip(chunks, tuple(chunks)))  # noqa: B905  # as models write it


def comprehended(x: torch.Tensor) -> torch.Tensor:
    length = x.shape[1]
    return compared(x, zip(chunks_of(length), [(start, start + 1) for start in range(0, length, 3)]))  # noqa: B905  # as models write it


def numbered(x: torch.Tensor) -> torch.Tensor:
    found = []
    for number, (begin, end) in enumerate(chunks_of(x.shape[1]), 1):
        found.append(x[:, begin:end] * number)
    return torch.cat(found, 1)


def of_numbers(x: torch.Tensor) -> torch.Tensor:
    ends, found = [], []
    for start in range(0, x.shape[1], 2):
        ends.append(min(start + 2, x.shape[1]))
    for number, end in enumerate(ends):
        found.append(x[:, end - 1] * number)
    return torch.stack(found, 1)


def of_some_iterations(x: torch.Tensor) -> torch.Tensor:
    """A list that only some iterations append to."""
    chosen, found = [(0, 0, 1)], []
    for place in range(x.shape[1]):
        if place % 3 == 1:
            chosen.append((place, place - 1, place + 1))
    for number, (place, begin, end) in enumerate(chosen):
        found.append(x[:, begin:end].sum(1) * x[:, place] + number)
    return torch.stack(found)


def gone_over_twice(x: torch.Tensor) -> torch.Tensor:
    chunks = chunks_of(x.shape[1])
    once = [x[:, begin:end].amax(1) for _, (begin, end) in enumerate(chunks)]
    again = [x[:, begin:end].mean(1) for (begin, end), _ in zip(chunks, chunks)]  # noqa: B905  # as models write it
    return torch.stack(once) - torch.stack(again)


def copied_before(x: torch.Tensor) -> torch.Tensor:
    chunks = chunks_of(x.shape[1])
    numbered = enumerate(list(chunks))
    chunks.append((0, 1))
    return torch.stack([x[:, begin:end].sum(1) * number for number, (begin, end) in numbered])


def of_tensors_beside_numbers(x: torch.Tensor) -> torch.Tensor:
    chunks = []
    for start in range(0, x.shape[1], 3):
        chunks.append((start, x[:, start]))
    return torch.stack([each * start for _, (start, each) in enumerate(chunks)])


def changed_afterwards(x: torch.Tensor) -> torch.Tensor:
    chunks = chunks_of(x.shape[1])
    chunks[0] = (0, 1)
    return torch.stack([x[:, begin:end].sum(1) for _, (begin, end) in enumerate(chunks)])


MODELS = (
    copied_before,
    changed_afterwards,
    first_alone,
    last_alone,
    comprehended,
    numbered,
    of_numbers,
    of_some_iterations,
    gone_over_twice,
    of_tensors_beside_numbers,
)


@pytest.mark.slow
@pytest.mark.parametrize("model", one_in(2, MODELS), ids=lambda model: model.__name__)
def test_a_loop_over_what_a_loop_has_filled(model: Callable[[torch.Tensor], torch.Tensor]) -> None:
    program = opbridge.export(model, (torch.rand(2, 7, 4),), dynamic_shapes=SHAPES, verify=False)
    assert not program.plan.notes
    session = program.session()
    for length in (1, 2, 3, 4, 6, 7, 9, 20):
        for batch in (1, 3):
            x = torch.rand(batch, length, 4)
            (found,) = session.run(None, {"x": x.numpy()})
            torch.testing.assert_close(torch.from_numpy(found), model(x))


def of_ends(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """A number that the iterations of the first loop change, and that nothing reads after it."""
    ends, begin, found = [], 0, []
    for length in lengths.tolist():
        ends.append(begin + length)
        begin += length
    for number, end in enumerate(torch.tensor(ends).tolist()):
        found.append(x[:end].sum(0) * number)
    return torch.stack(found)


def of_data(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """The bounds of parts, whose lengths data decide."""
    bounds, begin, found = [], 0, []
    for length in lengths.tolist():
        bounds.append((begin, begin + length))
        begin += length
    for number, (first, last) in enumerate(bounds):
        found.append(x[first:last].sum(0) * number)
    return torch.stack(found)


@pytest.mark.slow
@pytest.mark.parametrize("model", [of_ends, of_data], ids=lambda model: model.__name__)
def test_a_loop_over_bounds_that_data_decide(model: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
    given = torch.rand(7, 4), torch.tensor([2, 4, 1])
    shapes = {"x": {0: "rows"}, "lengths": {0: "parts"}}
    session = opbridge.export(model, given, dynamic_shapes=shapes, verify=False).session()
    for lengths in ([1], [3, 1], [2, 2, 2, 3], [1, 1, 5, 1, 1]):
        x, parts = torch.rand(sum(lengths), 4), torch.tensor(lengths)
        (found,) = session.run(None, {"x": x.numpy(), "lengths": parts.numpy()})
        torch.testing.assert_close(torch.from_numpy(found), model(x, parts))


def of_other_widths(x: torch.Tensor) -> torch.Tensor:
    chunks: list[Any] = [(0, 1, 2)]
    for start in range(0, x.shape[1], 3):
        chunks.append((start, min(x.shape[1], start + 3)))
    return torch.stack([x[:, each[0] : each[1]].sum(1) for _, each in enumerate(chunks)])


@pytest.mark.slow
def test_a_list_of_tuples_of_other_lengths_is_refused() -> None:
    with pytest.raises(opbridge.VerificationError, match="is valid only for length"):
        opbridge.export(of_other_widths, (torch.rand(2, 7, 4),), dynamic_shapes=SHAPES)


def appended_to_before(x: torch.Tensor) -> torch.Tensor:
    chunks = chunks_of(x.shape[1])
    numbered = enumerate(chunks)
    chunks.append((0, 1))
    return torch.stack([x[:, begin:end].sum(1) for _, (begin, end) in numbered])


def appended_to_meanwhile(x: torch.Tensor) -> torch.Tensor:
    chunks, found = chunks_of(x.shape[1]), []
    for number, (begin, end) in enumerate(chunks):
        found.append(x[:, begin:end].sum(1))
        if number == 0:
            chunks.append((0, 1))
    return torch.stack(found)


@pytest.mark.slow
@pytest.mark.parametrize("model", [appended_to_before, appended_to_meanwhile], ids=lambda model: model.__name__)
def test_a_list_that_changes_while_it_is_gone_over_is_refused(model: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """The capture is for the example's number of chunks; the error says why."""
    with pytest.raises(opbridge.VerificationError, match="is modified while another loop iterates over it"):
        opbridge.export(model, (torch.rand(2, 7, 4),), dynamic_shapes=SHAPES)
