"""The ends of dtypes as inputs: the largest numbers and what lies beyond them, the smallest, subnormals.

Fresh values lie within the example's, which are mostly far from where a conversion rounds to an infinity, saturates or
wraps. They are drawn as follows:

1. A model that only converts elements, and moves them, takes the ends of every dtype that its values have, infinities
   and NaN among them where no integer is made of floats. The file and PyTorch have to be equal in ONNX Runtime.
2. Another model takes the finite ends of the float8 dtypes that its values have, and those of inputs of float8 and of 8
   or 16 bits. No example suggests these: a difference is a note.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Node
from torch.utils import _pytree as pytree

from opbridge.base.wording import listed
from opbridge.graph.operators import operator_of
from opbridge.verification.compare import dtype_name
from opbridge.verification.fresh_inputs import Kind, kind_of

if TYPE_CHECKING:
    from opbridge.capture import Capture

__all__ = ["Ends", "ends_of", "inputs_at_ends"]

_MOST_NAMED = 3
_MOST_RUNS = 3
"""Inputs of few elements hold the ends in turns."""

_CONVERSIONS = frozenset(
    {
        *("aten::to.dtype", "aten::to.dtype_layout", "aten::to.device", "aten::to.other", "aten::_to_copy"),
        *("aten::type_as", "prims::convert_element_type", "aten::copy", "aten::copy_", "aten::empty.memory_format"),
        *("aten::empty_like", "aten::zeros", "aten::zeros_like", "aten::new_empty", "aten::new_zeros"),
        *("aten::clone", "aten::contiguous", "aten::detach", "aten::detach_", "aten::alias", "aten::lift_fresh_copy"),
        *("aten::view", "aten::reshape", "aten::flatten.using_ints", "aten::permute", "aten::transpose.int", "aten::t"),
        *("aten::numpy_T", "aten::mT", "aten::movedim.int", "aten::slice.Tensor", "aten::select.int"),
        *("aten::unsqueeze", "aten::squeeze", "aten::squeeze.dim", "aten::squeeze.dims", "aten::expand", "aten::flip"),
        *("_operator::getitem", "aten::sym_size.int"),
    }
)
_NO_CALLS = ("placeholder", "get_attr", "output")
_WITHOUT = (torch.bool, torch.uint16, torch.uint32, torch.uint64)
"""Dtypes without ends, and those that torch has few operators for."""


@dataclass(frozen=True)
class Ends:
    """Inputs that hold the ends of dtypes.

    Attributes:
        label: Of which dtypes.
        args: The positional inputs.
        kwargs: The keyword inputs.
        is_exact: Whether the model only converts, so that nothing may differ.
        positions: The positions of the inputs that hold them, among the leaves of `(args, kwargs)`.
    """

    label: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    is_exact: bool
    positions: tuple[int, ...]


def ends_of(dtype: torch.dtype, of: torch.dtype) -> torch.Tensor:
    """The numbers at the ends of a dtype and beside them, in another dtype, each once.

    Args:
        dtype: The dtype whose ends are meant.
        of: The dtype of the result. A float is rounded to it, and a number that its integers do not have is left out.
    """
    numbers: list[float]
    if dtype.is_floating_point:
        numbers = [sign * each for each in _sizes(dtype) for sign in (1, -1)]
    else:
        info = torch.iinfo(dtype)
        numbers = [info.min, info.max, info.min + 1, info.max - 1, info.min // 2, 0, 1, 2]
    if of.is_floating_point:
        rounded = torch.tensor(numbers, dtype=torch.float64).to(of)
        unlike = {repr(number): place for place, number in enumerate(rounded.double().tolist())}  # 0 and -0 are
        return _picked(rounded, torch.tensor(sorted(unlike.values())))
    least, greatest = torch.iinfo(of).min, torch.iinfo(of).max
    whole = [int(each) for each in numbers if math.isfinite(each) and least <= each <= greatest]
    return torch.tensor([each for each in dict.fromkeys(whole) if least <= each <= greatest], dtype=of)


def _sizes(dtype: torch.dtype) -> Iterator[float]:
    """The sizes of numbers at the ends of a floating dtype, those that tell most first."""
    info = torch.finfo(dtype)
    step = 2.0 ** (math.frexp(info.max)[1] - 1) * info.eps  # from the largest number to the next that there would be
    yield info.max
    # Numbers up to half a step above are rounded to the largest one.
    for share in (0.5, 1, 0.49, 0.51, 0.25, 2, 1000 / info.eps):
        yield info.max + share * step
    yield from (math.inf, math.nan, info.smallest_normal)
    yield from (info.smallest_normal * info.eps * times for times in (1, 0.5, 0.51, 1.5, 0.25, 3))
    yield from (0.0, 1.0, 1 + info.eps / 2, 1 + 1.5 * info.eps, info.max / 2)


def _in_range(values: torch.Tensor, dtypes: Sequence[torch.dtype]) -> torch.Tensor:
    """Those of some values that are finite, and stay in the range of all integers that they may be converted to.

    What becomes of the others is not defined.
    """
    integers = [torch.iinfo(each) for each in dtypes if not each.is_floating_point]
    floats = [each for each in dtypes if each.is_floating_point]
    is_such = torch.ones(len(values), dtype=torch.bool)
    for converted in [values.double(), *(values.to(each).double() for each in floats)]:
        is_such &= converted.isfinite()
        for info in integers:
            is_such &= (converted >= info.min) & (converted < 2.0 * (info.max // 2 + 1))
    return _picked(values, is_such.nonzero().flatten())


def inputs_at_ends(
    capture: Capture | None,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    names: Mapping[int, str],
    kept: Container[int],
) -> Iterator[Ends]:
    """Inputs like the example's that hold the ends of dtypes.

    Args:
        capture: What the model computes; None where that is not known.
        args: The example's positional inputs.
        kwargs: The example's keyword inputs.
        names: What the file's inputs are called, by position.
        kept: The positions of leaves that are not changed.
    """
    leaves, structure = pytree.tree_flatten((args, dict(kwargs)))
    nodes: list[Node] = []
    if capture is not None and capture.mode != "trace":  # which has no graph of what is computed
        nodes = [node for node in capture.graph.graph.nodes if node.op not in _NO_CALLS]
    is_exact = all(operator_of(node) in _CONVERSIONS for node in nodes) and any(map(_converts, nodes))
    dtypes = list(dict.fromkeys(dtype for node in nodes if (dtype := _dtype_of(node)) is not None))
    values: dict[int, torch.Tensor] = {}
    told: dict[torch.dtype, None] = {}
    for position in names:
        leaf = leaves[position]
        if position in kept or not isinstance(leaf, torch.Tensor) or not _may_change(leaf, is_exact):
            continue
        wanted = _wanted(leaf.dtype, dtypes, is_exact)
        if wanted:
            ends = _joined([ends_of(each, leaf.dtype) for each in wanted])
            given = [leaf.dtype, *(each for each in dtypes if each != torch.bool)]
            if len({each.is_floating_point for each in given}) == 2:
                ends = _in_range(ends, given)
            values[position] = ends if is_exact else _in_range(ends, [leaf.dtype])
            told.update(dict.fromkeys(wanted))
    if not values:
        return
    label = f"ends of {listed(list(map(dtype_name, told)), _MOST_NAMED)}"
    count = max(math.ceil(len(ends) / leaves[position].numel()) for position, ends in values.items())
    for turn in range(min(count, _MOST_RUNS)):
        changed = [_filled(leaf, values[at], turn) if at in values else leaf for at, leaf in enumerate(leaves)]
        given, named = pytree.tree_unflatten(changed, structure)
        yield Ends(label if turn == 0 else f"{label} ({turn + 1})", given, named, is_exact, tuple(values))


def _converts(node: Node) -> bool:
    """Whether a node gives the values of another one in another dtype."""
    return any(_dtype_of(each) not in (None, _dtype_of(node)) for each in node.all_input_nodes)


def _dtype_of(node: Node) -> torch.dtype | None:
    value = node.meta.get("val")
    return value.dtype if isinstance(value, torch.Tensor) else None


def _may_change(leaf: torch.Tensor, is_exact: bool) -> bool:
    if leaf.layout != torch.strided or leaf.is_quantized or leaf.is_complex() or not leaf.numel():
        return False
    return leaf.dtype not in _WITHOUT and (is_exact or kind_of(leaf) in (Kind.REAL, Kind.WHOLE))


def _wanted(own: torch.dtype, dtypes: Sequence[torch.dtype], is_exact: bool) -> list[torch.dtype]:
    """The dtypes whose ends an input holds."""
    if is_exact:
        return [each for each in dict.fromkeys((*dtypes, own)) if each != torch.bool and not each.is_complex]
    narrow = [each for each in dtypes if _is_float8(each)] if own.is_floating_point else []
    is_narrow = _is_float8(own) if own.is_floating_point else own.itemsize <= 2
    return [*narrow, own] if is_narrow and own not in narrow else narrow


def _is_float8(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point and dtype.itemsize == 1


def _joined(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    if not _is_float8(parts[0].dtype):
        return torch.cat(list(parts))
    return torch.cat([part.view(torch.uint8) for part in parts]).view(parts[0].dtype)


def _picked(values: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Elements by their places; torch lacks the operator for float8."""
    is_float8 = _is_float8(values.dtype)
    return values.view(torch.uint8)[places].view(values.dtype) if is_float8 else values[places]


def _filled(example: torch.Tensor, ends: torch.Tensor, turn: int) -> torch.Tensor:
    """The ends, from one of them on and in order, in the shape of the example."""
    places = (torch.arange(example.numel()) + turn * example.numel()) % len(ends)
    return _picked(ends, places).reshape(example.shape).to(example.device)
