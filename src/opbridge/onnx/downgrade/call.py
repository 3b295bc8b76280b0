"""A call of an operator in the form of a later opset than the model's, and the table of what to do about it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from opbridge.errors import TranslationError

if TYPE_CHECKING:
    from opbridge.onnx.tensor import NodeBuilder, Tensor

__all__ = ["ENDLESS", "RULES", "Call", "Rule", "changed", "needs"]

ENDLESS = (1 << 63) - 1
"""The end of a slice that takes everything."""


def needs(what: str, opset: int, needed: int) -> NoReturn:
    """Refuses what a model's opset has no form for.

    Args:
        what: The operator, with what it is about the call.
        opset: The model's opset.
        needed: The first opset that has it.
    """
    raise TranslationError(
        f"{what} requires opset {needed}, but the model is built for opset {opset}. Export with "
        f"opset_version={needed} or newer."
    )


@dataclass
class Call:
    """A call to put in an older form.

    Attributes:
        builder: Builds the nodes.
        name: The operator.
        inputs: Its inputs, by the schema that the call is written for.
        attributes: Its attributes that are not at their default.
        changed: The opset in which the operator took the form that the call has.
    """

    builder: NodeBuilder
    name: str
    inputs: list[Tensor | None]
    attributes: dict[str, Any]
    changed: int

    @property
    def data(self) -> Tensor:
        """The first input."""
        first = self.inputs[0]
        assert first is not None
        return first

    def input(self, position: int) -> Tensor | None:
        """An input, or None where it is left out."""
        return self.inputs[position] if position < len(self.inputs) else None

    def known(self, position: int) -> np.ndarray | None:
        """The numbers of an input that is a constant; None where it is none, or left out."""
        value = self.input(position)
        return None if value is None or value.const_value is None else value.const_value.numpy()

    def integers(self, position: int, what: str) -> list[int] | None:
        """The numbers of an input, as an attribute takes them; None where it is left out.

        Raises:
            TranslationError: they are known only when the model runs.
        """
        if self.input(position) is None:
            return None
        numbers = self.known(position)
        if numbers is None:
            self.refuse(f"with {what} computed at run time")
        return [int(number) for number in numbers.ravel()]

    def sizes(self, value: Tensor) -> list[int | None] | None:
        """A value's sizes, None for each that is not known; None where not even their number is."""
        shape = value.shape
        return None if shape is None else [size if isinstance(size, int) else None for size in shape]

    def rank(self, value: Tensor) -> int:
        """The number of a value's dimensions.

        Raises:
            TranslationError: it is not known.
        """
        sizes = self.sizes(value)
        if sizes is None:
            self.refuse("of a tensor of unknown rank")
        return len(sizes)

    def size(self, value: Tensor, axis: int) -> int | Tensor:
        """A value's size along an axis that is counted from the front: an int, or where it is not known, a scalar."""
        sizes = self.sizes(value)
        known = sizes[axis] if sizes is not None else None
        return self.emit("Gather", self.emit("Shape", value), axis) if known is None else known

    def product(self, sizes: Sequence[int | Tensor]) -> int | Tensor:
        """The product of such sizes."""
        result: int | Tensor = math.prod(size for size in sizes if isinstance(size, int))
        for size in sizes:
            if not isinstance(size, int):
                result = self.emit("Mul", size, result)
        return result

    def emit(self, op_type: str, *inputs: Any, **attributes: Any) -> Tensor:
        """Another operator, in the form that translations are written in."""
        return self.builder.emit(op_type, inputs, attributes)

    def loop(self, count: int | Tensor, value: Tensor, turn: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """A value that has passed through a number of turns, and kept its type and shape.

        Args:
            count: The number of turns, as an int or a scalar.
            value: The value before the first turn.
            turn: Builds one turn, from its number, a scalar, and the value.
        """
        return self.builder.loop(count, value, turn)

    def older(self, *inputs: Any, **attributes: Any) -> tuple[Tensor, ...]:
        """The same operator, in the form that it had before it changed."""
        given = list(inputs)
        while given and given[-1] is None:
            given.pop()
        return self.builder.call(self.name, given, attributes, version=self.changed - 1)

    def unchanged(self, **attributes: Any) -> tuple[Tensor, ...]:
        """The same call in that form, with some of its attributes replaced."""
        return self.older(*self.inputs, **{**self.attributes, **attributes})

    def refuse(self, why: str) -> NoReturn:
        """There is no older form of the call.

        Args:
            why: What it is about the call, to follow the operator's name: "with a step".
        """
        needs(f"{self.name} {why}", self.builder.opset, self.changed)


Rule = Callable[[Call], Sequence["Tensor"]]

RULES: dict[str, dict[int, Rule]] = {}
"""By operator and opset in which it changed: how a call in the form of that opset is built in the form before it."""


def changed(opset: int, *names: str) -> Callable[[Rule], Rule]:
    """Registers what to do with calls of operators that changed, or came, in an opset."""

    def register(rule: Rule) -> Rule:
        for name in names:
            RULES.setdefault(name, {})[opset] = rule
        return rule

    return register
