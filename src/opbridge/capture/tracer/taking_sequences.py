"""What Python and torch take sequences of a symbolic length for, within a capture."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from opbridge.base.attributes import replacing
from opbridge.base.torch_private import torch_proxies
from opbridge.capture.tracer.arranging import ARRANGED, arranged
from opbridge.capture.tracer.iterating_functions import ITERATING
from opbridge.capture.tracer.loop_filled_lists import gathered_list, lacks_elements
from opbridge.capture.tracer.padded_parts import padded, padding_by, unpadded
from opbridge.capture.tracer.repeated_lists import Repeated
from opbridge.capture.tracer.sized_sequences import SizedSequence, is_asked, is_kept, keeping_lengths
from opbridge.capture.tracer.symbolic_list import SymbolicList, is_list, sequence_of
from opbridge.capture.tracer.symbolic_loops import iterations_of
from opbridge.capture.tracer.tensor_sequences import CUTTING, INTEGERS, Numbers, Parts, Rows, cut

__all__ = ["iterating_tensors", "keeping_numbers", "repeating_lists", "taking_sequences"]


@contextlib.contextmanager
def iterating_tensors() -> Iterator[None]:
    """Within this context, a loop over the rows of a tensor, whose number is symbolic, asks before each iteration.

    So does one over its numbers. A list times a tensor is one of a symbolic length.
    """
    kind: Any = torch.Tensor
    original = kind.__iter__

    def iterated(tensor: torch.Tensor) -> Iterator[Any]:
        if tensor.dim() and isinstance(tensor.shape[0], torch.SymInt):
            iterations = iterations_of(Rows(tensor), sys._getframe(1))
            if iterations is not None:
                return iterations
        found: Iterator[Any] = original(tensor)
        return found

    def following(original: Callable[..., Any]) -> Callable[..., Any]:
        def multiplied(tensor: torch.Tensor, other: Any) -> Any:
            if (is_list(other) or type(other) is tuple) and not tensor.dim() and tensor.dtype in INTEGERS:
                return Repeated(list(other), torch.sym_max(tensor.item(), 0))
            return original(tensor, other)

        return multiplied

    replaced = [(kind, "__iter__", iterated), _listing(), *ITERATING]
    replaced += [(kind, name, following(getattr(kind, name))) for name in ("__mul__", "__rmul__")]
    with replacing(*replaced):
        yield


@contextlib.contextmanager
def keeping_numbers() -> Iterator[None]:
    """Within this context, the numbers of a tensor, and parts of such lengths, are lists that keep a symbolic length.

    No loop asks for their elements: one that goes over them has as many iterations as the example, and fixes the size.
    """
    with replacing(_listing()), keeping_lengths():
        yield


def _listing() -> tuple[Any, str, Callable[..., Any]]:
    """`tolist` of tensors without values, which gives a list of a symbolic length."""
    fake: Any = torch_proxies.FakeTensor
    as_numbers = fake.tolist

    def listed(tensor: torch.Tensor) -> Any:
        found = Numbers(tensor) if tensor.dim() else None
        return as_numbers(tensor) if found is None or not is_kept(found) else found

    return fake, "tolist", listed


@contextlib.contextmanager
def taking_sequences() -> Iterator[None]:
    """Within this context, functions that take a list take a sequence of a symbolic length."""
    with replacing(*map(_taking_sequences, _OF_C)), padding_by(_pad, _unpad):
        yield


def _pad(sequences: Any, batch_first: bool, value: float, side: str) -> torch.Tensor | None:
    """What `pad_sequence` gives where the number of sequences is symbolic; None elsewhere, or where that is unknown."""
    if (sequence := sequence_of(sequences)) is not None:
        return sequence.padded(batch_first, value, side)
    if type(sequences) not in (list, tuple) or not all(isinstance(each, torch.Tensor) for each in sequences):
        return None
    found = gathered_list(sequences)
    if found is None:
        return None
    whole, sizes, dim = found
    if sizes is not None:
        return padded(whole, sizes, sizes.cumsum(0), batch_first, value, side) if dim == 0 else None
    return None if whole.dim() < 2 else whole.clone() if batch_first else whole.transpose(0, 1).clone()


def _unpad(padded: torch.Tensor, lengths: torch.Tensor, batch_first: bool) -> SizedSequence | None:
    """What `unpad_sequence` gives where the number of rows is symbolic; None elsewhere."""
    if not isinstance(padded, torch.Tensor) or padded.dim() < 2 or not isinstance(lengths, torch.Tensor):
        return None
    if lengths.dim() != 1 or not is_asked(Numbers(lengths)):
        return None
    rows = padded if batch_first else padded.transpose(0, 1)
    whole, sizes = unpadded(rows, lengths)
    if not batch_first:
        padded.transpose_(0, 1)  # as the function leaves it
    return Parts.of_list(whole, sizes, 0).copied()


_OF_C: tuple[tuple[Any, str], ...] = (
    (torch, "cat"),
    (torch, "concat"),
    (torch, "concatenate"),
    (torch, "stack"),
    *((torch, name) for name in ARRANGED),
    (torch, "split_with_sizes"),
    (torch, "tensor_split"),
    (torch.Tensor, "split_with_sizes"),
    (torch.Tensor, "tensor_split"),
)
"""Functions that take no sequence but a list and a tuple, and say so before any mode sees the call."""


def _taking_sequences(place: tuple[Any, str]) -> tuple[Any, str, Callable[..., Any]]:
    """One of these functions, which takes sequences of a symbolic length."""
    owner, name = place
    original = getattr(owner, name)

    @functools.wraps(original)
    def function(*args: Any, **settings: Any) -> Any:
        found = None
        if original in CUTTING:
            found = cut(original, *args, **settings)
        elif args and type(args[0]) is SymbolicList and lacks_elements(args[0]):
            args = ([], *args[1:])  # PyTorch raises an error, so that this is no path of the model
        elif args and "out" not in settings and (sequence := sequence_of(args[0])) is not None:
            dim = (*args[1:], settings.get("dim", settings.get("axis", 0)))[0]
            found = _of_elements(name, sequence, dim)
            args = args if found is not None else (sequence.elements(), *args[1:])
        return original(*args, **settings) if found is None else found

    return owner, name, function


def _of_elements(name: str, sequence: SizedSequence, dim: int) -> torch.Tensor | None:
    """What a function that joins tensors gives for the elements; None where that is not known without them."""
    if name == "stack":
        return sequence.stacked(dim)
    return arranged(name, sequence) if name in ARRANGED else sequence.joined(dim)


@contextlib.contextmanager
def repeating_lists() -> Iterator[None]:
    """Within this context, a list times a symbolic size is a list of a symbolic length."""

    def following(original: Callable[..., Any]) -> Any:
        def multiplied(size: torch.SymInt, other: Any) -> Any:
            if is_list(other) or type(other) is tuple:
                return Repeated(list(other), torch.sym_max(size, 0))
            return original(size, other)

        return multiplied

    kind: Any = torch.SymInt
    with replacing((kind, "__mul__", following(kind.__mul__)), (kind, "__rmul__", following(kind.__rmul__))):
        yield
