"""The calls of one signature: what a model is exported with that was called so."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, BinaryIO

import torch
from torch.utils import _pytree as pytree

from opbridge import pipeline
from opbridge.base.wording import counted
from opbridge.capture.named_leaves import parameters_of, placed
from opbridge.errors import UsageError
from opbridge.recording.calls import RecordedCall, described, numbers
from opbridge.recording.dimensions import Dimension, varying
from opbridge.verification.given_inputs import Call, Calls

if TYPE_CHECKING:
    from opbridge.plan.data import Plan
    from opbridge.program import Program

__all__ = ["CallGroup"]


class CallGroup:
    """The calls of one signature: the same inputs, of the same dtypes and ranks, with the same values beside tensors.

    `Recording.groups` holds them, in the order of their first calls.

    Attributes:
        numbers: The numbers of the calls, from 1 on.
    """

    def __init__(self, model: torch.nn.Module, signature: inspect.Signature, first: RecordedCall) -> None:
        """Args:
        model: The module.
        signature: The signature of its `forward`.
        first: The first call, with tensors that are not kept.
        """
        self._model, self._signature = model, signature
        self._names, self._structure = first.names, first.structure
        self._leaves = tuple(_without_values(leaf) for leaf in first.leaves)
        self._kept: list[RecordedCall] = []
        self._shapes: dict[tuple[Any, ...], None] = {}
        self.numbers: list[int] = []

    def takes(self, call: RecordedCall) -> bool:
        """Whether a call has this signature."""
        mine = RecordedCall((), {}, self._names, self._leaves, self._structure)
        return call.has_signature_of(mine)

    def add(self, call: RecordedCall, *, is_kept: bool) -> bool:
        """Adds a call.

        Args:
            call: The call.
            is_kept: Whether its tensors are copies and may be kept. They are where no call of these shapes was there
                before.

        Returns:
            Whether they are kept.
        """
        self.numbers.append(call.number)
        if call.shapes in self._shapes:
            return False
        self._shapes[call.shapes] = None
        if is_kept:
            self._kept.append(call)
        return is_kept

    def has_shapes(self, call: RecordedCall) -> bool:
        """Whether there was a call of these shapes."""
        return call.shapes in self._shapes

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional example inputs: those of one of the calls.

        Raises:
            UsageError: The inputs of none were kept.
        """
        return self._example.args

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword example inputs, of the same call."""
        return self._example.kwargs

    @property
    def dynamic_shapes(self) -> dict[str, Any] | None:
        """The dimensions that vary over the calls, by the model's parameters; None where none does."""
        named: dict[int, dict[int, str]] = {}
        for dimension in self.dimensions:
            for leaf, axis in dimension.places:
                named.setdefault(leaf, {})[axis] = dimension.name
        if not named:
            return None
        example = self._example
        leaves = iter(named.get(leaf) for leaf in range(len(self._leaves)))
        shapes: dict[str, Any] = {}
        parameters = parameters_of(self._signature, example.args, example.kwargs)
        for place, value in placed(example.args, example.kwargs):
            name, number = parameters[place]
            shape = _shape_tree(value, leaves)
            if number is not None:
                shapes[name] = (*shapes.get(name, ()), shape)
            elif shape is not None:
                shapes[name] = shape
        return shapes

    @property
    def dimensions(self) -> list[Dimension]:
        """The dimensions that vary over the calls, with their names and sizes."""
        return varying(self._names, self._leaves, list(self._shapes))

    @property
    def inputs(self) -> Calls:
        """The calls whose inputs were kept, but the example: the verification tries them beside fresh inputs."""
        example = self._example
        others = [each for each in self._kept if each is not example]
        return Calls(tuple(Call(f"call {each.number}", each.args, each.kwargs) for each in others))

    def subject(self) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        """The model, its example inputs, and the keywords of `opbridge.export`: what a factory returns."""
        keywords = {"kwargs": self.kwargs, "dynamic_shapes": self.dynamic_shapes, "inputs": self.inputs}
        return self._model, self.args, {name: value for name, value in keywords.items() if value}

    def check(self, **keywords: Any) -> Plan:
        """`opbridge.check` of the model with these inputs and dynamic dimensions; keywords take their place.

        Raises:
            CaptureError, UsageError: as `opbridge.check`.
        """
        model, args, own = self.subject()
        own.pop("inputs", None)
        return pipeline.check(model, args, **{**own, **keywords})

    def export(self, f: str | os.PathLike[str] | BinaryIO | None = None, **keywords: Any) -> Program:
        """`opbridge.export` of the model with these inputs and dynamic dimensions; keywords take their place.

        Verification runs the calls that were kept, and fresh inputs of their sizes and others.

        Raises:
            OpbridgeError: as `opbridge.export`.
        """
        model, args, own = self.subject()
        return pipeline.export(model, args, f, **{**own, **keywords})

    def describe(self) -> Iterator[str]:
        """Lines for a person: each input with its sizes, and dimensions that share a name by their sizes alone."""
        dimensions = self.dimensions
        at = {place: dimension for dimension in dimensions for place in dimension.places}
        yield f"{numbers(self.numbers)} ({counted(len(self._shapes), 'shape')})"
        for number, (name, leaf) in enumerate(zip(self._names, self._leaves, strict=True)):
            if not isinstance(leaf, torch.Tensor):
                yield f"  {name} = {described(leaf)}"
                continue
            sizes = [
                _range(at[number, axis]) if (number, axis) in at else str(size) for axis, size in enumerate(leaf.shape)
            ]
            yield f"  {name}: {str(leaf.dtype).removeprefix('torch.')} [{', '.join(sizes)}]"
        for dimension in dimensions:
            inside = [places for _, places in _by_leaf(dimension.places) if len(places) > 1]
            if inside:
                shown = " and ".join(f"{self._names[leaf]}.shape[{axis}]" for leaf, axis in inside[0])
                yield (
                    f"  {shown} were equal in all calls and share the dimension '{dimension.name}'; record a call "
                    "in which they differ to separate them"
                )

    def described_leaves(self) -> dict[str, str]:
        """What each input is, by its place, for messages about signatures."""
        return {name: described(leaf) for name, leaf in zip(self._names, self._leaves, strict=True)}

    @property
    def _example(self) -> RecordedCall:
        """The call that is the example: with few small and few equal sizes, and then the one with the fewest numbers.

        A size of 0 or 1, and sizes of two dimensions that happen to be equal, say less of a model than others.
        """
        if not self._kept:
            raise UsageError(
                f"The inputs of {numbers(self.numbers)} were not kept, because earlier calls had filled the limit "
                "keep=. Pass a larger keep= to record."
            )
        dimensions = self.dimensions

        def worth(call: RecordedCall) -> tuple[int, int, int]:
            sizes = [call.leaves[each.places[0][0]].shape[each.places[0][1]] for each in dimensions]
            small = sum(size < 2 for size in sizes)
            equal = sum(left == right for left, right in combinations(sizes, 2))
            return small, equal, sum(leaf.numel() for leaf in call.leaves if isinstance(leaf, torch.Tensor))

        return min(self._kept, key=worth)


