"""The target that an export is fitted to: the installed runtime, with the opset that the model is built for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import onnx_ir as ir

from opbridge.errors import UsageError
from opbridge.fit.integer_products import keep_products
from opbridge.fit.padded_pools import keep_apart
from opbridge.fit.scaled_products import keep_exact
from opbridge.targets import onnxruntime

__all__ = ["Target", "find_target"]


@dataclass(frozen=True)
class Target:
    """A runtime, and the opset that a model is built for.

    Attributes:
        name: The runtime's name.
        version: Its version.
        opset: The opset that the model is built for.
        newest: The newest opset of which the runtime has all kernels that it has for older ones.
        lacks_kernel: Whether the runtime has no kernel for a standard operator with given types: (operator, opset, type
            variable of the schema -> type as in "tensor(float)").
        has_operator: Whether the runtime itself has an operator of a domain other than ONNX's: (domain, operator).
        correct: Rewrites, in place, nodes that the runtime computes wrongly, or not with the kernels that it has.
    """

    name: str
    version: str
    opset: int
    newest: int
    lacks_kernel: Callable[[str, int, dict[str, str]], bool]
    has_operator: Callable[[str, str], bool]
    correct: Callable[[ir.Model], None]


def find_target(name: str | None, opset: int | None) -> Target:
    """The target of a name, with an opset.

    Args:
        name: "onnxruntime", the only one so far; None means the same.
        opset: The opset that models are built for; None: the `newest` of the target.

    Raises:
        UsageError: There is no such target, or it or opbridge does not support the opset.
    """
    if name not in (None, onnxruntime.NAME):
        raise UsageError(f"There is no target '{name}'; the targets are: {onnxruntime.NAME}.")
    oldest, newest = onnxruntime.oldest_opset(), onnxruntime.newest_opset()
    default = onnxruntime.default_opset()
    chosen = default if opset is None else opset
    if isinstance(chosen, bool) or not isinstance(chosen, int) or not oldest <= chosen <= newest:
        raise UsageError(
            f"opset_version={chosen} is out of range: opbridge builds for opset {oldest} and newer, and the installed "
            f"onnxruntime {onnxruntime.version()} runs up to opset {newest}."
        )
    return Target(
        onnxruntime.NAME,
        onnxruntime.version(),
        chosen,
        default,
        onnxruntime.lacks_kernel,
        onnxruntime.has_operator,
        _correct_for_onnxruntime,
    )


def _correct_for_onnxruntime(model: ir.Model) -> None:
    keep_exact(model)
    keep_products(model)
    keep_apart(model)
