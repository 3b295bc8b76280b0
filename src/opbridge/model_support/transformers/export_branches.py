"""What transformers does otherwise while a model is exported, where that is for exporters that lack an operator.

The chunks of a gated delta rule solve a triangular system by one operator; in an export they do it by 63 writes to a
tensor, each of which a capture follows. opbridge has the operator, and takes what the model does outside of an export.
The operator's result lies in memory column by column. Here it is put in order, as the other branch's is: what is shaped
after it would be copied where the loop over chunks has no iteration, and be a view where it has one, and not be joined.

Checked on transformers 5.24.
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

from opbridge.base.attributes import replacing
from opbridge.model_support.model_modules import functions_of, modules_of

__all__ = ["as_outside_of_exports"]

_IS_EXPORTING = "is_torchdynamo_exporting"
_OPERATOR = "solve_triangular"


@contextlib.contextmanager
def as_outside_of_exports(module: torch.nn.Module) -> Iterator[None]:
    """Within this context, functions of the modules of a model's classes that lack an operator in an export have it."""
    found = [each for each in modules_of(module) if _chooses(each)]
    replaced = [(each, _IS_EXPORTING, lambda: False) for each in found]
    with replacing(
        *replaced, *([(torch.linalg, _OPERATOR, _in_order(torch.linalg.solve_triangular))] if found else [])
    ):
        yield


def _in_order(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """The operator, whose result has the strides of a contiguous tensor."""

    @functools.wraps(original)
    def solved(*args: Any, **settings: Any) -> torch.Tensor:
        return original(*args, **settings).contiguous()

    return solved


@functools.cache
def _chooses(module: types.ModuleType) -> bool:
    """Whether a module asks for an export only where it chooses between the operator and what stands for it."""
    if _IS_EXPORTING not in vars(module):
        return False
    asking = [each for each in functions_of(module) if _IS_EXPORTING in each.__code__.co_names]
    return bool(asking) and all(_OPERATOR in each.__code__.co_names for each in asking)
