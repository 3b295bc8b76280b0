"""Calls of torch's Python functions that would ask for numbers before any operator runs."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from opbridge.base.attributes import replacing
from opbridge.base.torch_private import torch_sizes
from opbridge.capture.tracer.arranging import ARRANGED, arranged
from opbridge.capture.tracer.contiguous_copies import ContiguousCopies
from opbridge.capture.tracer.empty_lists import OF_EMPTY_LIST, note_empty_list
from opbridge.capture.tracer.functions_of_numbers import WITH_NUMBERS
from opbridge.capture.tracer.indices import asks_for_number, index_by, with_tensors, write_at
from opbridge.capture.tracer.inferred_sizes import with_inferred_size
from opbridge.capture.tracer.loop_filled_lists import gathered, gathered_numbers
from opbridge.capture.tracer.scaled_images import interpolated
from opbridge.capture.tracer.sized_sequences import SizedSequence
from opbridge.capture.tracer.symbolic_list import is_list, sequence_of
from opbridge.capture.tracer.symbolic_loops import note_empty_tensor
from opbridge.capture.tracer.tensor_sequences import CUTTING, cut
from opbridge.capture.tracer.tensors_as_numbers import is_number, number

__all__ = ["PythonFunctions", "masks_of_any_length", "taking_symbolic_bools"]

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


class PythonFunctions(TorchFunctionMode):
    """While a model is captured:

    1. Indexing by sizes and by integer tensors without dimensions becomes operators.
    2. `torch.tensor`, `torch.as_tensor` and `torch.asarray` take sizes and values of tensors as numbers.
    3. `torch._assert` of a tensor is an operator.
    4. A deep copy of a tensor is an operator.
    5. Functions that take sizes take integer tensors without dimensions among them.
    6. Packed sequences are padded to a length that may be symbolic.
    7. Operators on quantised tensors take scales and zero points that are tensors as numbers.
    8. Lists of a symbolic length become tensors.
    9. What is asked of a tensor may need its rank.
    10. Windows that do not overlap have a symbolic size.
    11. Complex numbers of a tensor may be printed, and not computed with: torch has no symbolic ones.
    12. `contiguous`, and `reshape` and `to` where they may be a copy, ask nothing about sizes.
    13. Images are interpolated by factors that only a run tells.
    14. What is padded to a multiple has a size that is one by its form, also after a condition on the remainder.
    15. Pools take windows of symbolic sizes.
    16. A tensor in pinned memory is a copy, which is not pinned; no stream records a tensor.
    17. An inverse short-time Fourier transform takes a symbolic length.

    Args:
        settle_ranks: Called with the arguments of each function.
        copies: The copies that these take.
    """

    def __init__(self, settle_ranks: Callable[[Any], None], copies: ContiguousCopies) -> None:
        super().__init__()
        self._settle_ranks, self._copies = settle_ranks, copies

    def __torch_function__(self, function: Callable[..., Any], kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._settle_ranks(args)
        if kwargs:
            self._settle_ranks(kwargs.values())
        if function is torch.Tensor.__getitem__ and isinstance(args[0], torch.Tensor):
            index = with_tensors(args[1])
            if index is not None:
                return args[0][index]
            items = list(args[1]) if isinstance(args[1], tuple) else [args[1]]
            if any(map(asks_for_number, items)):
                found = index_by(args[0], items)
                if found is not None:
                    return found
        elif function in _COMPLEX_NUMBERS and args[0].is_complex() and all(type(size) is int for size in args[0].shape):
            return _unknown(args[0].shape)
        elif function is torch.Tensor.to and _only_orders(args, kwargs or {}):
            copy = self._copies.of(args[0])
            if copy is not None:
                return copy
        elif function is torch.Tensor.contiguous and isinstance(args[0], torch.Tensor):
            copy = self._copies.of(*args, **(kwargs or {}))
            if copy is not None:
                return copy
        elif function in _RESHAPING and args and isinstance(args[0], torch.Tensor):
            args = (args[0], *map(_with_numbers, args[1:]))
            if function in _INFERRING:
                args = (args[0], *with_inferred_size(args[0], args[1:]))
            found = self._copies.reshaped(function, *args, **(kwargs or {}))
            if found is not None:
                return found
        elif function in CUTTING:
            parts = cut(function, *args, **(kwargs or {}))
            if parts is not None:
                return parts
        elif function in _JOINING:
            found = _JOINING[function](*args, **(kwargs or {}))
            if found is not None:
                return found
        elif function is torch.Tensor.new_tensor and len(args) == 2 and not isinstance(args[1], torch.Tensor):
            asked = {name: each for name, each in (kwargs or {}).items() if each is not None}
            given = {"dtype": args[0].dtype, "device": args[0].device} | asked
            return self.__torch_function__(torch.tensor, kinds, args[1:], given)
        elif function in _OF_SEQUENCES and args and (sequence := sequence_of(args[0])) is not None:
            given = dict(zip(("dtype", "device"), args[1:], strict=False)) | (kwargs or {})
            return _of_sequence(sequence, given.get("dtype"), given.get("device"))
        elif function in _OF_SEQUENCES and args and (numbers := _numbers(args[0], kwargs or {})) is not None:
            given = dict(zip(("dtype", "device"), args[1:], strict=False)) | (kwargs or {})
            return numbers.to(dtype=given.get("dtype"), device=given.get("device"))
        elif function in _OF_SEQUENCES and args and isinstance(args[0], (list, tuple, *_SYMBOLIC)):
            if any(isinstance(leaf, _SYMBOLIC) for leaf in pytree.tree_leaves(args[0])):
                given = dict(zip(("dtype", "device"), args[1:], strict=False)) | (kwargs or {})
                given.pop("copy", None)  # what is made of numbers is new
                return torch._refs.tensor(args[0], **given)
        elif function is torch._VF._pad_packed_sequence:
            return _padded(*args)
        elif function in _OF_DEVICES:
            return _OF_DEVICES[function](*args)
        elif function in _TAKING_SIZES:
            args = tuple(map(_with_numbers, args))
        elif function in _TAKING_SIZES_AFTER_TENSOR:
            args = (args[0], *map(_with_numbers, args[1:]))
            if function in _INFERRING:
                args = (args[0], *with_inferred_size(args[0], args[1:]))
        elif function is torch.nn.functional.interpolate:
            args = (*args[:1], *map(_with_numbers, args[1:2]), *args[2:])
            kwargs = {name: _with_numbers(value) if name == "size" else value for name, value in (kwargs or {}).items()}
            found = interpolated(*args, **kwargs)
            if found is not None:
                return found
        elif function in WITH_NUMBERS:
            found = WITH_NUMBERS[function](*args, **(kwargs or {}))
            if found is not None:
                return found
        elif function is torch.Tensor.__setitem__ and isinstance(args[0], torch.Tensor):
            index = with_tensors(args[1])
            if index is not None:
                args[0][index] = args[2]
                return None
            if write_at(*args):
                return None
        elif function is torch._assert:
            condition, message = (*args, "")[:2] if args else (kwargs["condition"], kwargs.get("message", ""))
            if isinstance(condition, torch.Tensor):
                return torch._assert_async(condition, message)
        elif function is torch.Tensor.__deepcopy__ and args[0].is_leaf:  # torch refuses the others
            return _copied(*args)
        elif isinstance(function, torch._ops.OpOverloadPacket) and function._qualified_op_name.startswith(
            "quantized::"
        ):
            args, kwargs = pytree.tree_map_only(torch.Tensor, _scale, (tuple(args), kwargs or {}))
        try:
            return function(*args, **(kwargs or {}))
        except OF_EMPTY_LIST as error:
            note_empty_list(error, args, kwargs or {})
            raise


def _stacked(tensors: Any, dim: int = 0, *, out: Any = None) -> torch.Tensor | None:
    """What `torch.stack` gives for a list that has grown in a loop."""
    found = None if out is not None else gathered(tensors, None)
    return None if found is None else _rows(found[0]).movedim(0, dim)


def _rows(parts: list[torch.Tensor]) -> torch.Tensor:
    return torch.cat(parts) if len(parts) > 1 else parts[0]


def _concatenated(tensors: Any, dim: int = 0, axis: int | None = None, *, out: Any = None) -> torch.Tensor | None:
    """What `torch.cat` gives for a list that has grown in a loop."""
    dim = dim if axis is None else axis
    found = None if out is not None else gathered(tensors, dim)
    if found is None:
        return None
    parts, along = found
    if along is not None:
        return torch.cat(parts, along)
    dim = dim % (parts[0].dim() - 1)
    if len({tuple(part.shape[1:]) for part in parts}) > 1:
        return torch.cat([part.movedim(0, dim).flatten(dim, dim + 1) for part in parts], dim)
    return _rows(parts).movedim(0, dim).flatten(dim, dim + 1)


class _Grown:
    """The elements of a list that has grown in a loop."""

    def __init__(self, held: Any) -> None:
        self._held = held

    def rank(self) -> int | None:
        if self._held:
            return self._held[0].dim() if isinstance(self._held[0], torch.Tensor) else None
        found = gathered(self._held, None)
        return None if found is None else found[0][0].dim() - 1

    def joined(self, dim: int) -> torch.Tensor | None:
        return _concatenated(self._held, dim)

    def stacked(self, dim: int) -> torch.Tensor | None:
        return _stacked(self._held, dim)


def _arranged(name: str, tensors: Any, *, out: Any = None) -> torch.Tensor | None:
    """What `torch.hstack` and the like give for a list that has grown in a loop."""
    is_list_of_any = out is None and (type(tensors) is tuple or is_list(tensors))
    return arranged(name, _Grown(tensors)) if is_list_of_any else None


_JOINING: dict[Any, Callable[..., torch.Tensor | None]] = {
    torch.stack: _stacked,
    torch.cat: _concatenated,
    torch.concat: _concatenated,
    torch.concatenate: _concatenated,
    **{getattr(torch, name): functools.partial(_arranged, name) for name in ARRANGED},
}

_OF_SEQUENCES = frozenset({torch.tensor, torch.as_tensor, torch.asarray})


def _numbers(values: Any, settings: dict[str, Any]) -> torch.Tensor | None:
    """A list that has grown in a loop, or one of tensors without dimensions, as a tensor of one; None for any other."""
    if not (type(values) is tuple or is_list(values)) or not settings.keys() <= {"dtype", "device"}:
        return None
    found = gathered_numbers(values)
    if not values and "dtype" not in settings:
        note_empty_tensor()
    if found is not None or not values or not all(isinstance(each, torch.Tensor) for each in values):
        return found
    if any(each.dim() for each in values) or len({(each.dtype, each.device) for each in values}) > 1:
        return None
    return torch.stack(list(values)).detach()


def _of_sequence(sequence: SizedSequence, dtype: torch.dtype | None, device: Any) -> torch.Tensor:
    """What `torch.tensor` gives for a list of a symbolic length.

    That of an empty list has one dimension, and the default dtype unless one is given: where that of the others
    differs, whether the list is empty is a decision.
    """
    whole = sequence.tensor(dtype, device)
    is_known = whole.dtype == (dtype or torch.get_default_dtype()) and whole.dim() == 1
    if not is_known and not sequence.length:
        note_empty_tensor()
        return torch.tensor([], dtype=dtype, device=device)
    return whole


def _padded(
    data: torch.Tensor, batch_sizes: torch.Tensor, batch_first: bool, padding_value: float, total_length: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """What the operator gives, which pads to an int, or to the longest sequence."""
    operator: Any = torch._VF._pad_packed_sequence
    longest = batch_sizes.shape[0]
    if torch_sizes.is_equal(total_length, longest):
        return operator(data, batch_sizes, batch_first, padding_value, -1)
    if not isinstance(total_length, torch.SymInt):
        return operator(data, batch_sizes, batch_first, padding_value, total_length)
    padded, lengths = operator(data, batch_sizes, batch_first, padding_value, -1)
    following = padded.dim() - (2 if batch_first else 1)
    more = [0, 0] * following + [0, total_length - longest]
    return torch.nn.functional.pad(padded, more, value=padding_value), lengths


_OF_DEVICES: Mapping[Any, Callable[..., Any]] = {
    torch.Tensor.pin_memory: lambda tensor, *_: tensor.clone(),
    torch.Tensor.record_stream: lambda *_: None,
}
"""What concerns the memory of devices only."""

_COMPLEX_NUMBERS = frozenset({torch.Tensor.tolist, torch.Tensor.item})
_RESHAPING = frozenset({torch.Tensor.reshape, torch.reshape, torch.Tensor.flatten, torch.flatten})
_INFERRING = frozenset({torch.Tensor.reshape, torch.reshape, torch.Tensor.view})
"""The functions that infer a size that is given as -1."""


class UnknownComplexNumber:
    """A complex number that only a run tells; Python refuses to compute with it."""

    def __repr__(self) -> str:
        return "<a complex number that only a run tells>"


def _unknown(sizes: Any) -> Any:
    """What `tolist` gives for a tensor of complex numbers that are not known."""
    return [_unknown(sizes[1:]) for _ in range(sizes[0])] if sizes else UnknownComplexNumber()


# Functions whose positional arguments are sizes, or tuples of them.
_TAKING_SIZES = frozenset({torch.zeros, torch.ones, torch.empty, torch.rand, torch.randn})

# The same, after the first one, which is the tensor.
_TAKING_SIZES_AFTER_TENSOR = frozenset(
    {
        torch.Tensor.repeat,
        torch.Tensor.tile,
        torch.tile,
        torch.Tensor.expand,
        torch.Tensor.view,
        torch.Tensor.new_empty,
        torch.Tensor.new_zeros,
        torch.Tensor.new_ones,
        torch.Tensor.multinomial,
        torch.multinomial,
    }
)


def _with_numbers(sizes: Any) -> Any:
    """Sizes, with numbers in the place of tensors."""
    if isinstance(sizes, (list, tuple)):
        return type(sizes)(map(_with_numbers, sizes)) if any(map(is_number, sizes)) else sizes
    return number(sizes)


def _scale(tensor: torch.Tensor) -> Any:
    """A tensor without dimensions as a number; others, which are data, as they are."""
    return tensor if tensor.dim() else tensor.item()


def _copied(tensor: torch.Tensor, memo: dict[int, Any]) -> torch.Tensor:
    """What `copy.deepcopy` gives for a tensor."""
    known = memo.get(id(tensor))
    if known is not None:
        return known
    copied = tensor.detach().clone()
    copied.requires_grad_(tensor.requires_grad)
    if isinstance(tensor, torch.nn.Parameter):
        copied._is_param = True
    memo[id(tensor)] = copied
    return copied


@contextlib.contextmanager
def taking_symbolic_bools() -> Iterator[None]:
    """Within this context, attention takes what `length > 1 and ...` gives for `is_causal`, where that is symbolic."""
    functional: Any = torch.nn.functional
    original = functional.scaled_dot_product_attention

    @functools.wraps(original)
    def attention(*args: Any, **kwargs: Any) -> Any:
        if isinstance(kwargs.get("is_causal"), torch.SymBool):
            kwargs["is_causal"] = bool(kwargs["is_causal"])
        return original(*args, **kwargs)

    with replacing((functional, "scaled_dot_product_attention", attention)):
        yield


@contextlib.contextmanager
def masks_of_any_length() -> Iterator[None]:
    """Within this context, torch's transformer modules do not ask whether a mask of a symbolic size is a causal one.

    They use the mask itself where it is none, with the same result.
    """
    module: Any = torch.nn.modules.transformer
    original = module._detect_is_causal_mask

    @functools.wraps(original)
    def detect(mask: Any, is_causal: bool | None = None, size: Any = None) -> bool:
        if mask is not None and any(isinstance(each, _SYMBOLIC) for each in mask.shape):
            return is_causal is True
        return bool(original(mask, is_causal, size))

    with replacing((module, "_detect_is_causal_mask", detect)):
        yield


def _only_orders(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether `to` is called for the order of elements in memory, with the dtype that the tensor has."""
    given = [*args[1:], *(value for name, value in kwargs.items() if name != "memory_format")]
    is_ordered = kwargs.get("memory_format") is torch.contiguous_format
    return is_ordered and len(given) == 1 and isinstance(args[0], torch.Tensor) and given[0] is args[0].dtype
