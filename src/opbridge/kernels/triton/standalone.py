"""A kernel as a Python file of its own: with the helpers and constants that it uses, and without the model."""

from __future__ import annotations

import ast
import builtins
import types
from collections.abc import Mapping
from typing import Any

from opbridge.base import triton_private
from opbridge.errors import CaptureError

__all__ = ["standalone_source"]


def standalone_source(kernel: Any, constants: Mapping[str, Any]) -> str:
    """The text of a Python file with a kernel, `KERNEL`, and the values of its constants, `CONSTANTS`.

    Args:
        kernel: The kernel.
        constants: The values of the parameters that are constants.

    Raises:
        CaptureError: It uses a value that has no text, or two functions mean different values by one name.
    """
    parts = _Parts()
    parts.add_function(kernel)
    named = ", ".join(f"{name!r}: {parts.constant(value, kernel, name)}" for name, value in constants.items())
    lines = ["import triton", "import triton.language", *parts.lines, "", f"KERNEL = {kernel.__name__}"]
    return "\n".join([*lines, f"CONSTANTS = {{{named}}}", ""])


class _Parts:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self._known: dict[str, Any] = {}

    def add_function(self, function: Any) -> None:
        """Adds a kernel or helper, after all that it uses."""
        text = triton_private.source(function)
        seen = triton_private.scope(function)
        self._known[function.__name__] = function
        for name in _names_read(text):
            if name in seen and seen[name] is not function:
                self._add(name, seen[name], function)
        self.lines += ["", "", "@triton.jit", text.rstrip()]

    def _add(self, name: str, value: Any, user: Any) -> None:
        if name in self._known:
            if self._known[name] is value or self._same(self._known[name], value):
                return
            raise CaptureError(
                f"The Triton kernel {user.__name__} and one of its helpers use different values by the name '{name}'. "
                "Give them different names."
            )
        self._known[name] = value
        place = triton_private.builtin_name(value)
        if isinstance(value, types.ModuleType):
            self.lines.append(f"import {value.__name__} as {name}" if "." in value.__name__ else _module(value, name))
        elif place:
            module, _, found = place.partition(":")
            self.lines.append(f"from {module} import {found} as {name}")
        elif triton_private.is_kernel(value):
            if value.__name__ != name:
                self.add_function(value)
                self.lines += ["", f"{name} = {value.__name__}"]
            else:
                self.add_function(value)
        else:
            self.lines.append(f"{name} = {self.constant(value, user, name)}")

    def constant(self, value: Any, user: Any, name: str) -> str:
        """The text of a value."""
        if triton_private.is_kernel(value):
            if value.__name__ not in self._known:
                self.add_function(value)
            return str(value.__name__)
        text = triton_private.constant_text(value)
        if text is not None:
            return text
        kind = type(value)
        found = value if isinstance(value, (type, types.FunctionType)) else None
        if found is not None and "<locals>" not in found.__qualname__:
            self.lines.append(f"from {found.__module__} import {found.__qualname__.partition('.')[0]}")
            return found.__qualname__
        raise CaptureError(
            f"The Triton kernel {user.__name__} uses '{name}', a {kind.__module__}.{kind.__qualname__}, which is not "
            "supported. Use numbers, text, types of triton.language, and functions with @triton.jit."
        )

    def _same(self, first: Any, second: Any) -> bool:
        texts = [triton_private.constant_text(each) for each in (first, second)]
        return texts[0] is not None and texts[0] == texts[1]


def _module(value: types.ModuleType, name: str) -> str:
    return f"import {value.__name__}" + (f" as {name}" if value.__name__ != name else "")


def _names_read(text: str) -> list[str]:
    """The names that a function reads, its annotations and defaults included, in order."""
    read = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    return list(dict.fromkeys(each.id for each in read if not hasattr(builtins, each.id)))
