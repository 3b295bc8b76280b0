"""The target that an export is fitted to: a runtime with its limits, and the opset that the model is built for.

The installed ONNX Runtime runs every model that is exported, whatever its target, since it is what proves the file.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from opbridge.errors import UsageError
from opbridge.fit import custom_types, integer_products, padded_pools, scaled_products
from opbridge.onnx import opsets, transposed_products
from opbridge.onnx.wider_types import Kernels
from opbridge.targets import Opsets, onnxruntime
from opbridge.targets import Target as Limits
from opbridge.targets import find_target as find_limits
from opbridge.targets.facts import Narrow
from opbridge.targets.provided import checked, is_provided

__all__ = ["Target", "find_target"]


_NO_LIMIT = 1 << 31
_OF_BFLOAT16 = {"T": "tensor(bfloat16)"}


@dataclass(frozen=True)
class Target:
    """A runtime, and the opset that a model is built for.

    Attributes:
        name: The name of the runtime that proves the model.
        version: Its version.
        kernels: Its kernels for standard operators, at the opset that the model is built for.
        has_operator: Whether the runtime itself has an operator of a domain other than ONNX's: (domain, operator).
        correct: Rewrites, in place, nodes that the runtime computes wrongly, or not with the kernels that it has.
        limits: What the model is to run on, where that is another runtime, with what it does not take.
        provided: Patterns of operators that the user states the target has in addition.
    """

    name: str
    version: str
    kernels: Kernels
    has_operator: Callable[[str, str], bool]
    correct: Callable[[ir.Model], None]
    limits: Limits | None = None
    provided: tuple[str, ...] = ()

    @property
    def opset(self) -> int:
        """The opset that the model is built for."""
        return self.kernels.opset

    def at(self, opset: int) -> Target:
        """The same target, for models of another opset."""
        return dataclasses.replace(self, kernels=dataclasses.replace(self.kernels, opset=opset))

    def for_bfloat16(self) -> Target:
        """The same target, for models of bfloat16: at an opset whose convolutions and pools are defined for it.

        That is where the target takes bfloat16 and that opset; ONNX Runtime only proves the model.
        """
        limits = self.limits
        if limits is None or not any("bfloat16" in each.types for each in limits.of_kind(Narrow)):
            return self
        newest = min(onnxruntime.newest_opset(), limits.opsets.newest if limits.opsets is not None else _NO_LIMIT)
        wanted = (each for each in range(self.opset, newest + 1) if opsets.allows("Conv", each, _OF_BFLOAT16))
        return self.at(next(wanted, self.opset))

    def provides(self, domain: str, op_type: str) -> bool:
        """Whether the user states that the target has an operator."""
        return is_provided(domain, op_type, self.provided)

    def __str__(self) -> str:
        return f"{self.name} {self.version}" if self.limits is None else f"{self.limits.name} {self.limits.version}"


def find_target(name: str | None, opset: int | None, provides: str | Sequence[str] = ()) -> Target:
    """The target of a name, with an opset.

    Args:
        name: "tensorrt:10.1", as for `opbridge.lint`; None: the installed ONNX Runtime.
        opset: The opset that models are built for; None: the newest that the target and ONNX Runtime run well.
        provides: Operators that the target has in addition, as for `opbridge.lint`.

    Raises:
        UsageError: There is no such target; it, ONNX Runtime or opbridge does not support the opset; or `provides`
            is wrong.
    """
    provided = checked(provides)
    limits = None if name in (None, onnxruntime.NAME) else find_limits(str(name))
    if limits is not None and limits.name == onnxruntime.NAME:
        limits = None
    if limits is not None:
        limits = dataclasses.replace(limits, provided=provided)
    taken = None if limits is None else limits.opsets
    oldest, newest = onnxruntime.oldest_opset(), onnxruntime.newest_opset()
    default = onnxruntime.default_opset()
    chosen = _newest_common(limits, taken, oldest, default) if opset is None else opset
    if isinstance(chosen, bool) or not isinstance(chosen, int) or not oldest <= chosen <= newest:
        raise UsageError(
            f"opset_version={chosen} is not supported: opbridge supports opset {oldest} and newer, and the "
            f"installed onnxruntime {onnxruntime.version()} supports up to opset {newest}."
        )
    if taken is not None and not taken.oldest <= chosen <= taken.newest:
        raise UsageError(
            f"opset_version={chosen} is not supported: {limits} supports opset {taken.oldest} to {taken.newest} "
            f"({taken.source}). Leave it out to use the newest one, or choose another target."
        )
    kernels = onnxruntime.kernels(chosen)
    return Target(
        onnxruntime.NAME,
        onnxruntime.version(),
        kernels,
        onnxruntime.has_operator,
        functools.partial(_correct_for_onnxruntime, cast=kernels.casts if limits is None else ()),
        limits,
        provided,
    )


def _newest_common(limits: Limits | None, taken: Opsets | None, oldest: int, default: int) -> int:
    """The newest opset that the target takes, and ONNX Runtime runs well.

    Raises:
        UsageError: There is none.
    """
    if taken is None:
        return default
    chosen = min(default, taken.newest)
    if chosen < max(oldest, taken.oldest):
        raise UsageError(
            f"{limits} supports opset {taken.oldest} to {taken.newest} ({taken.source}), but opbridge supports "
            f"opset {oldest} to {default}. Choose another version of the target."
        )
    return chosen


def _correct_for_onnxruntime(model: ir.Model, cast: Collection[ir.DataType]) -> None:
    scaled_products.keep_exact(model)
    integer_products.keep_products(model)
    padded_pools.keep_apart(model)
    transposed_products.keep_apart(model, cast)
    custom_types.keep_types(model)
