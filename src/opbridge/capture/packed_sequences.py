"""The shapes of packed sequences, of which values decide: the lengths of the sequences.

A packed sequence is the steps of all sequences, of shape (steps of all, ...), and how many of the sequences have a
first, a second, a third step: the batch sizes, on the CPU, of shape (steps of the longest sequence,).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Node

from opbridge.base.torch_private import torch_sizes
from opbridge.base.torch_private.torch_overrides import new_fake

__all__ = ["COMPOSITE", "REPLACED", "first_batch_size", "pack"]

_aten = torch.ops.aten
_BATCH = "opbridge_batch"
"""The attribute of batch sizes without values that is the number of sequences, where that is known."""


def pack(
    input: torch.Tensor, lengths: torch.Tensor, batch_first: bool, *, known: Sequence[int] | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """What `aten::_pack_padded_sequence` gives, without values.

    Args:
        input: The padded sequences.
        lengths: Their lengths.
        batch_first: Whether the batch is the first dimension.
        known: The lengths, where these are known.
    """
    torch._check(input.dim() > 1, lambda: "A batch of padded sequences has at least two dimensions.")
    batch, steps = input.shape[:2] if batch_first else (input.shape[1], input.shape[0])
    if known is None:
        count, longest = torch_sizes.unknown_size(input), torch_sizes.unknown_size(input)
        torch._check(longest <= steps)
        torch._check(longest <= count)
    else:
        count, longest = sum(known), max(known)
    sizes = new_fake(lengths, (longest,), torch.int64)
    setattr(sizes, _BATCH, batch)
    return new_fake(input, (count, *input.shape[2:])), sizes


def first_batch_size(function: Any, arguments: Sequence[Any]) -> Any:
    """The number of sequences, where an operator asks for the first of the batch sizes; None where it does not.

    Every sequence has a first step.

    Args:
        function: An operator that gives a number.
        arguments: Its arguments in the graph.
    """
    if function not in (_aten.item.default, _aten._local_scalar_dense.default) or not isinstance(arguments[0], Node):
        return None
    node = arguments[0]
    if node.target is not _aten.select.int or node.args[1:] != (0, 0):
        return None
    return getattr(node.args[0].meta.get("val"), _BATCH, None)


def _pad(
    data: torch.Tensor, batch_sizes: torch.Tensor, batch_first: bool, padding_value: Any, total_length: int
) -> tuple[torch.Tensor, torch.Tensor]:
    batch = getattr(batch_sizes, _BATCH, None)
    if batch is None:
        batch = torch_sizes.unknown_size(batch_sizes)
    steps = total_length if total_length > 0 else batch_sizes.shape[0]
    shape = (batch, steps) if batch_first else (steps, batch)
    return data.new_empty((*shape, *data.shape[1:])), batch_sizes.new_empty((batch,))


def _lstm(
    data: torch.Tensor, batch_sizes: torch.Tensor, hx: Sequence[torch.Tensor], *settings: Any
) -> tuple[torch.Tensor, ...]:
    # params, has_biases, num_layers, dropout, train, bidirectional
    return _output(data, hx[0], settings[5]), hx[0].new_empty(hx[0].shape), hx[1].new_empty(hx[1].shape)


def _rnn(data: torch.Tensor, batch_sizes: torch.Tensor, hx: torch.Tensor, *settings: Any) -> tuple[torch.Tensor, ...]:
    return _output(data, hx, settings[5]), hx.new_empty(hx.shape)


def _output(data: torch.Tensor, hidden: torch.Tensor, bidirectional: bool) -> torch.Tensor:
    return data.new_empty((data.shape[0], hidden.shape[-1] * (2 if bidirectional else 1)))


# Composite operators; and one whose shapes torch has, but not those that its kernel gives.
COMPOSITE: dict[str, Callable[..., Any]] = {
    "aten::_pad_packed_sequence": _pad,
    "aten::lstm.data": _lstm,
    "aten::gru.data": _rnn,
    "aten::rnn_tanh.data": _rnn,
    "aten::rnn_relu.data": _rnn,
}
REPLACED: dict[str, Callable[..., Any]] = {"aten::_pack_padded_sequence": pack}
