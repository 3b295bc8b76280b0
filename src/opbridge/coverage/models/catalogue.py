"""The families of models that there are, and their entries."""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import importlib
import importlib.metadata
import pkgutil
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from opbridge.base import specs
from opbridge.coverage.engine.quiet import quietly
from opbridge.coverage.models import families
from opbridge.coverage.models.entries import ModelEntry
from opbridge.errors import UsageError

__all__ = ["absent", "entries_of", "in_shard", "known_families", "modules_of", "packages_of", "pick"]

_WHAT = "family of models"


def known_families() -> tuple[str, ...]:
    """The names of the families that come with opbridge."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(families.__path__)))


def packages_of(family: str) -> tuple[str, ...]:
    """The distributions that a family needs; none for one of the user's own."""
    return () if _is_own(family) else tuple(_module(family).PACKAGES)


def modules_of(family: str) -> tuple[str, ...]:
    """Modules that every model of a family needs and its list does not: a sweep imports them once for all workers."""
    return () if _is_own(family) else tuple(getattr(_module(family), "MODULES", ()))


def absent(family: str) -> tuple[str, ...]:
    """Those of the distributions that a family needs which are not installed."""
    return tuple(package for package in packages_of(family) if not _is_installed(package))


@functools.cache
def entries_of(family: str) -> Mapping[str, ModelEntry]:
    """The entries of a family, by name, in order. Warnings of its packages are not shown.

    Args:
        family: Its name, or FILE.py:NAME or package.module:NAME for a list of `ModelEntry`, or a function that returns
            one.

    Raises:
        UsageError: There is no such family, it holds something else, or two entries share a name.
        Exception: Whatever its package raises.
    """
    with contextlib.nullcontext() if _is_own(family) else quietly():
        found = specs.attribute(family, _WHAT) if _is_own(family) else _module(family).entries
        found = found() if callable(found) else found
        made: list[Any] = list(found) if isinstance(found, Iterable) else [found]
    if not all(isinstance(each, ModelEntry) for each in made):
        raise UsageError(f"{family} is not a {_WHAT}; expected a list of opbridge.coverage.models.entries.ModelEntry.")
    by_name: dict[str, ModelEntry] = {}
    for entry in made:
        if entry.name in by_name:
            raise UsageError(f"The family {family} has two models {entry.name!r}. Give one of them another name.")
        by_name[entry.name] = entry
    return by_name


def pick(family: str, patterns: Sequence[str]) -> list[str]:
    """The names of the models of a family that fit any of some shell patterns."""
    return [name for name in entries_of(family) if any(fnmatch.fnmatchcase(name, each) for each in patterns)]


def in_shard(name: str, number: int, count: int) -> bool:
    """Whether a model is in a shard, 1 to `count`, by a hash of its name, which is the same in every release."""
    return zlib.crc32(name.encode()) % count == number - 1


def _is_own(family: str) -> bool:
    return ":" in family


def _module(family: str) -> Any:
    if family not in known_families():
        raise UsageError(f"Unknown family {family!r}; expected one of {', '.join(known_families())}, or FILE.py:NAME.")
    return importlib.import_module(f"{families.__name__}.{family}")


def _is_installed(package: str) -> bool:
    try:
        importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
