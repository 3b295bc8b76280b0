"""What a value of Python's holds, as something that can be compared, and the values of the graph in it."""

from __future__ import annotations

import functools
import types
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import torch

from opbridge.base.python_private.attributes import attributes, is_of_python
from opbridge.base.torch_private import torch_sizes
from opbridge.base.torch_private.torch_decisions import attributes_of, symbols_of
from opbridge.capture.control_flow.program_points import is_the_models
from opbridge.capture.tracer.symbolic_list import is_list

__all__ = ["StateFingerprint", "identities_of", "layouts_of"]

_SIMPLE = (
    int,
    float,
    complex,
    bool,
    str,
    bytes,
    type(None),
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
    type,
    types.ModuleType,
)
_MOST_DEEP = 8

_OF_OWNER = (types.BuiltinFunctionType, types.MethodWrapperType)
_DESCRIPTORS = (
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
)
_ITERATORS = (
    *map(type, (iter([]), iter(()), iter(range(0)), reversed([]), iter(""), iter({}), iter({}.values()))),
    type(iter({}.items())),
    enumerate,
    zip,
    map,
    filter,
)
"""Iterators that say by `__reduce__` what they go over, and where they are."""


class StateFingerprint:
    """Reads values.

    Args:
        is_known: Whether a tensor is one of the graph.
        elements: Gives the elements of a list or a tuple that count.
        carried: Numbers that are read from tensors which a loop carries, each with its tensor, by their identity.

    Attributes:
        leaves: The values of the graph in what has been read: tensors and symbolic integers.
        is_opaque: Whether there was something that holds more than can be read.
    """

    def __init__(
        self,
        is_known: Callable[[Any], bool],
        elements: Callable[[Sequence[Any]], Sequence[Any]],
        carried: Mapping[int, tuple[Any, torch.Tensor]],
    ) -> None:
        self._is_known, self._elements, self._carried = is_known, elements, carried
        self._seen: dict[int, int] = {}
        self._alive: list[Any] = []
        self.leaves: list[Any] = []
        self.is_opaque = False

    def of(self, value: Any, depth: int = 0) -> Hashable:
        """What is comparable of a value."""
        if isinstance(value, _SIMPLE):
            return type(value), repr(value) if isinstance(value, (float, complex)) else value
        if isinstance(value, torch.SymInt):
            return self._leaf(value, "SymInt")
        if isinstance(value, torch.SymFloat) and id(value) in self._carried:
            return self._leaf(self._carried[id(value)][1], "SymFloat")
        if isinstance(value, (torch.SymFloat, torch.SymBool)):
            return "number", type(value), torch_sizes.text_of(value)
        if isinstance(value, torch.Tensor):
            if not self._is_known(value):
                return "constant", id(value)
            own = tuple((name, self.of(held, depth + 1)) for name, held in attributes_of(value).items())
            return self._leaf(value, (value.dtype, value.dim(), value.requires_grad, own))
        if isinstance(value, torch.nn.Module):
            return "module", id(value)
        if isinstance(value, _DESCRIPTORS):
            return "descriptor", id(value)
        if id(value) in self._seen:
            return "again", self._seen[id(value)]
        self._seen[id(value)] = len(self._seen)
        self._alive.append(value)
        if depth >= _MOST_DEEP:
            self.is_opaque = True
            return "deep", type(value)
        return type(value), self._inside(value, depth + 1)

    def _leaf(self, value: Any, kind: Hashable) -> Hashable:
        self.leaves.append(value)
        return "value", kind

    def _inside(self, value: Any, depth: int) -> Hashable:
        if isinstance(value, types.MethodType):
            return self._all((value.__func__, value.__self__), depth)
        if isinstance(value, types.FunctionType):
            cells = [cell.cell_contents for cell in value.__closure__ or () if cell != types.CellType()]
            given = (value.__defaults__, value.__kwdefaults__, vars(value))
            return value.__code__, self._all(cells, depth), self._all(given, depth)
        if isinstance(value, _OF_OWNER):
            return value.__name__, self.of(value.__self__, depth)
        if type(value) is super:
            bound: Any = value
            return self._all((bound.__thisclass__, bound.__self__), depth)
        if isinstance(value, functools.partial):
            return self._all((value.func, value.args, value.keywords, vars(value)), depth)
        if isinstance(value, (range, slice)):
            return self._all((value.start, value.stop, value.step), depth)
        if isinstance(value, (torch.finfo, torch.iinfo)):
            return str(value)
        if isinstance(value, _ITERATORS):
            return self._all(value.__reduce__()[1:], depth)
        if isinstance(value, types.GeneratorType) and value.gi_running and value.gi_frame is not None:
            if is_the_models(value.gi_frame):  # which is another frame that is read
                return value.gi_code
        if isinstance(value, BaseException):
            return self._all((value.args, vars(value)), depth)
        return self._held(value, depth)

    def _held(self, value: Any, depth: int) -> Hashable:
        """What a container or an object holds."""
        own = dict(attributes(value))
        elements: Hashable = None
        if isinstance(value, Mapping):
            items = list(value.items())
            elements = tuple((self.of(key, depth), self.of(item, depth)) for key, item in items)
            own = {name: held for name, held in own.items() if not any(held is item for _, item in items)}
        elif isinstance(value, (list, tuple, deque)):
            is_plain = is_list(value) or type(value) is tuple
            elements = self._all(self._elements(value) if is_plain else value, depth)
        elif isinstance(value, (set, frozenset)):
            if all(isinstance(each, _SIMPLE) for each in value):
                elements = frozenset(self.of(each) for each in value)
            else:
                self.is_opaque, elements = True, len(value)
        elif any(base is not object and not is_of_python(base) for base in type(value).__mro__):
            self.is_opaque = True
        return elements, tuple((name, self.of(held, depth)) for name, held in own.items())

    def _all(self, values: Iterable[Any], depth: int) -> Hashable:
        return tuple(self.of(each, depth) for each in values)


def identities_of(leaves: Iterable[Any]) -> tuple[int, ...]:
    """Which values of the graph are one object: for each tensor, the first that it is."""
    first: dict[int, int] = {}
    return tuple(first.setdefault(id(leaf), len(first)) for leaf in leaves if isinstance(leaf, torch.Tensor))


def layouts_of(leaves: Iterable[Any], *, sharing: bool = True) -> Hashable:
    """How values of the graph lie in memory, as far as that is known.

    Args:
        leaves: The values.
        sharing: Whether it counts which of them are the same, or share memory.
    """
    found: list[Hashable] = []
    values: dict[int, int] = {}
    shared: dict[int, int] = {}
    for index, leaf in enumerate(leaves):
        if not isinstance(leaf, torch.Tensor):
            continue
        same = values.setdefault(id(leaf), index) if sharing else 0
        if leaf.layout is not torch.strided:
            found.append(same)
            continue
        storage = shared.setdefault(leaf.untyped_storage()._cdata, index) if sharing else 0
        found.append((same, storage, tuple(None if symbols_of(each) else int(each) for each in leaf.stride())))
    return tuple(found)
