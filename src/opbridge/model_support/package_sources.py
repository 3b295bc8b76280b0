"""The sources of the functions of an installed package, read from its files: nothing of the package is imported."""

from __future__ import annotations

import ast
import functools
import importlib.machinery
import importlib.util
from collections.abc import Iterator
from pathlib import Path

__all__ = ["has_module", "is_installed", "parsed", "source_of"]


def is_installed(package: str) -> bool:
    """Whether there is a package of this name to import."""
    return _spec(package) is not None


def has_module(module: str) -> bool:
    """Whether the installed release has a module."""
    return _file(module) is not None


def source_of(target: str) -> str | None:
    """The source of a function, with its decorators; None where the installed release has no such function.

    Args:
        target: "module:qualname". A method may be one that its class inherits within the module.
    """
    module, _, name = target.partition(":")
    path = _file(module)
    if path is None:
        return None
    text, definitions = parsed(path)
    *owners, last = name.split(".")
    found = _found(definitions, ".".join(owners), last)
    if found is None:
        return None
    first = min([found.lineno, *(each.lineno for each in found.decorator_list)])
    return "".join(text[first - 1 : found.end_lineno])


def _spec(package: str) -> importlib.machinery.ModuleSpec | None:
    """Where a package is; None where there is none. It is not imported for that."""
    try:
        return importlib.util.find_spec(package)
    except ValueError:  # a module that was made by hand
        return None


def _file(module: str) -> Path | None:
    """The file of a module; None where there is none."""
    package, *rest = module.split(".")
    spec = _spec(package)
    if spec is None:
        return None
    if not rest:
        return None if spec.origin is None else Path(spec.origin)
    for folder in spec.submodule_search_locations or ():
        place = Path(folder, *rest)
        for path in (place.with_name(f"{place.name}.py"), place / "__init__.py"):
            if path.is_file():
                return path
    return None


_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@functools.cache
def parsed(path: Path) -> tuple[list[str], dict[str, _Definition]]:
    """The lines of a file, and what it defines by qualified name."""
    text = path.read_text(encoding="utf-8")
    return text.splitlines(keepends=True), dict(_definitions(ast.parse(text), ""))


def _definitions(node: ast.AST, prefix: str) -> Iterator[tuple[str, _Definition]]:
    for each in ast.iter_child_nodes(node):
        if isinstance(each, _Definition):
            yield f"{prefix}{each.name}", each
            if isinstance(each, ast.ClassDef):
                yield from _definitions(each, f"{prefix}{each.name}.")
        elif isinstance(each, ast.If | ast.Try):  # as of a function that depends on what is installed
            yield from _definitions(each, prefix)


def _found(definitions: dict[str, _Definition], owner: str, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    found = definitions.get(f"{owner}.{name}" if owner else name)
    if isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef):
        return found
    kind = definitions.get(owner)
    bases = kind.bases if isinstance(kind, ast.ClassDef) else []
    inherited = (_found(definitions, each.id, name) for each in bases if isinstance(each, ast.Name))
    return next((each for each in inherited if each is not None), None)
