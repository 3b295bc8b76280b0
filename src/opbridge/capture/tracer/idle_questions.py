"""Questions about sizes and data that a model asks, and whose answers it does not use."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

import torch

from opbridge.base.attributes import replacing
from opbridge.base.python_private.short_circuits import answer_without_effect

__all__ = ["leaving_out_idle_questions"]


@contextlib.contextmanager
def leaving_out_idle_questions() -> Iterator[None]:
    """Within this context, a symbolic truth value is not asked for where an expression does not depend on it.

    As in transformers' `is_causal = q_length > 1 and attention_mask is None and is_causal`, for a layer that is not
    causal. Asked, it would be a decision of the capture, or a condition on the sizes.
    """
    original = torch.SymBool.__bool__

    def asked(self: torch.SymBool) -> bool:
        idle = answer_without_effect(sys._getframe(1))
        return original(self) if idle is None else idle

    with replacing((torch.SymBool, "__bool__", asked)):
        yield
