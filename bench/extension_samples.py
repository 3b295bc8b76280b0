"""Samples of the operators of torch_scatter, a C++ extension package that nobody here wrote; see extension_package.py.

opbridge coverage --db bench/extension_samples.py:OPERATORS
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch_scatter  # noqa: F401  (registers the operators)

from opbridge.coverage.entries import Entry, Sample

_INDEX = (0, 2, 1, 0, 2, 2)
_ORDERED = (0, 0, 1, 2, 2, 4)
_BOUNDS = (0, 2, 3, 3, 6)


def _scattered(dtype: torch.dtype) -> Iterator[Sample]:
    """(source, index of the source's shape, dimension, out, size)"""
    values = torch.randn(6, 3).mul(4).to(dtype)
    index = torch.tensor(_INDEX)
    yield Sample((values, index[:, None].expand(6, 3).contiguous(), 0, None, None))
    yield Sample((values.T.contiguous(), index.expand(3, 6).contiguous(), 1, None, 5))
    yield Sample((values[:, 0].contiguous(), index, -1, torch.ones(4, dtype=dtype), None))


def _sorted(sized: bool) -> Callable[[torch.dtype], Iterator[Sample]]:
    def samples(dtype: torch.dtype) -> Iterator[Sample]:
        """(source, ascending index, out) and the size, where there is one"""
        values = torch.randn(6, 3).mul(4).to(dtype)
        index = torch.tensor(_ORDERED)
        yield Sample((values, index, None, *((5,) if sized else ())))
        yield Sample((values[:5].contiguous(), index[:5], None, *((None,) if sized else ())))

    return samples


def _between(dtype: torch.dtype) -> Iterator[Sample]:
    """(source, the bounds of its segments, out)"""
    values = torch.randn(6, 3).mul(4).to(dtype)
    yield Sample((values, torch.tensor(_BOUNDS), None))
    yield Sample((values[:, 0].contiguous(), torch.tensor((0, 6)), None))


def _gathered(pointers: bool) -> Callable[[torch.dtype], Iterator[Sample]]:
    def samples(dtype: torch.dtype) -> Iterator[Sample]:
        values = torch.randn(5, 3).mul(4).to(dtype)
        yield Sample((values[:4].contiguous(), torch.tensor(_BOUNDS), None))
        yield Sample((values[:1].contiguous(), torch.tensor((0, 3)), None))

    def by_index(dtype: torch.dtype) -> Iterator[Sample]:
        yield Sample((torch.randn(5, 3).mul(4).to(dtype), torch.tensor(_ORDERED), None))

    return samples if pointers else by_index


_DTYPES = (torch.float32, torch.float64, torch.int64)


def _entry(name: str, samples: Callable[[torch.dtype], Iterator[Sample]]) -> Entry:
    return Entry(f"torch_scatter::{name}", getattr(torch.ops.torch_scatter, name), samples, _DTYPES)


OPERATORS = [
    *(_entry(f"scatter_{how}", _scattered) for how in ("sum", "mul", "mean", "min", "max")),
    *(_entry(f"segment_{how}_coo", _sorted(True)) for how in ("sum", "mean", "min", "max")),
    *(_entry(f"segment_{how}_csr", _between) for how in ("sum", "mean", "min", "max")),
    _entry("gather_coo", _gathered(False)),
    _entry("gather_csr", _gathered(True)),
]