def _without_values(leaf: Any) -> Any:
    """A tensor of the same dtype, shape and layout; anything else as it is."""
    if not isinstance(leaf, torch.Tensor):
        return leaf
    return torch.empty(leaf.shape, dtype=leaf.dtype, layout=leaf.layout, device="meta")


def _shape_tree(value: Any, leaves: Iterator[dict[int, str] | None]) -> Any:
    """The dynamic shape of an input in its structure, from those of its leaves; None where nothing is dynamic."""
    parts, structure = pytree.tree_flatten(value, is_leaf=lambda each: each is not value)
    if structure.is_leaf():
        return next(leaves)
    shapes = [_shape_tree(part, leaves) for part in parts]
    if all(shape is None for shape in shapes):
        return None
    if structure.type is dict:
        return dict(zip(value, shapes, strict=True))
    return tuple(shapes) if isinstance(value, tuple) else shapes


def _by_leaf(places: Sequence[tuple[int, int]]) -> list[tuple[int, list[tuple[int, int]]]]:
    found: dict[int, list[tuple[int, int]]] = {}
    for leaf, axis in places:
        found.setdefault(leaf, []).append((leaf, axis))
    return list(found.items())


def _range(dimension: Dimension) -> str:
    return f"{dimension.name}={min(dimension.sizes)}..{max(dimension.sizes)}"
