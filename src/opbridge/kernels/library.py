"""Libraries of kernels: which operators each has, and which libraries this process has or finds by itself.

Needs no torch, and from a wheel no compiler: a machine that only runs models asks it too.
"""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from opbridge.errors import KernelError, UsageError
from opbridge.kernels.shipped import at_hand, shipped

__all__ = [
    "Declared",
    "Library",
    "builtin",
    "builtin_for",
    "find",
    "loaded",
    "needed",
    "open_library",
    "refuse_empty",
    "remember",
]

_BUILTIN_DOMAIN = "opbridge_ops"
"""The domain of all built-in kernels."""


@dataclass(frozen=True)
class Declared:
    """An operator as its library declares it.

    Attributes:
        schema: Its schema, in PyTorch's language.
        domain: Its namespace, the domain of its ONNX nodes.
        op_type: What the nodes are called there.
        problem: Why it cannot be used; "" where it can.
        cuda: Whether it has a kernel for CUDA devices.
    """

    schema: str
    domain: str
    op_type: str
    problem: str
    cuda: bool = False

    @property
    def name(self) -> str:
        """ "mylib::my_add": PyTorch's operator, and the ONNX node."""
        return f"{self.domain}::{self.op_type}"

    @property
    def returns_list(self) -> bool:
        """Whether its last result is a list of tensors, as many as the call decides."""
        return self.schema.rstrip(" )").endswith("Tensor[]")


class Library:
    """A shared library with kernels.

    Attributes:
        path: Where it is.
        native: The library, loaded.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.native = ctypes.CDLL(str(path))
        except OSError as error:
            raise KernelError(f"{path} cannot be loaded: {error}. Build it again on this platform.") from None

    @property
    def is_ours(self) -> bool:
        """Whether it was built with opbridge's header; ONNX Runtime takes others too."""
        return hasattr(self.native, "opbridge_describe")

    @cached_property
    def operators(self) -> tuple[Declared, ...]:
        """Its operators; none are known of a library that was not built with opbridge's header.

        Raises:
            KernelError: an operator's schema and its functions do not agree.
        """
        if not self.is_ours:
            return ()
        describe = self.native.opbridge_describe
        describe.restype = ctypes.c_char_p
        found = tuple(Declared(**each) for each in json.loads(describe().decode(errors="replace")))
        problems = [each.problem for each in found if each.problem]
        if problems:
            raise KernelError(f"{self.path.name}: {' '.join(problems)}")
        return found

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of its operators."""
        return frozenset(each.name for each in self.operators)

    def register_with(self, others: Sequence[Library]) -> None:
        """Registers the operators of other libraries with its own, the next time that it is registered.

        Raises:
            KernelError: another library was built with an older header.
        """
        addresses = (ctypes.c_void_p * len(others))(*(other._list_custom_ops() for other in others))
        register = self.native.opbridge_register_with
        register.argtypes, register.restype = [ctypes.c_void_p, ctypes.c_size_t], None
        register(addresses, len(others))

    def _list_custom_ops(self) -> int | None:
        """The address of the function that lists its operators to another library."""
        if not hasattr(self.native, "opbridge_list_custom_ops"):
            raise KernelError(f"{self.path} was built with an older version of opbridge. Build it again.")
        return ctypes.cast(self.native.opbridge_list_custom_ops, ctypes.c_void_p).value


def refuse_empty(library: Library, files: Sequence[str | os.PathLike[str]]) -> None:
    """Refuses a library, built from some C++ files, that has no operator.

    Raises:
        KernelError: It has none.
    """
    if not library.operators:
        raise KernelError(
            f"{', '.join(map(str, files))} registers no kernel. Expected at least one "
            'OPBRIDGE_KERNEL("mylib::my_add(Tensor x, Tensor y) -> Tensor", my_add, my_add_shape, floating); '
            "opbridge new NAME writes an example."
        )


_open: dict[Path, Library] = {}
_loaded: dict[Path, Library] = {}


def open_library(path: str | os.PathLike[str]) -> Library:
    """A library by its path; the same one each time.

    Raises:
        UsageError: there is no such file.
        KernelError: it cannot be loaded.
    """
    given = Path(path)
    if not given.is_file():
        raise UsageError(f"The library {given} does not exist. Build one with opbridge build, or correct the path.")
    if given.suffix in (".cpp", ".cc", ".cxx", ".cu"):
        raise UsageError(
            f"{given} is source code, but kernels= expects libraries. Build it with opbridge build {given}, and "
            "pass the library."
        )
    real = given.resolve()
    # In several threads at once, all get the one that was there first.
    return _open.get(real) or _open.setdefault(real, Library(real))


def remember(library: Library) -> None:
    """Notes that PyTorch has a library's operators, in place of those of an older one of the same name."""
    for path, other in list(_loaded.items()):
        if other.names & library.names:
            del _loaded[path]
    _loaded[library.path] = library


def loaded() -> list[Library]:
    """The libraries whose operators PyTorch has in this process."""
    return list(_loaded.values())


def builtin() -> list[Library]:
    """The libraries that come with opbridge."""
    return [open_library(shipped("_builtin"))] if at_hand("_builtin") else []


def builtin_for(name: str) -> list[Library]:
    """The libraries that come with opbridge and may have an operator: none are compiled for one of another domain."""
    return builtin() if name.startswith(f"{_BUILTIN_DOMAIN}::") else []


def find(name: str) -> Library | None:
    """The library at hand, loaded or built in, that has an operator."""
    having = (library for library in loaded() if name in library.names)
    return next(having, None) or next((library for library in builtin_for(name) if name in library.names), None)


def needed(names: Iterable[str]) -> list[Library]:
    """The libraries at hand that some operators need."""
    found = (find(name) for name in names)
    return list({library.path: library for library in found if library is not None}.values())
