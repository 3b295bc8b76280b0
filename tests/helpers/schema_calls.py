"""Calls of operators that are made from their schemas."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from opbridge.base.torch_private import torch_operators
from opbridge.translations.catalogue import default_registry

__all__ = ["SchemaCall", "arguments_of_type", "translated_operators", "type_of"]

_INDEX = torch.tensor([[0, 2], [1, 0]])

_TENSORS: Mapping[str, Callable[[torch.dtype, torch.Generator], torch.Tensor]] = {
    "mask": lambda dtype, generator: numbers((3, 4), torch.bool, generator),
    "condition": lambda dtype, generator: numbers((3, 4), torch.bool, generator),
    "boundaries": lambda dtype, generator: numbers((6,), dtype, generator).sort()[0],
    "sorted_sequence": lambda dtype, generator: numbers((6,), dtype, generator).sort()[0],
    "source": lambda dtype, generator: numbers((2, 4), dtype, generator),
    "index": lambda dtype, generator: torch.tensor([2, 0]),
    "start": lambda dtype, generator: numbers((), dtype, generator),
    "end": lambda dtype, generator: numbers((), dtype, generator),
}

_SIZES: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "addbmm": {"self": (3, 5), "batch1": (2, 3, 4), "batch2": (2, 4, 5)},
    "baddbmm": {"self": (2, 3, 5), "batch1": (2, 3, 4), "batch2": (2, 4, 5)},
    "addmm": {"self": (3, 5), "mat1": (3, 4), "mat2": (4, 5)},
    "addmv": {"self": (3,), "mat": (3, 4), "vec": (4,)},
    "addr": {"self": (3, 4), "vec1": (3,), "vec2": (4,)},
    "lerp": {"end": (3, 4)},
}

_REQUIRED: Mapping[str, Any] = {
    "dim": 0,
    "keepdim": False,
    "dtype": torch.float64,
    "size": [2, 3],
    "pad": [1, 2],
    "steps": 5,
    "rounding_mode": "floor",
    "reduce": "multiply",
}


def numbers(shape: Sequence[int], dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Positive numbers that operators with a small domain take too."""
    if dtype == torch.bool:
        return torch.randint(0, 2, tuple(shape), generator=generator).bool()
    if not dtype.is_floating_point:
        return torch.randint(1, 6, tuple(shape), generator=generator).to(dtype)
    return (torch.rand(tuple(shape), generator=generator) * 3 + 0.1).to(dtype)


def type_of(argument: Any) -> str:
    """The type of an argument as it is written in its schema; a Scalar is `number`."""
    return str(getattr(argument, "real_type", argument.type))


def arguments_of_type(operator: str, *types: str) -> list[str]:
    """The names of an operator's arguments of some types."""
    schema = torch_operators.operator_object(operator)._schema
    return [argument.name for argument in schema.arguments if type_of(argument) in types]


def translated_operators() -> Iterator[str]:
    """The operators of PyTorch that have a translation for real tensors, and a schema."""
    for operator, entries in sorted(default_registry().all_entries().items()):
        schema = getattr(torch_operators.operator_object(operator), "_schema", None)
        if schema is not None and not all(entry.complex for entry in entries):
            yield operator


class SchemaCall:
    """A call of an operator on tensors that fit its schema, with arguments that can be replaced.

    Attributes:
        operator: The operator's name.
        dtype: The dtype of its tensors; masks and indices have their own.
    """

    def __init__(self, operator: str, dtype: torch.dtype) -> None:
        self.operator, self.dtype = operator, dtype
        self._target: Any = torch_operators.operator_object(operator)
        self._arguments = self._target._schema.arguments
        self._name = self._target._schema.name.partition("::")[2]
        self._fixed = {
            argument.name: [_REQUIRED["dim"]] if type_of(argument) == "List[int]" else _REQUIRED[argument.name]
            for argument in self._arguments
            if argument.name in _REQUIRED and not argument.has_default_value() and argument.name not in ("size", "pad")
        }
        self._fixed |= {a.name: _REQUIRED[a.name] for a in self._arguments if a.name in ("size", "pad")}

    def tensors(self, seed: int) -> dict[str, torch.Tensor]:
        """Tensors for the arguments that are tensors."""
        generator = torch.Generator().manual_seed(seed)
        return {
            argument.name: self._tensor(argument.name, generator)
            for argument in self._arguments
            if type_of(argument) == "Tensor"
        }

    def _tensor(self, name: str, generator: torch.Generator) -> torch.Tensor:
        if name == "index" and "scatter" in self._name:
            return _INDEX
        sizes = _SIZES.get(self._name, {}).get(name)
        if sizes is not None or name not in _TENSORS:
            return numbers(sizes or (3, 4), self.dtype, generator)
        return _TENSORS[name](self.dtype, generator)

    def __call__(self, tensors: Mapping[str, torch.Tensor], given: Mapping[str, Any]) -> Any:
        """Calls the operator.

        Args:
            tensors: What `tensors` gave.
            given: Further arguments by their names, which have precedence over the ones made up here.
        """
        values = {**self._fixed, **tensors, **given}
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for position, argument in enumerate(self._arguments):
            if argument.name not in values:
                continue
            if argument.kwarg_only or len(args) < position:
                kwargs[argument.name] = values[argument.name]
            else:
                args.append(values[argument.name])
        return self._target(*args, **kwargs)
