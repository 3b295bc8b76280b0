"""Dynamic shapes: every form that torch.export takes and two more, brought into one; and what became of them.

The two more are "auto" for the whole, which leaves every dimension of every tensor to torch, and names in place of
dimensions, as torch.onnx takes them: `{"x": {0: "batch"}}`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.export import AdditionalInputs, Dim, ExportedProgram, ShapesCollection
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

from opbridge import _torch
from opbridge.errors import UsageError
from opbridge.sources import Source, innermost

__all__ = ["Axis", "Shapes", "conditions", "dim_names", "narrow_ranges", "resolve"]

# Sizes on which a condition is tried: one that holds for all of them says nothing worth telling.
_TRIED = (1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 31, 64, 100, 1000, 4096, 1_000_003)


@dataclass(frozen=True)
class Axis:
    """What the user asked of one dimension of one tensor.

    Attributes:
        place: The dimension, as a person would write it: `x.shape[0]`.
        name: What the user called it, if anything; for `2 * batch` it is "batch".
        size: Its size in the example.
        low: The least size that the user allows, if any.
        high: The greatest size that the user allows, if any.
    """

    place: str
    name: str | None
    size: int
    low: int | None = None
    high: int | None = None


@dataclass(frozen=True)
class Shapes:
    """Dynamic shapes in the form that torch.export takes.

    Attributes:
        given: For torch.export's `dynamic_shapes`.
        relaxed: The same with every dynamic dimension left to torch, to find out what the model makes of it.
        axes: The dynamic dimensions, by the identity of the tensor and the dimension's number.
        verify: Called with the program when it is there; raises where it does not fit the inputs that the user added.
    """

    given: Any = None
    relaxed: Any = None
    axes: dict[tuple[int, int], Axis] = field(default_factory=dict)
    verify: Callable[[ExportedProgram], None] | None = None

    @property
    def has_small_sizes(self) -> bool:
        """Whether the example has a dynamic dimension of size 0 or 1, which torch is inclined to fix."""
        return any(axis.size < 2 for axis in self.axes.values())


def resolve(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any) -> Shapes:
    """Brings the dynamic shapes that a user gave into one form.

    1. "auto" asks for all dimensions; a ShapesCollection and AdditionalInputs are made into the form by name.
    2. A tuple or list goes by the order of the parameters. Parameters that a dict leaves out are static, and what it
       says of a keyword may stand at its top.
    3. A name becomes Dim.DYNAMIC, None becomes Dim.STATIC, and a negative dimension counts from the end.

    Raises:
        UsageError: Shapes that do not fit the inputs.
    """
    if dynamic_shapes is None:
        return Shapes()
    if _torch.is_shapes_spec(dynamic_shapes):
        return Shapes(dynamic_shapes)
    arguments = inspect.signature(module.forward).bind(*args, **kwargs).arguments
    verify = None
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
            raise UsageError(f"The dynamic shapes do not fit the inputs: {_first_sentence(error)}.") from error
    static = ShapesCollection().dynamic_shapes(module, args, kwargs)
    parameters = inspect.signature(module.forward).parameters.values()
    gathered = next((each.name for each in parameters if each.kind is each.VAR_KEYWORD), None)
    shapes = _by_name(dynamic_shapes, static, gathered if gathered in arguments else None)
    reader = _Reader()
    try:
        given = _torch.map_shapes(reader.read, arguments, shapes)
        relaxed = _torch.map_shapes(reader.relax, arguments, given)
    except ValueError as error:
        raise UsageError(f"dynamic_shapes does not fit the inputs: {_first_sentence(error)}.") from error
    return Shapes(given, relaxed, reader.axes, verify)


def _by_name(shapes: Any, static: dict[str, Any], gathered: str | None) -> dict[str, Any]:
    """The shapes by name, in the structure of the inputs; `gathered` is the parameter that takes other keywords."""
    names = ", ".join(static)
    if isinstance(shapes, tuple | list):
        if len(shapes) != len(static):
            raise UsageError(
                f"dynamic_shapes has {len(shapes)} entries and the model has {len(static)} inputs ({names}). Give one "
                "entry for each input, None where nothing is dynamic, or a dict by name."
            )
        shapes = dict(zip(static, shapes, strict=True))
    if not isinstance(shapes, Mapping):
        raise UsageError(
            f"dynamic_shapes is {_kind(shapes)}. Give a dict by input name such as {{{names.partition(',')[0]!r}: "
            "{0: 'batch'}}, a tuple in the order of the inputs, or 'auto'."
        )
    inner: dict[str, Any] = static[gathered] if gathered and not isinstance(shapes.get(gathered), Mapping) else {}
    known = {**static, **inner}
    unknown = [name for name, shape in shapes.items() if name not in known and shape is not None]
    if unknown:
        known = {name: None for name in known if not inner or name != gathered}
        raise UsageError(
            f"dynamic_shapes names {', '.join(map(repr, unknown))}, which is no input here; the inputs are "
            f"{', '.join(known)}."
        )
    found = {name: static[name] if shapes.get(name) is None else shapes[name] for name in static}
    if inner and gathered:
        found[gathered] = {name: inner[name] if shapes.get(name) is None else shapes[name] for name in inner}
    return found


class _Reader:
    """Reads what was asked of each tensor, and keeps it by dimension."""

    def __init__(self) -> None:
        self.axes: dict[tuple[int, int], Axis] = {}
        self._named: dict[str, Axis] = {}

    def read(self, place: str, leaf: Any, shape: Any) -> Any:
        if shape is None:
            return None
        if not isinstance(leaf, torch.Tensor):
            if type(leaf) is int and _torch.hint_kind(shape) is not None:
                return shape
            raise UsageError(
                f"dynamic_shapes gives {shape!r} for {place}, which is {_kind(leaf)}: give None there, or Dim.DYNAMIC "
                "for an int that is to be an input."
            )
        if isinstance(shape, tuple | list):
            if len(shape) != leaf.dim():
                raise UsageError(
                    f"dynamic_shapes gives {len(shape)} dimensions for {place}, which has {leaf.dim()} "
                    f"({tuple(leaf.shape)})."
                )
            shape = dict(enumerate(shape))
        if not isinstance(shape, Mapping):
            raise UsageError(
                f"dynamic_shapes gives {shape!r} for {place}; give a dict such as {{0: 'batch'}}, or a tuple."
            )
        return dict(self._dimension(place, leaf, *item) for item in shape.items())

    @staticmethod
    def relax(place: str, leaf: Any, shape: Any) -> Any:
        """Dim.AUTO for whatever may vary."""
        if not isinstance(shape, Mapping):
            return shape
        return {
            index: dim if isinstance(dim, int) or _torch.hint_kind(dim) == "STATIC" else Dim.AUTO
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
                raise UsageError(f"dynamic_shapes fixes {place} at {dim}, and in the example it is {size}.")
            return index, dim
        if isinstance(dim, str) and dim:
            axis, dim = Axis(place, dim, size), Dim.DYNAMIC
        elif isinstance(dim, Dim):
            root = getattr(dim, "root", dim)
            axis = Axis(place, root.__name__, size, int(dim.min), _finite(dim.max))
        elif (kind := _torch.hint_kind(dim)) is not None:
            if kind == "STATIC":
                return index, dim
            axis = Axis(place, None, size, dim.min, dim.max)
        else:
            raise UsageError(f"dynamic_shapes gives {dim!r} for {place}; give a name, a Dim, Dim.AUTO, an int or None.")
        if size < (axis.low or 0) or (axis.high is not None and size > axis.high):
            raise UsageError(
                f"{place} is {size} in the example, outside the range that dynamic_shapes gives it ({dim!r}). Widen "
                "the range, or take an example inside it."
            )
        if axis.name is not None and not hasattr(dim, "root"):
            first = self._named.setdefault(axis.name, axis)
            if first.size != size:
                raise UsageError(
                    f"dynamic_shapes calls both {first.place} and {place} '{axis.name}', and in the example they are "
                    f"{first.size} and {size}. Give them different names, or an example in which they are equal."
                )
        self.axes[id(leaf), index] = axis
        return index, dim


def dim_names(program: ExportedProgram, leaves: list[Any], axes: Mapping[tuple[int, int], Axis]) -> dict[str, str]:
    """A name for each symbol in the sizes of a capture's inputs: the user's own, else `<input>_dim_<i>`.

    Args:
        program: The capture.
        leaves: The leaves of `(args, kwargs)`, one for each input of the program.
        axes: What the user asked, from `resolve`.
    """
    names: dict[str, str] = {}
    automatic: dict[str, str] = {}
    for (name, value), leaf in zip(_inputs(program), leaves, strict=True):
        if isinstance(value, torch.SymInt):
            for symbol in _torch.symbols(value):
                automatic.setdefault(symbol, name)
        for index, size in enumerate(_shape(value)):
            found = _torch.symbols(size)
            axis = axes.get((id(leaf), index))
            if len(found) == 1 and axis is not None and axis.name is not None:
                names.setdefault(found[0], axis.name)
            for symbol in found:
                automatic.setdefault(symbol, f"{name}_dim_{index}")
    taken = set(names.values())
    for symbol, name in automatic.items():
        if symbol not in names:
            while name in taken:
                name += "_"
            names[symbol] = name
            taken.add(name)
    return names


def narrow_ranges(program: ExportedProgram, least: int) -> None:
    """Takes the sizes that a capture does not cover out of its ranges, where that is a matter of an end of a range.

    torch leaves in the range what it excluded in two cases: sizes below 2 of a named dimension, when it set them apart,
    and sizes that it compared with a constant when it did not.
    """
    for size in [size for _, value in _inputs(program) for size in _shape(value)] if least > 1 else ():
        if _torch.symbols(size) == (str(size),):
            _torch.narrow_range(program, str(size), least, None)
    for expression, _, _ in _torch.shape_guards(program):
        if found := re.fullmatch(r"(\w+) == min\((\d+), \1\)", expression):
            _torch.narrow_range(program, found[1], None, int(found[2]))
        elif found := re.fullmatch(r"(\w+) != ([01])", expression):
            _torch.narrow_range(program, found[1], int(found[2]) + 1, None)


def conditions(
    program: ExportedProgram, leaves: list[Any], axes: Mapping[tuple[int, int], Axis], least: int
) -> list[tuple[str, Source | None]]:
    """What has to hold of the sizes for a capture to be the model: sizes that it fixed, and branches that it took.

    Args:
        program: A capture with dynamic shapes.
        leaves: The leaves of `(args, kwargs)`.
        axes: What the user asked, from `resolve`.
        least: The least size that the capture was made for: 1, or 2 where torch set 0 and 1 apart.

    Returns:
        Conditions such as `batch % 2 == 0`, each with the line that made it where that is known. Those that follow from
        what the user said are left out, and so is it that two dimensions without names are equal.
    """
    called = {axis.place: axis.name or axis.place for axis in axes.values()}
    shown = {symbol: _called(place, leaves, axes, called) for symbol, place in _torch.shape_sources(program).items()}
    bounds: dict[str, tuple[int, int | None]] = {}
    fixed: dict[str, str] = {}
    told: dict[str, Source | None] = {}
    for (_, value), leaf in zip(_inputs(program), leaves, strict=True):
        for index, size in enumerate(_shape(value)):
            axis = axes.get((id(leaf), index))
            if axis is None:
                continue
            symbol = str(size)
            if not _torch.symbols(size):
                fixed.setdefault(called[axis.place], f"{called[axis.place]} == {int(size)}")
            elif _torch.symbols(size) == (symbol,):
                bounds.setdefault(symbol, (max(axis.low or 0, least), axis.high))
                shown[symbol] = called[axis.place]
                if least > max(axis.low or 0, 1):
                    told[f"{shown[symbol]} >= {least}"] = None
    named = {axis.name for axis in axes.values()}
    for expression, symbols, stack in _torch.shape_guards(program):
        line = next(iter(innermost(stack)), None)
        places = [shown.get(symbol, symbol) for symbol in symbols]
        if len(places) == 1 and places[0] in fixed:
            told.setdefault(fixed.pop(places[0]), line)
        elif len(set(places)) < len(places) or (_EQUAL.fullmatch(expression) and not named.issuperset(places)):
            continue
        elif not _always(expression, symbols, bounds, least):
            told.setdefault(_readable(expression, shown), line)
    return [*told.items(), *((text, None) for text in fixed.values() if text not in told)]


_EQUAL = re.compile(r"[a-z]+\d+ == [a-z]+\d+")


def _called(place: str, leaves: list[Any], axes: Mapping[tuple[int, int], Axis], called: Mapping[str, str]) -> str:
    """What to call a place; the strict mode numbers the inputs."""
    if numbered := re.fullmatch(r"flat_args\[(\d+)\]\.shape\[(\d+)\]", place):
        axis = axes.get((id(leaves[int(numbered[1])]), int(numbered[2])))
        place = axis.place if axis else place
    return called.get(place, place)


def _readable(expression: str, shown: Mapping[str, str]) -> str:
    """A condition as a person would write it."""
    text = re.sub(r"^(\w+) == min\((\d+), \1\)$", r"\1 <= \2", expression)
    text = re.sub(r"^\(([^()]*)\) (==|!=|<=|>=|<|>) ", r"\1 \2 ", text)
    text = re.sub(r" (==|!=|<=|>=|<|>) \((.*)\)$", r" \1 \2", text) if text.count("(") == text.count(" (") else text
    return re.sub(r"\b[a-z]+\d+\b", lambda found: shown.get(found[0], found[0]), text)


def _always(
    expression: str, symbols: tuple[str, ...], bounds: Mapping[str, tuple[int, int | None]], least: int
) -> bool:
    """Whether a condition held for all the sizes that were tried."""
    code = compile(expression, "<condition>", "eval")
    for sizes in _trials(symbols, bounds, least):
        try:
            if not eval(code, {"__builtins__": {}, "min": min, "max": max}, sizes):
                return False
        except (ZeroDivisionError, NameError, AttributeError, TypeError):
            continue
    return True


def _trials(
    symbols: tuple[str, ...], bounds: Mapping[str, tuple[int, int | None]], least: int
) -> Iterator[dict[str, int]]:
    choices = []
    for symbol in symbols:
        low, high = bounds.get(symbol, (least, None))
        inside = [size for size in _TRIED if size >= low and (high is None or size <= high)]
        choices.append(sorted({*inside, low, *([high] if high is not None else [])}))
    for step in range(len(_TRIED) + 2):
        yield {
            symbol: sizes[step * at % len(sizes)]
            for at, (symbol, sizes) in enumerate(zip(symbols, choices, strict=True), 1)
        }


def _inputs(program: ExportedProgram) -> Iterator[tuple[str, Any]]:
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    for node, spec in zip(placeholders, program.graph_signature.input_specs, strict=True):
        if spec.kind == InputKind.USER_INPUT:
            yield node.name, node.meta.get("val")


def _shape(value: Any) -> tuple[Any, ...]:
    return tuple(value.shape) if isinstance(value, torch.Tensor) else ()


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
