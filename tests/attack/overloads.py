"""The overloads of aten that a model file may name."""

from __future__ import annotations

import fnmatch
from typing import Any

import torch

__all__ = ["candidates", "name_of", "overload"]

_NO_KIND = ("Dimname", "Storage", "Stream", "__torch__", "Generator ")
"""Types of arguments that no node holds."""


def overload(name: str) -> Any:
    """The operator of "aten::add.Tensor"."""
    packet, _, which = name.removeprefix("aten::").partition(".")
    return getattr(getattr(torch.ops.aten, packet), which or "default")


def name_of(target: Any) -> str:
    """ "aten::add.Tensor" of an operator; "aten::relu" of one without an overload's name."""
    schema = target._schema
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name


def candidates(pattern: str = "*", by_default: bool = False) -> list[str]:
    """The overloads that evidence may put on the list: functional ones that no rule refuses.

    Overloads with an argument that no node holds are left out.

    Args:
        pattern: Of names, in which "*" stands for any text; several are separated by commas.
        by_default: Only those that are on the list.
    """
    from opbridge.kernels.aten import refusal, rule

    reason = refusal if by_default else rule

    found = []
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        if not name.startswith("aten::") or not any(fnmatch.fnmatch(name, each) for each in pattern.split(",")):
            continue
        try:
            target = overload(name)
        except AttributeError:
            continue
        schema = str(target._schema)
        if reason(schema) == "" and not any(each in schema for each in _NO_KIND):
            found.append(name)
    return found
