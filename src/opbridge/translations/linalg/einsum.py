"""torch.einsum as transpositions and matrix products.

onnxruntime has an Einsum of its own, which copies more, is for four types only, and does not know an ellipsis that is
summed over.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

from onnxscript import opset18 as op

from opbridge.errors import TranslationError
from opbridge.translations.lib.dims import Dim, dims_of, product, shape_of
from opbridge.translations.lib.integer_reductions import reduce_sum
from opbridge.translations.lib.promotion import promote

__all__ = ["einsum"]


class _Operand:
    """A tensor whose dimensions have letters, and their sizes."""

    def __init__(self, value: Any, letters: Sequence[str], sizes: Sequence[Dim]) -> None:
        self.value = value
        self.letters = list(letters)
        self.sizes = dict(zip(letters, sizes, strict=True))

    def summed(self, letters: Sequence[str]) -> _Operand:
        """Summed over some of its dimensions."""
        if not letters:
            return self
        kept = [letter for letter in self.letters if letter not in letters]
        axes = [self.letters.index(letter) for letter in letters]
        return _Operand(reduce_sum(self.value, axes, keepdims=0), kept, [self.sizes[letter] for letter in kept])

    def without_ones(self, letters: Sequence[str]) -> _Operand:
        """Without dimensions that are known to be 1."""
        if not letters:
            return self
        kept = [letter for letter in self.letters if letter not in letters]
        axes = [self.letters.index(letter) for letter in letters]
        return _Operand(op.Squeeze(self.value, axes), kept, [self.sizes[letter] for letter in kept])

    def ordered(self, letters: Sequence[str]) -> Any:
        """The value with its dimensions in this order."""
        return op.Transpose(self.value, perm=[self.letters.index(letter) for letter in letters])


def einsum(equation: str, tensors: Sequence[Any]) -> Any:
    """Builds an einsum.

    Args:
        equation: As torch takes it.
        tensors: Values whose rank is known.

    Raises:
        TranslationError: an equation that does not fit the tensors.
    """
    terms, output = _parse(equation, [len(tensor.shape) for tensor in tensors])
    if len({tensor.dtype for tensor in tensors}) > 1:  # torch multiplies those, and sums what is of one type
        tensors = promote(*tensors)
    operands = [_without_repeats(tensor, letters) for tensor, letters in zip(tensors, terms, strict=True)]
    result = operands.pop(0)
    while operands:
        other = operands.pop(0)
        needed = {*output, *(letter for operand in operands for letter in operand.letters)}
        result = _contract(result, other, needed)
    result = result.summed([letter for letter in result.letters if letter not in output])
    value = result.ordered([letter for letter in output if letter in result.letters])
    # A letter of the output that was dropped is a dimension of size 1.
    missing = [axis for axis, letter in enumerate(output) if letter not in result.letters]
    return op.Unsqueeze(value, missing) if missing else value


def _parse(equation: str, ranks: Sequence[int]) -> tuple[list[list[str]], list[str]]:
    """The letters of each operand and of the output; those under an ellipsis are counted from the right."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    sources = left.split(",")
    if len(sources) != len(ranks):
        raise TranslationError(
            f"The equation '{equation}' has {len(sources)} terms, but {len(ranks)} tensors were given."
        )
    widths = [rank - len(source.replace("...", "")) for source, rank in zip(sources, ranks, strict=True)]
    widest = max([0, *(width for width, source in zip(widths, sources, strict=True) if "..." in source)])
    dots = [chr(ord("\U000f0000") + place) for place in reversed(range(widest))]

    def letters(text: str, width: int) -> list[str]:
        before, ellipsis, after = text.partition("...")
        return [*before, *(dots[len(dots) - width :] if ellipsis else ()), *after]

    terms = [letters(source, width) for source, width in zip(sources, widths, strict=True)]
    if arrow:
        return terms, letters(right, widest)
    seen = [letter for term in terms for letter in term if letter not in dots]
    order = string.ascii_uppercase + string.ascii_lowercase
    return terms, [*dots, *sorted({letter for letter in seen if seen.count(letter) == 1}, key=order.index)]


def _without_repeats(tensor: Any, letters: list[str]) -> _Operand:
    """An operand; a letter that it has twice stands for a diagonal."""
    sizes = dims_of(tensor)
    kept = list(dict.fromkeys(letters))
    if len(kept) < len(letters):
        names = {letter: string.ascii_letters[index] for index, letter in enumerate(kept)}
        source, target = ("".join(names[letter] for letter in group) for group in (letters, kept))
        tensor = op.Einsum(tensor, equation=f"{source}->{target}")
    return _Operand(tensor, kept, [sizes[letters.index(letter)] for letter in kept])


def _contract(left: _Operand, right: _Operand, needed: set[str]) -> _Operand:
    """The product of two operands, summed over what only they have."""
    left, right = _without_broadcast(left, right), _without_broadcast(right, left)
    left = left.summed([letter for letter in left.letters if letter not in right.letters and letter not in needed])
    right = right.summed([letter for letter in right.letters if letter not in left.letters and letter not in needed])
    shared = [letter for letter in left.letters if letter in right.letters]
    batch = [letter for letter in shared if letter in needed]
    inner = [letter for letter in shared if letter not in needed]
    rows = [letter for letter in left.letters if letter not in shared]
    columns = [letter for letter in right.letters if letter not in shared]
    letters = [*batch, *rows, *columns]
    sizes = [(left.sizes | right.sizes)[letter] for letter in letters]
    if not inner:
        first = left.ordered([*batch, *rows])
        second = right.ordered([*batch, *columns])
        if columns:
            first = op.Unsqueeze(first, list(range(len(batch) + len(rows), len(letters))))
        if rows and batch:
            second = op.Unsqueeze(second, list(range(len(batch), len(batch) + len(rows))))
        return _Operand(first * second, letters, sizes)
    if not rows and not columns:
        # Row by row: a product of matrices would be called for each.
        products = left.ordered([*batch, *inner]) * right.ordered([*batch, *inner])
        axes = list(range(len(batch), len(batch) + len(inner)))
        return _Operand(reduce_sum(products, axes, keepdims=0), letters, sizes)
    first = _as_matrices(left, batch, rows, inner)
    second = _as_matrices(right, batch, inner, columns)
    result = op.MatMul(first, second)
    if len(rows) != 1 or len(columns) != 1:
        result = op.Reshape(result, shape_of(sizes), allowzero=int(bool(sizes)))
    return _Operand(result, letters, sizes)


def _as_matrices(operand: _Operand, batch: list[str], first: list[str], second: list[str]) -> Any:
    """An operand as matrices: its letters in these three groups, the last two each made one dimension."""
    value = operand.ordered([*batch, *first, *second])
    if len(first) == 1 and len(second) == 1:
        return value
    kept = [operand.sizes[letter] for letter in batch]
    joined = [product(operand.sizes[letter] for letter in group) for group in (first, second)]
    return op.Reshape(value, shape_of([*kept, *joined]), allowzero=1)


def _without_broadcast(operand: _Operand, other: _Operand) -> _Operand:
    """Without the dimensions of size 1 that the other operand's size is meant to stand in for."""
    ones = [
        letter
        for letter in operand.letters
        if letter in other.letters and operand.sizes[letter] == 1 and other.sizes[letter] != 1
    ]
    return operand.without_ones(ones)
