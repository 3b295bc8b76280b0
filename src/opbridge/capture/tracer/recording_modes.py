"""The modes that record the operators of a graph: before autograd, or after it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torch.nn.attention import SDPBackend, sdpa_kernel

from opbridge.base.torch_private import torch_proxies

__all__ = ["RecordingModes"]


class RecordingModes:
    """The two modes of one graph.

    Args:
        before: The mode that records operators before autograd.
        after: The mode that records operators after autograd and the transforms of torch.func.

    Attributes:
        is_differentiating: Whether operators are being recorded after autograd.
    """

    def __init__(self, before: Any, after: Any) -> None:
        self._before, self._after = before, after
        self.is_differentiating = False

    @contextlib.contextmanager
    def active(self, *, differentiated: bool) -> Iterator[None]:
        """Within this context, one of the modes records operators: the one after autograd, or the other."""
        kept, self.is_differentiating = self.is_differentiating, differentiated
        mode = self._after if differentiated else self._before
        try:
            with _attention(differentiated), torch_proxies.active(mode):
                yield
        finally:
            self.is_differentiating = kept


def _attention(differentiated: bool) -> contextlib.AbstractContextManager[Any]:
    """A context in which the derivatives of attention are those of products and a softmax, not one fused operator."""
    return sdpa_kernel(SDPBackend.MATH) if differentiated else contextlib.nullcontext()
