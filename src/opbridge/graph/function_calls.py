"""Calls of torch.autograd.Function that stay one operator in the capture.

They are nodes `opbridge::function(Tensor[] tensors, SymInt[] sizes, int call) -> Tensor[]`, or its overload `single`,
which returns one tensor; `call` is the number of the `FunctionCall` with the other arguments. In the plan and in
metadata, the name of such a node is `python::<name of the class>`. `opbridge.symbolics.autograd_functions` says which
classes these are.
"""

from __future__ import annotations

import functools
import itertools
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Node
from torch.utils import _pytree as pytree

__all__ = ["FunctionCall", "OutputRecord", "Placeholder", "call_of", "run_as_operator"]


@dataclass(frozen=True)
class OutputRecord:
    """One output of a call in the example; `shape` is None where the output is no tensor."""

    shape: tuple[int, ...] | None
    dtype: torch.dtype | None = None
    value: Any = None


@dataclass(eq=False)
class FunctionCall:
    """One call of a class of torch.autograd.Function.

    Attributes:
        cls: The class.
        args: The arguments of `forward` after ctx, with `Placeholder`s for tensors and symbolic sizes.
        outputs: What `forward` returned on the example.
        single: Whether it returned one value rather than a tuple.
        handler: The symbolic function of `prim::PythonOp`, where the class has no `symbolic`.
        traced: TorchScript's node of the call, which `handler` gets as `g.original_node`; its graph, which owns it.
        infer: Returns the shapes of the outputs for fake inputs; None: they are those in `outputs`.
        number: The number that identifies it in the graph.
    """

    cls: type[Any]
    args: tuple[Any, ...]
    outputs: tuple[OutputRecord, ...]
    single: bool
    handler: Callable[..., Any] | None = None
    traced: tuple[Any, Any] | None = None
    infer: Callable[[Sequence[torch.Tensor], Sequence[Any]], Sequence[Sequence[Any]]] | None = None
    number: int = field(default_factory=itertools.count().__next__)

    def __post_init__(self) -> None:
        _define()
        with _lock:
            _calls[self.number] = self

    @property
    def name(self) -> str:
        """The name of its operator."""
        return f"python::{self.cls.__name__}"

    def arguments(self, tensors: Sequence[Any], sizes: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments of `forward`, or of `symbolic`, with these tensors and sizes for the placeholders."""
        if not any(isinstance(each, (list, tuple, dict)) for each in self.args):
            return tuple(each.select(tensors, sizes) if isinstance(each, Placeholder) else each for each in self.args)
        return tuple(pytree.tree_map_only(Placeholder, lambda place: place.select(tensors, sizes), list(self.args)))

    def keywords(self) -> dict[str, Any]:
        """The keyword arguments of a handler of `prim::PythonOp`: the class's name, and the attributes of its node."""
        found: dict[str, Any] = {"name": self.cls.__name__}
        if self.traced is not None:
            node = self.traced[0]
            found.update({key: getattr(node, node.kindOf(key))(key) for key in node.attributeNames()})
        return found

    def apply(self, tensors: Sequence[torch.Tensor], sizes: Sequence[Any]) -> list[torch.Tensor]:
        """Runs the class on data."""
        returned = self.cls.apply(*self.arguments(tensors, sizes))
        values = [returned] if self.single else list(returned)
        # An operator may not return its argument.
        return [value.clone() for value in values if isinstance(value, torch.Tensor)]


@dataclass(frozen=True)
class Placeholder:
    """The place of a tensor or a symbolic size in the arguments of a call."""

    is_tensor: bool
    index: int

    def select(self, tensors: Sequence[Any], sizes: Sequence[Any]) -> Any:
        """The tensor or size for this place."""
        return (tensors if self.is_tensor else sizes)[self.index]


_lock = threading.Lock()


_calls: weakref.WeakValueDictionary[int, FunctionCall] = weakref.WeakValueDictionary()


def call_of(node: Node) -> FunctionCall | None:
    """The call that a node of the capture stands for, or None where it is another operator."""
    if getattr(node.target, "namespace", None) != "opbridge":
        return None
    number: Any = node.args[2]
    return _calls[number]


@functools.cache
def _define() -> Any:
    """Defines the operator. The library object has to live as long as the operator."""
    library = torch.library.Library("opbridge", "FRAGMENT")
    # The overload for calls with one result, which are the most frequent, saves a getitem node for each.
    for name, run, fake, returns in (
        ("function", _run, _fake, "Tensor[]"),
        ("function.single", _run_single, _fake_single, "Tensor"),
    ):
        library.define(f"{name}(Tensor[] tensors, SymInt[] sizes, int call) -> {returns}")
        library.impl(name, run, "CompositeExplicitAutograd")
        torch.library.register_fake(f"opbridge::{name}", fake, lib=library)
    return library


def run_as_operator(call: FunctionCall, tensors: Sequence[torch.Tensor], sizes: Sequence[Any]) -> list[torch.Tensor]:
    """Calls the operator that stands for a call."""
    _define()
    packet = torch.ops.opbridge.function
    if sum(record.shape is not None for record in call.outputs) == 1:
        return [packet.single(tensors, sizes, call.number)]
    return packet.default(tensors, sizes, call.number)


def _run(tensors: Sequence[torch.Tensor], sizes: Sequence[int], call: int) -> list[torch.Tensor]:
    return _calls[call].apply(tensors, sizes)


def _run_single(tensors: Sequence[torch.Tensor], sizes: Sequence[int], call: int) -> torch.Tensor:
    return _run(tensors, sizes, call)[0]


def _fake_single(tensors: Sequence[torch.Tensor], sizes: Sequence[Any], call: int) -> torch.Tensor:
    return _fake(tensors, sizes, call)[0]


def _fake(tensors: Sequence[torch.Tensor], sizes: Sequence[Any], call: int) -> list[torch.Tensor]:
    known = _calls[call]
    records = [record for record in known.outputs if record.shape is not None]
    shapes = known.infer(tensors, sizes) if known.infer is not None else [record.shape for record in records]
    device = tensors[0].device if tensors else torch.device("cpu")
    return [
        torch.empty(list(shape or ()), dtype=record.dtype, device=device)
        for shape, record in zip(shapes, records, strict=True)
    ]
