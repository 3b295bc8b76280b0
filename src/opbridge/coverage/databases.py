"""What a database of samples is made of, and how one is named."""

from __future__ import annotations

import fnmatch
import functools
import itertools
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from opbridge.base import specs
from opbridge.coverage.entries import Entry, Sample
from opbridge.errors import UsageError

__all__ = ["ORDER", "database", "key_of", "pick", "samples_of"]

ORDER = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.complex64,
    torch.complex128,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.bool,
    torch.float8_e4m3fn,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2,
    torch.float8_e5m2fnuz,
)
"""The dtypes that ONNX has too, complex ones as pairs, in the order in which an operator's own one is looked for."""

_SEED = 20250
_WHAT = "database of samples"


def key_of(operator: str, variant: str) -> str:
    """How an entry is called: "std", or "std/unbiased"."""
    return f"{operator}/{variant}" if variant else operator


@functools.cache
def database(name: str) -> Mapping[str, Entry]:
    """The entries of a database, by key, in order.

    Args:
        name: "torch" (op_db), "torchvision", or FILE.py:NAME or package.module:NAME for a list of `Entry`s or of
            torch's OpInfos, or a function that returns one.

    Raises:
        UsageError: there is no such thing, it holds something else, or two entries share a key.
    """
    from opbridge.coverage import _op_db

    if name == "torch":
        return _by_key(name, _op_db.entries())
    if name == "torchvision":
        from opbridge.coverage import torchvision_db

        return _by_key(name, torchvision_db.entries())
    found = specs.attribute(name, _WHAT)
    found = found() if callable(found) else found
    if not isinstance(found, (list, tuple)) or not all(
        isinstance(each, Entry) or hasattr(each, "sample_inputs") for each in found
    ):
        raise UsageError(f"{name} is not a {_WHAT}; expected a list of opbridge.coverage.entries.Entry.")
    return _by_key(name, (each if isinstance(each, Entry) else _op_db.entry(each) for each in found))


def _by_key(name: str, entries: Iterable[Entry]) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for entry in entries:
        key = key_of(entry.operator, entry.variant)
        if key in found:
            raise UsageError(f"The database {name} has two entries {key!r}. Give one of them another variant.")
        found[key] = entry
    return found


def pick(name: str, patterns: Sequence[str]) -> list[str]:
    """The keys of a database that fit any of some shell patterns: "std*" fits "std/unbiased", and so does "std".

    Raises:
        UsageError: there are none.
    """
    entries = database(name)
    keys = [
        key
        for key, entry in entries.items()
        if any(fnmatch.fnmatchcase(each, pattern) for pattern in patterns for each in (key, entry.operator))
    ]
    if not keys:
        raise UsageError(
            f"No operator of the database {name} matches {' or '.join(patterns)}. Use shell patterns, as in --ops "
            "'linalg.*'; names are those in the torch module, such as nn.functional.gelu."
        )
    return keys


@functools.lru_cache(maxsize=4)
def samples_of(name: str, key: str, dtype: torch.dtype, count: int) -> tuple[Sample, ...]:
    """The first samples of an entry, the same ones in every process.

    Raises:
        Exception: whatever making them raises.
    """
    entry = database(name)[key]
    with _seeded():
        return tuple(itertools.islice(entry.samples(dtype), count))


class _seeded:
    """Every generator that a sample may be drawn from, seeded; torch's is put back."""

    def __enter__(self) -> None:
        self._fork = torch.random.fork_rng(devices=[])
        self._fork.__enter__()
        torch.default_generator.manual_seed(_SEED)
        np.random.seed(_SEED)
        random.seed(_SEED)

    def __exit__(self, *raised: Any) -> None:
        self._fork.__exit__(*raised)
