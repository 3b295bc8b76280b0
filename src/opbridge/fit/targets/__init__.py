"""Targets: a runtime with its version and limits, which a model is fitted to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import onnx_ir as ir

from opbridge.errors import UsageError
from opbridge.fit.scaled_products import keep_exact
from opbridge.fit.targets import onnxruntime

__all__ = ["Target", "find_target"]


@dataclass(frozen=True)
class Target:
    """What a model is fitted to.

    Attributes:
        name: The runtime's name.
        version: Its version.
        opset: The opset that the model is built for.
        newest: The newest opset that the runtime runs well.
        lacks: Whether the runtime has no kernel for an operator with these types: (operator, opset, type variable ->
            type in ONNX's spelling).
        knows: Whether an operator of a domain other than ONNX's is one of the runtime's own: (domain, operator).
        repair: Rewrites, in place, what the runtime would compute wrongly.
    """

    name: str
    version: str
    opset: int
    newest: int
    lacks: Callable[[str, int, dict[str, str]], bool]
    knows: Callable[[str, str], bool]
    repair: Callable[[ir.Model], None]


def find_target(name: str | None, opset: int | None) -> Target:
    """The target of that name at an opset.

    Args:
        name: "onnxruntime", the only one so far; None means the same.
        opset: The opset asked for; None: the newest that the target runs well.

    Raises:
        UsageError: no such target, or an opset that it or opbridge cannot do.
    """
    if name not in (None, onnxruntime.NAME):
        raise UsageError(f"There is no target '{name}'; the targets are: {onnxruntime.NAME}.")
    oldest, newest = onnxruntime.oldest_opset(), onnxruntime.newest_opset()
    well = onnxruntime.default_opset()
    chosen = well if opset is None else opset
    if isinstance(chosen, bool) or not isinstance(chosen, int) or not oldest <= chosen <= newest:
        raise UsageError(
            f"opset_version={chosen} is out of range: opbridge builds for opset {oldest} and newer, and the installed "
            f"onnxruntime {onnxruntime.version()} runs up to opset {newest}."
        )
    return Target(
        onnxruntime.NAME, onnxruntime.version(), chosen, well, onnxruntime.lacks, onnxruntime.knows, keep_exact
    )
