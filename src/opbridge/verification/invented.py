"""Inputs that opbridge made up: what of them no caller gave, and the example does not suggest.

Inputs that reach an untaken branch may hold a NaN, have a size of 0, or mask all that there is to attend to. A model
may never see such, and runtimes differ from PyTorch there: ONNX Runtime's MaxPool passes over a NaN. So a difference on
them is said in a note, with the line and the remedy, and does not refuse the file:

1. an input has a NaN or an infinity, and the example's has none;
2. a dimension is 0 that is not 0 in the example, unless it is the length of a cache, which is empty at first;
3. a mask leaves a row nothing to attend to: all elements that differ are NaN in PyTorch's result, and PyTorch gives
   numbers for the same inputs with the example's masks, or with masks that are all true or all false;
4. a mask has rows that are all masked: all elements that differ are NaN or infinite in the file's result, and the
   example has rows of the opposite value, and none of this one.

A mask is a tensor of truth values, of zeros and ones, or of floats with infinities. Example inputs, and those that a
caller gives, are not looked at here: a difference on them counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from opbridge.verification.compare import Comparison
    from opbridge.verification.dynamic_sizes import DynamicSizes

__all__ = ["Example", "Invention", "Results"]


@dataclass(frozen=True)
class Invention:
    """What no caller gave.

    Attributes:
        what: The value, "'x' has a NaN" or "batch=0".
        remedy: What to say to opbridge about it, as a sentence.
        position: The position of the input that has it among the leaves of `(args, kwargs)`.
        is_mask: Whether it is a mask.
    """

    what: str
    remedy: str
    position: int
    is_mask: bool = False


@dataclass(frozen=True)
class Results:
    """The outputs of a run that differs.

    Attributes:
        comparisons: One for each output.
        expected: PyTorch's outputs.
        actual: The file's outputs.
    """

    comparisons: Sequence[Comparison]
    expected: Sequence[torch.Tensor]
    actual: Sequence[torch.Tensor]


@dataclass(frozen=True)
class Example:
    """The example inputs, by which others are judged.

    Attributes:
        leaves: The leaves of the example inputs.
        names: What the inputs are called, by the positions of their leaves.
        sizes: The dynamic dimensions.
        run: Gives PyTorch's outputs for other leaves; raises whatever the model raises.
    """

    leaves: Sequence[Any]
    names: Mapping[int, str]
    sizes: DynamicSizes
    run: Callable[[Sequence[Any]], list[torch.Tensor]]

    def invented(self, leaves: Sequence[Any], results: Results | None) -> Invention | None:
        """What of a run's inputs no caller gave and the example does not suggest, where that explains a difference.

        Args:
            leaves: The leaves of the inputs of the run.
            results: What differs; None where the runtime raises.
        """
        tensors = self._tensors(leaves)
        found = self._size_of_none(tensors) or self._number_of_none(tensors)
        return found or (self._mask_of_none(leaves, results) if results is not None else None)

    def with_other_masks(self, leaves: Sequence[Any]) -> Iterator[list[Any]]:
        """Inputs with the example's masks, where they fit, and with masks of one value of the example's throughout."""
        for others in _other_masks(self._masks(leaves)):
            yield [others.get(position, leaf) for position, leaf in enumerate(leaves)]

    def _tensors(self, leaves: Sequence[Any]) -> list[tuple[int, torch.Tensor, torch.Tensor]]:
        """The tensors of the example and of a run, with their positions."""
        return [
            (position, own, leaf)
            for position, (own, leaf) in enumerate(zip(self.leaves, leaves, strict=True))
            if isinstance(own, torch.Tensor) and isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided
        ]

    def _masks(self, leaves: Sequence[Any]) -> list[tuple[int, torch.Tensor, torch.Tensor]]:
        """Of these, the masks that differ."""
        return [each for each in self._tensors(leaves) if _is_mask(each[1]) and not torch.equal(each[1], each[2])]

    def name(self, position: int) -> str:
        """What to call the leaf of the example inputs at a position."""
        return f"'{self.names[position]}'" if position in self.names else f"input {position}"

    def _number_of_none(self, tensors: Sequence[tuple[int, torch.Tensor, torch.Tensor]]) -> Invention | None:
        for position, own, leaf in tensors:
            for said, has in (("a NaN", _has_nan), ("an infinity", _has_infinity)):
                if has(leaf) and not has(own):
                    remedy = (
                        f"If the model is to see {said} there, give it in inputs=: the difference is then an error."
                    )
                    return Invention(f"{self.name(position)} has {said}", remedy, position)
        return None

    def _size_of_none(self, tensors: Sequence[tuple[int, torch.Tensor, torch.Tensor]]) -> Invention | None:
        for position, own, leaf in tensors:
            for axis, (before, now) in enumerate(zip(own.shape, leaf.shape, strict=True)):
                if now != 0 or before == 0:
                    continue
                dims = self.sizes.dims.get(position, ())
                symbol = str(dims[axis]) if axis < len(dims) else ""
                if symbol in self.sizes.with_zero:
                    continue
                name = self.sizes.names.get(symbol, symbol)
                is_name = name.isidentifier()
                what = f"{name}=0" if is_name else f"dimension {axis} of {self.name(position)} is 0"
                dim = f'Dim("{name if is_name else "n"}", min=1)'
                return Invention(
                    what,
                    f"If it is never 0, say so: {dim} in dynamic_shapes. If it is, give such inputs in inputs=: the "
                    "difference is then an error.",
                    position,
                )
        return None

    def _mask_of_none(self, leaves: Sequence[Any], results: Results) -> Invention | None:
        masks = self._masks(leaves)
        if not masks:
            return None
        names = " and ".join(self.name(position) for position, _, _ in masks)
        remedy = "If the model is to see such a mask, give it in inputs=: the difference is then an error."
        if _differ_where(results, lambda expected, actual: expected.isnan()) and self._gives_numbers_otherwise(
            leaves, results
        ):
            what = f"{names} leaves nothing to attend to, and PyTorch gives NaN"
            return Invention(what, remedy, masks[0][0], is_mask=True)
        if _differ_where(results, lambda expected, actual: ~actual.isfinite()):
            for position, own, leaf in masks:
                if _is_all_masked(own, leaf):
                    return Invention(f"{self.name(position)} masks all of a row", remedy, position, is_mask=True)
        return None

    def _gives_numbers_otherwise(self, leaves: Sequence[Any], results: Results) -> bool:
        """Whether PyTorch gives numbers with other masks, in the outputs that differ and are NaN in part."""
        differing = [at for at, each in enumerate(results.comparisons) if not each.ok]
        for others in self.with_other_masks(leaves):
            try:
                given = self.run(others)
            except Exception:  # the model raises anything for masks that it does not take
                continue
            if not any(_has_nan(given[at]) for at in differing):
                return True
        return False


def _other_masks(masks: Sequence[tuple[int, torch.Tensor, torch.Tensor]]) -> Iterator[dict[int, torch.Tensor]]:
    """See `Example.with_other_masks`, by position."""
    if not masks:
        return
    if all(own.shape == leaf.shape for _, own, leaf in masks):
        yield {position: own for position, own, _ in masks}
    for pick in (torch.Tensor.amax, torch.Tensor.amin):
        yield {position: pick(_wide(own)).to(own.dtype).expand(leaf.shape).clone() for position, own, leaf in masks}


def _wide(mask: torch.Tensor) -> torch.Tensor:
    return mask if mask.is_floating_point() else mask.to(torch.int64)


def _is_mask(example: torch.Tensor) -> bool:
    if example.numel() < 2 or example.is_complex() or example.is_quantized:
        return False
    if example.dtype == torch.bool:
        return True
    if example.is_floating_point() and _has_infinity(example):
        return True
    return bool(((example == 0) | (example == 1)).all()) if not example.is_floating_point() else False


def _is_all_masked(example: torch.Tensor, mask: torch.Tensor) -> bool:
    """Whether a row of a mask has one value throughout, where the example's rows tell that this value masks."""
    drawn, given = _uniform_values(_rows(mask)), _uniform_values(_rows(example))
    return bool(drawn - given) and bool(given)


