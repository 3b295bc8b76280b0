"""Dynamic shapes: converts every form that torch.export accepts, and two more, to one.

The other two are "auto", which leaves every dimension of every tensor to torch, and names in place of dimensions, as
torch.onnx accepts them: `{"x": {0: "batch"}}`.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.export import AdditionalInputs, Dim, ExportedProgram, ShapesCollection
from torch.utils import _pytree as pytree

from opbridge.base.torch_private import capabilities, torch_dynamic_shapes
from opbridge.base.wording import counted
from opbridge.capture import shape_forms
from opbridge.capture.derived_sizes import DerivedSize, is_sum, names_in
from opbridge.errors import UsageError
from opbridge.graph.captured_graph import AskedDimension
from opbridge.model_support import caches

__all__ = ["Axis", "Shapes", "asked_dimensions", "resolve"]


@dataclass(frozen=True)
class Axis:
    """One dimension of one tensor that the user made dynamic.

    Attributes:
        place: The dimension as a Python expression: `x.shape[0]`.
        name: The user's name for it, if there is one: "batch", "2*batch".
        size: Its size in the example.
        low: The smallest size that the user allows, if given.
        high: The largest size that the user allows, if given.
        checked: Whether a model that takes fewer sizes is an error, as for a Dim and for Dim.DYNAMIC with a range.
        automatic: Whether the dimension may be fixed where the model needs it, as for Dim.AUTO.
        derived: How its size is computed from those of other dimensions, where it is.
        is_fixed: Whether the dimension has this size in a capture that is made to see what the model does with it.
        may_be_empty: Whether a size of zero is to be tried: the length of a cache.
    """

    place: str
    name: str | None
    size: int
    low: int | None = None
    high: int | None = None
    checked: bool = False
    automatic: bool = False
    derived: DerivedSize | None = None
    is_fixed: bool = False
    may_be_empty: bool = False

    @property
    def root(self) -> str | None:
        """The name of the dimension that it is computed from, "batch"; its own where it is computed from none."""
        return self.name if self.derived is None else self.derived.root

    @property
    def terms(self) -> tuple[str, ...]:
        """The names of the dimensions that it is computed from, where these may be several: "past + sequence"."""
        return () if self.derived is None else self.derived.terms

    def with_terms(self, sizes: Mapping[str | None, int]) -> Axis:
        """The same dimension, of the size that its terms give by their names; itself where it has none."""
        if self.derived is None or not self.derived.terms:
            return self
        return dataclasses.replace(self, size=self.derived.compute({term: sizes[term] for term in self.derived.terms}))


@dataclass(frozen=True)
class Shapes:
    """Dynamic shapes in the form that torch.export accepts.

    Attributes:
        given: For torch.export's `dynamic_shapes`.
        relaxed: The same with Dim.AUTO for every dynamic dimension, to find the conditions of the model.
        axes: The dynamic dimensions, by the identity of the tensor and the dimension's number.
        numbers: The ints among the inputs that are inputs of the graph, as Python expressions.
        needs_torch_export: Whether only torch.export takes them.
        verify: Called with the exported program; raises where it is not valid for the user's additional inputs.
    """

    given: Any = None
    relaxed: Any = None
    axes: dict[tuple[int, int], Axis] = field(default_factory=dict)
    numbers: frozenset[str] = frozenset()
    needs_torch_export: bool = False
    verify: Callable[[ExportedProgram], None] | None = None

    @property
    def has_small_sizes(self) -> bool:
        """Whether the example has a dynamic dimension of size 0 or 1, which torch may specialise."""
        return any(axis.size < 2 for axis in self.axes.values())


def asked_dimensions(shapes: Shapes, leaves: Sequence[Any]) -> Iterator[AskedDimension]:
    """Each dimension that the user made dynamic, with the number of its input among the leaves of `(args, kwargs)`."""
    for number, leaf in enumerate(leaves):
        for (tensor, index), axis in shapes.axes.items():
            if tensor == id(leaf):
                name = axis.name if axis.derived is None else None
                yield AskedDimension(number, index, axis.place, name, axis.automatic, axis.checked, axis.may_be_empty)


def resolve(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any) -> Shapes:
    """Converts the dynamic shapes that a user gave to one form.

    1. "auto" asks for all dimensions, "batch" for the first of each tensor; a dict of dimensions alone is for every
       tensor that has them. A ShapesCollection and AdditionalInputs are made into the form by name.
    2. A tuple or list goes by the order of the parameters. Parameters that a dict leaves out are static, and what it
       says of a keyword may stand at its top.
    3. Shapes of containers and of `*args` may stand in the forms of `shape_forms`.
    4. A name becomes Dim.DYNAMIC, None becomes Dim.STATIC, and a negative dimension counts from the end. A set of
       dimensions makes these dynamic.
    5. What the ONNX file calls a tensor, as `batch_ids_0` of `batch["ids"][0]`, may stand for the tensor.
    6. A name that is a sum or product of other names, "past_sequence + sequence", is always of that size; one that
       is computed from a name that no dimension has, "8*h", is of such a size.

    Raises:
        UsageError: Shapes that do not fit the inputs.
    """
    if dynamic_shapes is None:
        return Shapes()
    if torch_dynamic_shapes.is_shapes_spec(dynamic_shapes):
        if not capabilities.exports_shapes_specs.present:
            raise UsageError(
                f"torch.export of PyTorch {torch.__version__} does not support {type(dynamic_shapes).__name__}."
            )
        return Shapes(dynamic_shapes, needs_torch_export=True)
    arguments = inspect.signature(module.forward).bind(*args, **kwargs).arguments
    verify = None
    if isinstance(dynamic_shapes, str) and dynamic_shapes == "batch":
        dynamic_shapes = {0: "batch"}
    if isinstance(dynamic_shapes, Mapping):
        dynamic_shapes = _for_each_tensor(dynamic_shapes, arguments)
    if isinstance(dynamic_shapes, str) and dynamic_shapes == "auto":
        dynamic_shapes = ShapesCollection()
        for leaf in pytree.tree_leaves((args, kwargs)):
            if isinstance(leaf, torch.Tensor):
                dynamic_shapes[leaf] = dict.fromkeys(range(leaf.dim()), Dim.AUTO)
    if isinstance(dynamic_shapes, ShapesCollection | AdditionalInputs):
        if isinstance(dynamic_shapes, AdditionalInputs):
            verify = dynamic_shapes.verify
        try:
            dynamic_shapes = dynamic_shapes.dynamic_shapes(module, args, kwargs)
        except (ValueError, TypeError, AssertionError) as error:
            raise UsageError(f"dynamic_shapes does not match the inputs: {_first_sentence(error)}.") from error
    static = ShapesCollection().dynamic_shapes(module, args, kwargs)
    parameters = inspect.signature(module.forward).parameters.values()
    gathered = next((each.name for each in parameters if each.kind is each.VAR_KEYWORD), None)
    if isinstance(dynamic_shapes, tuple | list):
        dynamic_shapes = shape_forms.by_parameter(dynamic_shapes, arguments, parameters)
    if isinstance(dynamic_shapes, Mapping):
        dynamic_shapes = shape_forms.by_tensor(dynamic_shapes, module, args, kwargs, static)
    shapes = _by_name(dynamic_shapes, static, gathered if gathered in arguments else None)
    shapes = {name: shape_forms.like(name, arguments[name], shape) for name, shape in shapes.items()}
    reader = _Reader(arguments)
    plain = _without_caches(dict(arguments))
    try:
        given = torch_dynamic_shapes.map_shapes(reader.read, plain, shapes)
        relaxed = torch_dynamic_shapes.map_shapes(reader.relax, plain, given)
    except ValueError as error:
        raise UsageError(f"dynamic_shapes does not match the inputs: {_first_sentence(error)}.") from error
    reader.relate()
    return Shapes(given, relaxed, reader.axes, frozenset(reader.numbers), verify is not None, verify)


def _for_each_tensor(shapes: Mapping[Any, Any], arguments: Mapping[str, Any]) -> Mapping[Any, Any]:
    """The dynamic shapes by name where a dict of dimensions stands for every tensor; else what is given.

    Raises:
        UsageError: No tensor has one of the dimensions.
    """
    if not shapes or not all(type(key) is int for key in shapes):
        return shapes
    left = set(shapes)

    def shape(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return None
        found = {index: dim for index, dim in shapes.items() if -leaf.dim() <= index < leaf.dim()}
        left.difference_update(found)
        return found or None

    given: Mapping[Any, Any] = pytree.tree_map(shape, dict(arguments))
    if left:
        raise UsageError(f"dynamic_shapes names dimension {min(left)}, which no input has.")
    return given


def _by_name(shapes: Any, static: dict[str, Any], gathered: str | None) -> dict[str, Any]:
    """The shapes by name, in the structure of the inputs; `gathered` is the `**kwargs` parameter."""
    names = ", ".join(static)
    if isinstance(shapes, tuple | list):
        if len(shapes) != len(static):
            raise UsageError(
                f"dynamic_shapes has {len(shapes)} {'entry' if len(shapes) == 1 else 'entries'}, but the model has "
                f"{counted(len(static), 'input')} ({names}). Give one entry for each input (None for an input "
                "without dynamic dimensions), or a dict by name."
            )
        shapes = dict(zip(static, shapes, strict=True))
    if not isinstance(shapes, Mapping):
        raise UsageError(
            f"dynamic_shapes is {_kind(shapes)}. Expected a dict by input name such as "
            f"{{{names.partition(',')[0]!r}: {{0: 'batch'}}}}, a tuple in the order of the inputs, 'batch' or "
            "'auto'."
        )
    inner: dict[str, Any] = static[gathered] if gathered and not isinstance(shapes.get(gathered), Mapping) else {}
    known = {**static, **inner}
    unknown = [name for name, shape in shapes.items() if name not in known and shape is not None]
    if unknown:
        known = {name: None for name in known if not inner or name != gathered}
        raise UsageError(
            f"dynamic_shapes names {', '.join(map(repr, unknown))}, which is not an input of the model; the inputs "
            f"are {', '.join(known)}."
        )
    found = {name: static[name] if shapes.get(name) is None else shapes[name] for name in static}
    if inner and gathered:
        found[gathered] = {name: inner[name] if shapes.get(name) is None else shapes[name] for name in inner}
    return found


def _without_caches(value: Any) -> Any:
    """The inputs with a list of its tensors in the place of each cache, as dynamic shapes have it."""
    if caches.is_cache(value):
        return [tensor for _, tensor in caches.parts(value)]
    # Other containers stay as they are: making one anew may make other tensors.
    if type(value) is dict:
        return {key: _without_caches(each) for key, each in value.items()}
    return type(value)(map(_without_caches, value)) if type(value) in (list, tuple) else value


class _Reader:
    """Reads the dynamic shape of each tensor, and collects the axes by dimension.

    Args:
        arguments: The inputs, by the parameter of `forward`.
    """

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.axes: dict[tuple[int, int], Axis] = {}
        self.numbers: set[str] = set()
        self._named: dict[str, Axis] = {}
        paths, _ = pytree.tree_flatten_with_path(dict(arguments))
        self._parts = {
            id(leaf): (part, f"{path[0].key}{pytree.keystr(path[1:])}")
            for path, leaf in paths
            if (part := caches.part_of(path)) is not None
        }

    def relate(self) -> None:
        """Finds the dimensions whose names are sums and products of others' names, or multiples of one of their own.

        Raises:
            UsageError: The sizes of the example are others.
        """
        roots: dict[str, tuple[int, Axis]] = {}
        for key, axis in self.axes.items():
            text = axis.name
            if text is None or axis.derived is not None or not is_sum(text):
                continue
            terms = names_in(text)
            if len(terms) == 1 and terms[0] not in self._named:
                self.axes[key] = _multiple(axis, terms[0], roots)
                continue
            if not all(term in self._named for term in terms):
                continue
            derived = DerivedSize.of_terms(text, terms)
            expected = derived.compute({term: self._named[term].size for term in terms})
            if expected != axis.size:
                raise UsageError(
                    f"dynamic_shapes says that {axis.place} is {text}, which is {expected} in the example inputs, "
                    f"but its size there is {axis.size}. Give example inputs in which they are equal, or a "
                    "different name."
                )
            self.axes[key] = dataclasses.replace(axis, derived=derived)

    def read(self, place: str, leaf: Any, shape: Any) -> Any:
        if shape is None:
            return None
        place = self._parts[id(leaf)][1] if id(leaf) in self._parts else place
        if not isinstance(leaf, torch.Tensor):
            if type(leaf) is int and torch_dynamic_shapes.hint_kind(shape) is not None:
                if torch_dynamic_shapes.hint_kind(shape) != "STATIC":
                    self.numbers.add(place)
                return shape
            raise UsageError(
                f"dynamic_shapes has {shape!r} for {place}, which is {_kind(leaf)}. Expected None, or Dim.DYNAMIC "
                "to make an int an input."
            )
        if isinstance(shape, Set):
            shape = dict.fromkeys(shape, Dim.DYNAMIC)
        if isinstance(shape, tuple | list):
            if len(shape) != leaf.dim():
                raise UsageError(
                    f"dynamic_shapes has {counted(len(shape), 'element')} for {place}, which has {leaf.dim()} "
                    f"dimensions ({tuple(leaf.shape)})."
                )
            shape = dict(enumerate(shape))
        if not isinstance(shape, Mapping):
            raise UsageError(
                f"dynamic_shapes has {shape!r} for {place}; expected a dict such as {{0: 'batch'}}, or a tuple."
            )
        return dict(self._dimension(place, leaf, *item) for item in shape.items())

    @staticmethod
    def relax(place: str, leaf: Any, shape: Any) -> Any:
        """The same shape with Dim.AUTO for each dynamic dimension."""
        if not isinstance(shape, Mapping):
            return shape
        return {
            index: dim if isinstance(dim, int) or torch_dynamic_shapes.hint_kind(dim) == "STATIC" else Dim.AUTO
            for index, dim in shape.items()
        }

    def _dimension(self, place: str, leaf: torch.Tensor, index: Any, dim: Any) -> tuple[int, Any]:
        if type(index) is not int or not -leaf.dim() <= index < leaf.dim():
            raise UsageError(f"dynamic_shapes names dimension {index!r} of {place}, which has {leaf.dim()} dimensions.")
        index %= leaf.dim()
        place, size = f"{place}.shape[{index}]", leaf.shape[index]
        if dim is None:
            return index, Dim.STATIC
        if type(dim) is int:
            if dim != size:
                raise UsageError(
                    f"dynamic_shapes fixes {place} to {dim}, but its size in the example inputs is {size}."
                )
            return index, dim
        if isinstance(dim, str) and dim:
            axis, dim = Axis(place, dim, size), Dim.DYNAMIC
        elif isinstance(dim, Dim):
            axis = Axis(place, dim.__name__, size, int(dim.min), _finite(dim.max), checked=True, derived=_derived(dim))
        elif (kind := torch_dynamic_shapes.hint_kind(dim)) is not None:
            if kind == "STATIC":
                return index, dim
            ranged = dim.min is not None or dim.max is not None
            automatic = kind == "AUTO"
            axis = Axis(place, None, size, dim.min, dim.max, checked=ranged and not automatic, automatic=automatic)
        else:
            raise UsageError(
                f"dynamic_shapes has {dim!r} for {place}; expected a name, a Dim, Dim.AUTO, an int or None."
            )
        if size < (axis.low or 0) or (axis.high is not None and size > axis.high):
            raise UsageError(
                f"{place} is {size} in the example inputs, which is outside of its range in dynamic_shapes "
                f"({dim!r}). Widen the range, or give example inputs within it."
            )
        part = self._parts[id(leaf)][0] if id(leaf) in self._parts else None
        if part is not None and part.grows == index and (axis.low or 0) == 0:
            axis = dataclasses.replace(axis, may_be_empty=part.group != "encoder")
        if axis.name is not None:
            first = self._named.setdefault(axis.name, axis)
            if first.size != size:
                raise UsageError(
                    f"dynamic_shapes names both {first.place} and {place} '{axis.name}', but in the example inputs "
                    f"their sizes are {first.size} and {size}. Give them different names, or example inputs in "
                    "which they are equal."
                )
        self.axes[id(leaf), index] = axis
        return index, dim


def _multiple(axis: Axis, root: str, roots: dict[str, tuple[int, Axis]]) -> Axis:
    """A dimension whose name computes it from one that no input has: "8*h".

    Args:
        axis: The dimension.
        root: The name of the other one.
        roots: Its value in the example for each name so far, with the dimension that it is from.

    Raises:
        UsageError: The size in the example is no such number, or another dimension gives another value.
    """
    computed = DerivedSize.of_root(str(axis.name), root)
    derived = dataclasses.replace(axis, derived=computed)
    value = computed.root_example(axis.size)
    if value is None:
        raise UsageError(
            f"dynamic_shapes says that {axis.place} is {axis.name}, but its size in the example inputs is {axis.size}, "
            f"for which there is no integer {root}. Give an example input of another size, or a different name."
        )
    first, other = roots.setdefault(root, (value, derived))
    if first != value:
        raise UsageError(
            f"dynamic_shapes says that {other.place} is {other.name} and {axis.place} is {axis.name}, but in the "
            f"example inputs {root} is {first} for the first and {value} for the second. Use different names, or "
            "example inputs in which they are equal."
        )
    return derived


def _derived(dim: Any) -> DerivedSize | None:
    """How a Dim is computed from another one; None where it is not."""
    root = getattr(dim, "root", dim)
    return None if root is dim else DerivedSize(dim.fn, root.__name__, (int(root.min), _finite(root.max)))


def _finite(bound: Any) -> int | None:
    try:
        return int(bound)
    except (TypeError, ValueError, OverflowError, AttributeError):
        return None


def _kind(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def _first_sentence(error: BaseException) -> str:
    return " ".join(str(error).partition("\n")[0].partition(" For more information")[0].split()).rstrip(".")
