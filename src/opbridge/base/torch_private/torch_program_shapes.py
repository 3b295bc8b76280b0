"""Private interfaces of torch about the sizes of an exported program: its symbols, their ranges and its guards.

Checked on torch 2.13.0, 2.14.1 and 2.15.0.
"""

from __future__ import annotations

from typing import Any

import torch

from opbridge.base.torch_private.torch_shape_env import guards_in, sources_of_symbols

__all__ = ["narrow_range", "place_of_size", "shape_guards", "shape_sources"]


def narrow_range(program: torch.export.ExportedProgram, symbol: str, low: int | None, high: int | None) -> None:
    """Narrows the range of a symbol; None leaves a bound as it is."""
    from torch.utils._sympy.value_ranges import ValueRanges

    ranges = program.range_constraints
    for key, found in list(ranges.items()):
        if str(key) == symbol:
            ranges[key] = ValueRanges(
                found.lower if low is None else max(found.lower, low),
                found.upper if high is None else min(found.upper, high),
            )


def shape_sources(program: torch.export.ExportedProgram) -> dict[str, str]:
    """For each symbol of a capture, the input size that it was created for, as a Python expression: `x.shape[0]`."""
    return sources_of_symbols(_environment(program))


def place_of_size(size: object) -> str | None:
    """The input size of a SymInt that is a single symbol, as in `shape_sources`; None for any other size."""
    if not isinstance(size, torch.SymInt) or not size.node.expr.is_symbol:
        return None
    return sources_of_symbols(size.node.shape_env).get(str(size.node.expr))


def shape_guards(program: torch.export.ExportedProgram) -> list[tuple[str, tuple[str, ...], str]]:
    """The conditions on sizes under which a capture holds.

    Returns:
        For each one a Python expression over symbols (`(s77 % 2) == 0`), its symbols, and the stack of the line that
        caused it (empty outside of `recording_guard_stacks`).
    """
    env = _environment(program)
    return [] if env is None else guards_in(env)


def _environment(program: torch.export.ExportedProgram) -> Any:
    for node in program.graph.nodes:
        if node.op != "placeholder":
            return None
        env = getattr(getattr(node.meta.get("val"), "fake_mode", None), "shape_env", None)
        if env is not None:
            return env
    return None
