"""What a package's support is made of, as data.

A package brings its own under the entry point group `opbridge.model_support`; see docs/model_support.md.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from opbridge.model_support.cache_adapters import CacheAdapter

__all__ = [
    "Arguments",
    "CaptureContext",
    "CodeReplacement",
    "Container",
    "Entry",
    "FunctionReplacement",
    "Inputs",
    "ModelSupport",
]

Arguments = Mapping[str, Any]
"""The arguments of a call by the names of the function's parameters, with defaults. Those of `**kwargs` are a dict."""

Inputs = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments."""


def _no_inputs(owner: Any) -> Iterable[Inputs]:
    return ()


def _always(arguments: Arguments) -> bool:
    return True


def _nothing(arguments: Arguments) -> str:
    return ""


@dataclass(frozen=True, eq=False, kw_only=True)
class Entry:
    """Something that is known of functions of a package.

    Attributes:
        targets: Where the package defines the functions: "module:function" or "module:Class.method".
        sources: The fingerprints of their sources that are known; see `fingerprints`.
    """

    targets: tuple[str, ...]
    sources: tuple[str, ...]

    def __post_init__(self) -> None:
        for each in self.targets:
            module, _, name = each.partition(":")
            if not module or not name:
                raise ValueError(f'the target {each!r} is not of the form "module:qualname"')
        if not self.targets or not self.sources:
            raise ValueError("an entry needs at least one target and one source")


@dataclass(frozen=True, eq=False, kw_only=True)
class _Replacement(Entry):
    """A replacement of a function.

    Attributes:
        inputs: Gives inputs on which the function and its replacement are compared, for the class or the module that
            the function is an attribute of. Of a method, the first argument is the object.
    """

    inputs: Callable[[Any], Iterable[Inputs]] = _no_inputs

    def __post_init__(self) -> None:
        super().__post_init__()
        if len({each.rpartition(":")[2].rpartition(".")[2] for each in self.targets}) > 1:
            raise ValueError(f"the targets {', '.join(self.targets)} are functions of several names")

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.targets[0].rpartition(":")[2].rpartition(".")[2]


@dataclass(frozen=True, eq=False, kw_only=True)
class FunctionReplacement(_Replacement):
    """A function in whose place something else is computed while a model is captured.

    It is replaced in the classes and modules of the model, wherever its source is one of those that are known: at its
    targets, and in a copy, as models that bring code of their own have it.

    Attributes:
        replacement: Computes the same, from the arguments by name. None where they are of a form that it does not take:
            the function itself runs then.
        applies: Whether arguments are of a form that `replacement` takes. Where they are not, the function itself runs.
        calls: Of a method, the methods and functions that it calls, by name, with the fingerprint of each. The method
            is replaced in classes for which all of them are these.
        owner_suffix: Of a method, what the name of its class ends with.
        uses: Functions of its module that `replacement` calls: they are among its arguments by name too.
        decorators: The decorators that its module has put around it, by their names there, the innermost first.
        note: What the plan says of a call for which the replacement was computed; "": nothing.
    """

    replacement: Callable[[Arguments], Any]
    applies: Callable[[Arguments], bool] = _always
    calls: Mapping[str, str] = field(default_factory=dict)
    owner_suffix: str = ""
    uses: tuple[str, ...] = ()
    decorators: tuple[str, ...] = ()
    note: Callable[[Arguments], str] = _nothing


@dataclass(frozen=True, eq=False, kw_only=True)
class CodeReplacement(_Replacement):
    """A function whose code is another one while a model is captured, whatever object holds the function.

    Attributes:
        replacement: The code for a function; None where it stays.
        variable: The name of one of its variables or arguments: the sources of functions without it are not read, of
            which a model has many where their name is a usual one, such as `forward`.
    """

    replacement: Callable[[types.FunctionType], types.CodeType | None]
    variable: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class CaptureContext(Entry):
    """A context in which a model is captured, for what is no replacement of a function.

    It checks by itself whether what it replaces has the form that it knows.

    Attributes:
        context: Makes the context for a model.
        sizes_in_python: Whether it is for captures alone in which all Python functions take symbolic sizes.
    """

    context: Callable[[torch.nn.Module], contextlib.AbstractContextManager[Any]]
    sizes_in_python: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class Container:
    """A kind of containers of tensors, among inputs and outputs of models.

    Attributes:
        is_class: Whether a class is one of them.
        register: Registers a class with torch's pytree, as `torch.utils._pytree.register_pytree_node` does.
    """

    is_class: Callable[[type], bool]
    register: Callable[[type], None]


@dataclass(frozen=True)
class ModelSupport:
    """What is known of a package.

    Attributes:
        package: The package, as it is imported.
        entries: What is known of its functions.
        caches: Its caches, as containers of tensors.
        containers: Its other containers of tensors.
    """

    package: str
    entries: tuple[Entry, ...] = ()
    caches: tuple[CacheAdapter, ...] = ()
    containers: tuple[Container, ...] = ()

    def __post_init__(self) -> None:
        wrong = [each for each in self.entries if not isinstance(each, Entry)]
        if wrong:
            raise TypeError(f"{wrong[0]!r} is not an entry: FunctionReplacement, CodeReplacement or CaptureContext")
