"""Compares functions of packages with what is computed in their place, on the inputs that their entries give."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
import types
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from opbridge.model_support.applying import replaced
from opbridge.model_support.entries import CodeReplacement, FunctionReplacement

__all__ = ["differences"]


def differences(entry: FunctionReplacement | CodeReplacement, target: str) -> list[str]:
    """What is different between a function and its replacement, on each of the inputs of its entry.

    The package is imported. Inputs that the replacement does not take are differences, and so is an entry without any.

    Args:
        entry: The entry.
        target: The function: "module:qualname", one of the entry's targets.
    """
    found, count = [], 0
    try:
        owner = _owner(target)
        original = getattr(owner, entry.name)
        for count, (args, settings) in enumerate(entry.inputs(owner), 1):
            expected = original(*copy.deepcopy(args), **copy.deepcopy(settings))
            computed = _replacement(entry, original)(*copy.deepcopy(args), **copy.deepcopy(settings))
            said = _difference(computed, expected)
            if said:
                found.append(f"inputs {count}: {said}")
    except _NotTaken as error:
        found.append(f"inputs {count}: {error}")
    except Exception as error:  # whatever the functions of another package raise, of which a release has changed one
        where = f"inputs {count}: " if count else ""
        found.append(f"{where}{type(error).__name__}: {' '.join(str(error).split())}")
    return found if found or count else ["the entry gives no inputs"]


def _owner(target: str) -> Any:
    """The module or the class that a function is an attribute of."""
    module, _, name = target.partition(":")
    owner: Any = importlib.import_module(module)
    for each in name.split(".")[:-1]:
        owner = getattr(owner, each)
    return owner


class _NotTaken(Exception):
    """Inputs that a replacement does not take."""


def _replacement(entry: FunctionReplacement | CodeReplacement, original: Any) -> Callable[..., Any]:
    """The replacement of a function, which raises where it does not take its arguments."""
    if isinstance(entry, CodeReplacement):
        plain = inspect.unwrap(original)
        code = entry.replacement(plain)
        if code is None:
            raise _NotTaken("the replacement leaves the code as it is")
        made = types.FunctionType(code, plain.__globals__, plain.__name__, plain.__defaults__, plain.__closure__)
        made.__kwdefaults__ = plain.__kwdefaults__
        return made

    def taking(arguments: Any) -> Any:
        found = entry.replacement(arguments)
        if found is None:
            raise _NotTaken("the replacement does not take them")
        return found

    return replaced(original, dataclasses.replace(entry, replacement=taking, applies=lambda arguments: True))


def _difference(found: Any, expected: Any) -> str:
    """How values differ, in structure or in tensors; "" where they do not."""
    leaves, structure = pytree.tree_flatten(expected)
    others, other_structure = pytree.tree_flatten(found)
    if structure != other_structure:
        return f"{other_structure} in the place of {structure}"
    try:
        torch.testing.assert_close(others, leaves, rtol=1e-5, atol=1e-5, equal_nan=True)
    except AssertionError as error:
        return " ".join(str(error).split())
    return ""
