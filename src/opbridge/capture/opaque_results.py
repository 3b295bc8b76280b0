"""What operators without fake implementations return during a capture: tensors of the recorded shapes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from opbridge.base.torch_private import torch_library, torch_sizes
from opbridge.capture.operator_recording import CallRecord, TensorRecord

__all__ = ["OpaqueResults"]


class OpaqueResults:
    """What such operators return in one execution of the model.

    Attributes:
        unknown: Names of the operators that returned sizes which are known only at run time.
    """

    def __init__(self) -> None:
        self.unknown: dict[str, None] = {}
        self._matched_sizes: dict[str, None] = {}
        self._constant_sizes: dict[str, None] = {}
        self._specialized_sizes: dict[str, None] = {}
        self._numbers: dict[str, None] = {}

    def of(self, call: CallRecord, leaves: Sequence[Any], *, use_example_sizes: bool) -> Any:
        """What an operator returns.

        Args:
            call: Its call in the model's own run.
            leaves: Its arguments now.
            use_example_sizes: Whether sizes that depend on values are fixed to the example's.
        """
        name = call.operator.name()
        sizes = _Sizes(leaves)
        like = next((leaf for leaf in leaves if isinstance(leaf, torch.Tensor)), None)

        def made(output: Any) -> Any:
            if isinstance(output, (bool, int, float)):
                self._numbers[name] = None
            if not isinstance(output, TensorRecord):
                return output
            return self._tensor(name, output, sizes, like, use_example_sizes=use_example_sizes)

        return pytree.tree_map(made, call.outputs)

    def _tensor(
        self, name: str, output: TensorRecord, sizes: _Sizes, like: torch.Tensor | None, *, use_example_sizes: bool
    ) -> torch.Tensor:
        if not sizes.dynamic and not all(map(sizes.is_fixed, output.shape)):
            self._specialized_sizes[name] = None
        if (not sizes.dynamic or like is None) and output.stride is not None:
            return torch.empty_strided(output.shape, output.stride, dtype=output.dtype, device=output.device)
        shape: list[Any] = []
        for size in output.shape:
            if not sizes.dynamic or like is None:
                shape.append(size)
            elif use_example_sizes:
                self._matched_sizes[name] = None
                shape.append(sizes.symbol(size))
            elif sizes.is_fixed(size):
                self._constant_sizes[name] = None
                shape.append(size)
            else:
                self.unknown[name] = None
                shape.append(torch_sizes.unknown_size(like))
        return torch.empty(shape, dtype=output.dtype, device=output.device)

    def notes(self) -> Iterator[str]:
        """Notes for the user about the sizes and numbers that were returned."""
        if self._matched_sizes:
            yield (
                f"the output sizes of {', '.join(self._matched_sizes)} may depend on values and are inferred from "
                "the example: a size that equals an input size is assumed to be that size, and all others are fixed"
            )
        if self._constant_sizes:
            yield (
                f"output sizes of {', '.join(self._constant_sizes)} that equal a fixed size or number among its "
                "inputs in the example are assumed to be that; the others are known only at run time"
            )
        if self._specialized_sizes:
            yield (
                f"output sizes of {', '.join(self._specialized_sizes)} that do not equal an input size are fixed "
                "to those of the example; if they depend on values, make a size of its inputs dynamic"
            )
        if self._numbers:
            yield f"the number that {', '.join(self._numbers)} returns is fixed to its value in the example"


class _Sizes:
    """The sizes and numbers among the arguments of a call."""

    def __init__(self, leaves: Sequence[Any]) -> None:
        every = [size for leaf in leaves for size in (leaf.shape if isinstance(leaf, torch.Tensor) else (leaf,))]
        self.dynamic = any(isinstance(size, torch.SymInt) for size in every)
        sizes = [torch_sizes.known_size(size) for size in every]
        self._static = {size for size in sizes if type(size) is int}
        self._symbols: dict[int, dict[str, torch.SymInt]] = {}
        for size in sizes:
            hint = torch_library.size_hint(size) if isinstance(size, torch.SymInt) else None
            if hint is not None:
                self._symbols.setdefault(hint, {})[str(size)] = size

    def is_fixed(self, size: int) -> bool:
        """Whether a size of the example is that of a static dimension, and not also that of a dynamic one."""
        return size in self._static and size not in self._symbols

    def symbol(self, size: int) -> Any:
        """The dynamic size that has this value in the example; the value itself where there is not exactly one."""
        found = list(self._symbols.get(size, {}).values())
        return found[0] if len(found) == 1 else size
