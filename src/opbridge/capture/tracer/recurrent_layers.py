"""What torch checks of packed sequences in Python, where sizes are symbolic or depend on data."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch
from torch.nn.utils import rnn

__all__ = ["checking_symbolic_sizes"]

_PADDING = "pad_packed_sequence"


@contextlib.contextmanager
def checking_symbolic_sizes() -> Iterator[None]:
    """Within this context, these checks state what has to hold of sizes, in place of asking whether it does.

    1. A state of a recurrent layer has the batch of the packed sequences, for which torch wants a Python int.
    2. No sequence is longer than the length that sequences are padded to.
    """
    layer: Any = torch.nn.RNNBase
    check, pad = layer.check_forward_args, rnn.pad_packed_sequence
    replaced = _importing_padding(len(sys.modules), next(reversed(sys.modules)))
    layer.check_forward_args = _checking_states(check)
    originals = [(names, names[_PADDING]) for names in replaced if names.get(_PADDING) is pad]
    for names, _ in originals:
        names[_PADDING] = _checking_length(pad)
    try:
        yield
    finally:
        layer.check_forward_args = check
        for names, function in originals:
            names[_PADDING] = function


@functools.lru_cache(maxsize=1)
def _importing_padding(count: int, latest: str) -> list[dict[str, Any]]:
    """The names of each module that has the function of packed sequences among them.

    Args:
        count: How many modules are imported: another number has them looked at again.
        latest: The name of the last one.
    """
    modules = list(sys.modules.values())
    return [vars(each) for each in modules if isinstance(each, ModuleType) and _PADDING in vars(each)]


def _checking_states(original: Any) -> Any:
    @functools.wraps(original)
    def check(self: Any, input: torch.Tensor, hidden: torch.Tensor, batch_sizes: torch.Tensor | None) -> None:
        if batch_sizes is None:
            original(self, input, hidden, batch_sizes)
            return
        self.check_input(input, batch_sizes)
        batch, count = batch_sizes[0].item(), self.num_layers * (2 if self.bidirectional else 1)
        if hidden.dim() == 3:
            _state(hidden.shape[1] == batch)
        self.check_hidden_size(hidden, (count, batch, self.proj_size or self.hidden_size))

    return check


def _checking_length(original: Any) -> Any:
    @functools.wraps(original)
    def pad(
        sequence: Any, batch_first: bool = False, padding_value: float = 0.0, total_length: Any = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if total_length is not None:
            _state(total_length >= sequence.batch_sizes.size(0))
        return original(sequence, batch_first, padding_value, total_length)

    return pad


def _state(condition: Any) -> None:
    """States a condition on symbolic sizes."""
    if isinstance(condition, torch.SymBool):
        torch._check(condition)