def _rows(mask: torch.Tensor) -> torch.Tensor:
    return mask.reshape(-1, mask.shape[-1]) if mask.dim() else mask.reshape(1, 1)


def _uniform_values(rows: torch.Tensor) -> set[float]:
    """The values that whole rows have."""
    is_uniform = (rows == rows[:, :1]).all(-1)
    return set(rows[is_uniform, 0].double().unique().tolist()) if rows.numel() else set()


def _differ_where(results: Results, holds: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> bool:
    """Whether all elements that differ are such that something holds for PyTorch's values and the file's."""
    for comparison, expected, actual in zip(results.comparisons, results.expected, results.actual, strict=True):
        if comparison.ok:
            continue
        right = torch.view_as_real(expected.resolve_conj()) if expected.is_complex() else expected
        if comparison.reason is not None or not right.is_floating_point():
            return False
        right, left = right.detach().cpu().double(), actual.double()
        is_such = holds(right, left) & ~((right == left) | (right.isnan() & left.isnan()))
        if int(is_such.sum()) != comparison.outside:
            return False
    return True


def _has_nan(tensor: torch.Tensor) -> bool:
    return (tensor.is_floating_point() or tensor.is_complex()) and bool(_computable(tensor).isnan().any())


def _has_infinity(tensor: torch.Tensor) -> bool:
    return (tensor.is_floating_point() or tensor.is_complex()) and bool(_computable(tensor).isinf().any())


def _computable(tensor: torch.Tensor) -> torch.Tensor:
    """Values in a dtype that torch has all operators for, unlike float8."""
    return tensor.float() if tensor.is_floating_point() and tensor.itemsize == 1 else tensor
