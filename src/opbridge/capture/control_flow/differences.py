"""What is said of branches that do not join: what one of them does, and what another does in its place."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch.fx import Node

from opbridge.base.sources import Source
from opbridge.base.torch_private.torch_operators import operator_name
from opbridge.base.wording import counted
from opbridge.graph.node_sources import sources_of

__all__ = ["at", "calls_unlike", "given", "known_unlike", "targets_unlike"]

_LONGEST = 120


def at(sources: Sequence[Source]) -> str:
    """The innermost line, " at model.py:12"; empty where none is known."""
    return f" at {sources[0]}" if sources else ""


def given(node: Node) -> str:
    """What a node gives, and where: "int64 of 2 dimensions at model.py:12"."""
    value, where = node.meta.get("val"), at(sources_of(node)) or f" ({node.name})"
    if not isinstance(value, torch.Tensor):
        return f"a number{where}"
    return f"{str(value.dtype).removeprefix('torch.')} of {counted(value.dim(), 'dimension')}{where}"


def calls_unlike(branches: Iterable[Sequence[Node]]) -> str:
    """What the first two operators are that differ between branches."""
    for nodes in itertools.zip_longest(*branches):
        found = {None if node is None else (node.op, node.target): node for node in nodes}
        if len(found) > 1:
            one, other, *_ = map(_call, found.values())
            return f"one branch {one}, another {other}"
    return "branches use different weights or inputs"


def _call(node: Node | None) -> str:
    return "computes nothing further" if node is None else f"computes {_name(node.target)}{at(sources_of(node))}"


def targets_unlike(numbers: Iterable[Node]) -> str:
    """Which operators two branches compute the same number by."""
    found = [
        f"{_name(node.target) if node.op == 'call_function' else node.name}{at(sources_of(node))}" for node in numbers
    ]
    return f"a number is {_one_and_another(found)}"


def known_unlike(values: Iterable[Any]) -> str:
    """Which two constants are in the same place in branches."""
    return f"a constant is {_one_and_another(map(repr, values))}"


def _one_and_another(texts: Iterable[str]) -> str:
    one, other, *_ = *dict.fromkeys(texts), "of a different type"
    return f"{_cut(one)} in one branch, and {_cut(other)} in another"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


def _name(target: Any) -> str:
    """An operator as a person calls it: "aten::sum", "add", "a list"."""
    name = str(operator_name(target) or getattr(target, "__name__", target))
    if name.startswith("opbridge_capture::"):
        return "a list" if "gathered" in name else "a condition"
    return name.partition("::")[2] if name.startswith(("_operator::", "builtins::")) else name
