"""The libraries of kernels that come with opbridge.

A wheel holds them, compiled when it was built: `opbridge/kernels/_builtin.so`. In a source tree, also one that is
installed in place, they are built from the sources beside this file, into the cache: what runs is what is written
there. Needs neither torch nor anything else, as the wheel's build imports it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from opbridge.errors import BuildError
from opbridge.kernels.build import ADAPTER, build_parts
from opbridge.kernels.compiler import find_compiler

__all__ = ["LIBRARIES", "Source", "announced_by", "at_hand", "built", "place", "shipped", "sources"]

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Source:
    """What a library is built from.

    Attributes:
        folder: Where its C++ files are.
        parts: What is linked to it beside them.
    """

    folder: Path
    parts: tuple[Path, ...] = ()


LIBRARIES = {"_builtin": Source(_HERE / "builtin", ADAPTER), "_aten": Source(_HERE / "aten")}
"""The built-in kernels, and what runs `aten` nodes, which is of use only where libtorch is."""

_COMPILING = {
    "_builtin": "Compiling the kernels (once, about two minutes)...",
    "_aten": "Compiling the kernel of the route aten (once)...",
}


def _say_nothing(text: str) -> None:
    """Libraries are compiled without a word, unless `announced_by` names who tells of it."""


_announce: Callable[[str], None] = _say_nothing


def announced_by(announce: Callable[[str], None]) -> None:
    """Has a function told in words when a library is compiled, which takes long; nothing is told otherwise."""
    global _announce
    _announce = announce


_SUFFIXES = (".so", ".dylib", ".dll")


def sources(name: str) -> list[Path]:
    """The C++ files of a library."""
    return sorted(LIBRARIES[name].folder.glob("*.cpp"))


def built(name: str) -> Path:
    """A library built from its sources, or taken from the cache.

    Raises:
        BuildError: there is no compiler, or a source does not compile.
    """
    return build_parts(sources(name), LIBRARIES[name].parts, begins=lambda: _announce(_COMPILING[name]))


def place(name: str) -> Path:
    """Where a wheel has the library.

    Raises:
        BuildError: there is no compiler, which says what such files are called here.
    """
    return _HERE / f"{name}{find_compiler().suffix}"


def at_hand(name: str) -> bool:
    """Whether the library is there, or a compiler to build it."""
    if _came(name) is not None:
        return True
    try:
        find_compiler()
    except BuildError:
        return False
    return True


@functools.cache
def shipped(name: str) -> Path:
    """The library: the one that came with the wheel, or one built from the sources.

    Raises:
        BuildError: there is neither a library nor a compiler, or a source does not compile.
    """
    return _came(name) or built(name)


def _came(name: str) -> Path | None:
    return next((path for path in sorted(_HERE.glob(f"{name}.*")) if path.suffix in _SUFFIXES), None)
