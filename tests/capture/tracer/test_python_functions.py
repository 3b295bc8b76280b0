"""Numbers, indices and masks that are the values of tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers.captures import assert_same
from helpers.matching import assert_matches

from opbridge.capture import capture

number = torch.tensor


def put(x: torch.Tensor, index: Any, value: Any) -> torch.Tensor:
    x = x.clone()
    x[index] = value
    return x * 2


CASES: dict[str, tuple[Callable[..., Any], list[list[Any]]]] = {
    "arange with out": (
        lambda end: torch.arange(end, out=number([1.0])),
        [[number(8.5)], [number(3.2)]],
    ),
    "arange from a size with out": (
        lambda x, end: torch.arange(x.shape[0], end, out=number([1])),
        [[torch.ones(2), number(8)], [torch.ones(2), number(12)]],
    ),
    "linspace": (
        lambda start, end, steps: torch.linspace(start, end, steps),
        [[number(3.0), number(10.0), number(steps, dtype=torch.int32)] for steps in (5, 8, 1, 0)],
    ),
    "one_hot": (
        lambda x, count: torch.nn.functional.one_hot(x, count.int()[0]),
        [[torch.arange(10), torch.tensor([15.0])], [torch.arange(10), torch.tensor([11.0])]],
    ),
    "slices with a step": (
        lambda x, end, step: put(x, (slice(None, end, step), slice(0, None, step)), 1),
        [[torch.randn(9, 6, 2), number(5), number(2)], [torch.randn(9, 6, 2), number(-3), number(3)]],
    ),
    "a slice of a tensor": (
        lambda x, start, value: put(x, slice(start, None), value),
        [[torch.randn(8, 3), number(2), torch.randn(3)], [torch.randn(8, 3), number(-9), torch.randn(3)]],
    ),
    "an index": (
        lambda x, at, value: put(x, at, value),
        [[torch.randn(3, 4), number(at), torch.randn(4)] for at in (2, 0, -1)],
    ),
    "an index beside a slice": (
        lambda x, at, value: put(x, (slice(1, None), at), value),
        [[torch.randn(3, 4), number(at), torch.randn(2)] for at in (2, 0, -1)],
    ),
    "sizes": (
        lambda x, n: (
            x.repeat(n, 1),
            x.view(n, 12 // n),
            x.reshape((n, -1)),
            x[None].expand(n, 2, 6) + 1,
            x.new_zeros(n, 3),
            x.tile((n,)),
        ),
        [[torch.randn(2, 6), number(n)] for n in (2, 3, 1)],
    ),
    "the size of an image": (
        lambda x, size: [
            torch.nn.functional.interpolate(x, size.tolist(), mode=mode, antialias=antialias)
            for mode, antialias in (("nearest", False), ("bilinear", False), ("bilinear", True), ("bicubic", True))
        ],
        [[torch.randn(1, 2, 6, 6), number(size)] for size in ((4, 5), (9, 3), (1, 6))],
    ),
    "the size of an image in tensors": (
        lambda x, size: [
            torch.nn.functional.interpolate(x, tuple(size), mode="bicubic"),
            torch.nn.functional.interpolate(x, size=(size[1], size[0])),
        ],
        [[torch.randn(1, 2, 6, 6), number(size)] for size in ((4, 5), (9, 3), (1, 6))],
    ),
    "a range": (
        lambda x, n: torch.stack([x[i] * i for i in range(1, n, 2)]),
        [[torch.randn(7), number(n)] for n in (4, 2, 7)],
    ),
    "a mask of bytes": (
        lambda x, mask: (x[mask], torch.where(mask[:, None], x, 0.0)),
        [[torch.randn(3, 4), number(mask, dtype=torch.uint8)] for mask in ([0, 2, 1], [0, 0, 255], [0, 0, 0])],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_values_of_tensors(name: str) -> None:
    function, (example, *others) = CASES[name]
    assert capture(function, tuple(example)).mode == "direct"
    assert_matches(function, *example, others=others)


def _fractions_of_a_size(x: torch.Tensor) -> torch.Tensor:
    return x[..., : torch.ceil(torch.as_tensor(3 * x.shape[1] / 4)).long()] * 1


def _numbers_of_sizes(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    third = torch.as_tensor(x.shape[0] / 3, dtype=torch.float64)
    return x / torch.asarray(x.shape[1], dtype=torch.float32) + third, torch.asarray(x.shape[0], copy=True)


@pytest.mark.parametrize("function", [_fractions_of_a_size, _numbers_of_sizes])
def test_a_tensor_is_made_of_a_size(function: Callable[..., Any]) -> None:
    shapes = ({0: "rows", 1: "columns"},)
    assert_matches(function, torch.randn(2, 12), others=[(torch.randn(4, 5),)], dynamic_shapes=shapes)


class CFGLowering(torch.nn.Module):
    """Images of several sizes, which are elements of a tensor of a dynamic size."""

    def forward(self, x, grid):
        found = []
        table = x.new_ones(1, x.shape[-1], 4, 4).cumsum(-1)
        for part, (rows, columns) in zip(x.split(grid.prod(1).tolist()), grid):  # noqa: B905  # as models write it
            resized = torch.nn.functional.interpolate(table, size=(columns, rows), mode="bilinear")[0].movedim(0, -1)
            image = part.reshape(rows, columns, part.shape[-1]).transpose(0, 1) + resized
            found.append(image.reshape(rows * columns, part.shape[-1]))
        return torch.cat(found)


@pytest.mark.slow
def test_parts_are_reshaped_by_elements_of_a_tensor() -> None:
    def given(*grid: list[int]) -> list[torch.Tensor]:
        return [torch.randn(sum(rows * columns for rows, columns in grid), 3), torch.tensor(grid)]

    assert_matches(
        CFGLowering(),
        *given([2, 4], [4, 2]),
        others=[given([2, 2]), given([4, 4], [2, 6], [2, 2])],
        dynamic_axes={"x": {0: "tokens"}, "grid": {0: "images"}},
        input_names=["x", "grid"],
    )


def test_counts_of_a_dynamic_number() -> None:
    x = torch.tensor([[1, 2, 4], [3, 4, 7]])
    narrow = torch.tensor([[1, 2], [3, 4]])
    assert_matches(
        lambda x, counts: x.repeat_interleave(counts, dim=1),
        x,
        torch.tensor([2]),
        others=[[narrow, torch.tensor([4])], [narrow, torch.tensor([4, 1])]],
        dynamic_axes={"x": {1: "width"}, "counts": {0: "count"}},
        input_names=["x", "counts"],
    )


@pytest.mark.slow
def test_a_range_of_a_dynamic_size() -> None:
    assert_matches(
        lambda x: torch._dim_arange(x, 1), torch.ones(5, 6), others=[[torch.ones(3, 2)]], dynamic_shapes="auto"
    )


def test_windows_of_a_dynamic_size() -> None:
    """They are views: what is written to them is written to the tensor."""

    def model(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        size = math.ceil(x.shape[1] / 4)
        padded = torch.nn.functional.pad(x, (0, size * 4 - x.shape[1]))
        windows = padded.unfold(1, size, size)
        windows[:, 1].mul_(2)
        return padded, windows.sum(-1)

    others = [[torch.randn(2, width)] for width in (4, 6, 8, 13)]
    assert_matches(model, torch.randn(2, 7), others=others, dynamic_shapes={"x": {1: torch.export.Dim("width", min=4)}})


def test_complex_numbers_are_printed_and_not_computed_with() -> None:
    printed = []

    def printing(x: torch.Tensor) -> torch.Tensor:
        printed.append(f"{x.tolist()}")
        return x + 1

    assert_matches(printing, torch.randn(2, 3, dtype=torch.complex64))
    assert "only a run tells" in printed[0]
    with pytest.raises(Exception, match="UnknownComplexNumber"):
        capture(lambda x: x + x[0].item(), (torch.randn(2, dtype=torch.complex64),))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("index", "value"),
    [
        (lambda n, m: (..., -m), lambda x: 0.0),
        (lambda n, m: (slice(None), m - 1), lambda x: x[:, 0]),
        (lambda n, m: (slice(None), m - 1), lambda x: x[None, :, 0]),
        (lambda n, m: (n - 1, m // 2), lambda x: 1),
        (lambda n, m: (slice(n - 1, None), m - 1), lambda x: x.shape[0]),
        (lambda n, m: (..., m - 1, None), lambda x: x[:, :1]),
    ],
)
def test_writes_to_places_that_dynamic_sizes_give(index, value):
    def model(x):
        return put(x, index(*x.shape), value(x))

    taken = capture(model, (torch.randn(3, 4),), dynamic_shapes=({0: "n", 1: "m"},))
    for shape in ((3, 4), (2, 7), (5, 2)):
        assert_same(taken, torch.randn(shape))


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2])
def test_differences_along_a_size_that_data_decide(count):
    class Model(torch.nn.Module):
        def forward(self, x, lengths):
            y = x[:, : lengths.amax()]
            return torch.diff(y, count, prepend=y[:, :1] - 1), (y > 0).diff(count), torch.diff(y, count, 0, append=y)

    def given(*lengths):
        return torch.randn(3, 6), torch.tensor(lengths)

    assert_matches(
        Model(), *given(4, 2), dynamic_shapes=({0: "batch"}, {0: "count"}), others=[given(1), given(6, 2, 1)]
    )


def test_a_number_of_draws_that_is_read_in_a_loop():
    def draws(x: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        found = []
        for count in counts.clamp(min=1):
            drawn = torch.multinomial(torch.ones(x.shape[0]), count, replacement=True)
            found.append(x[drawn].new_ones(drawn.shape).sum())
        return torch.stack(found)

    others = [(torch.rand(6), torch.tensor(counts)) for counts in ([1, 9], [4], [2, 2, 2])]
    assert_matches(draws, torch.rand(6), torch.tensor([3, 5]), others=others, dynamic_shapes=(None, {0: "images"}))
