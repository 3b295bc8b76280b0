"""PyTorch's own test database of operators, op_db: the only place that touches it.

It is a private interface of torch, checked on torch 2.15.0 and 2.13.0. An OpInfo has `name`, `variant_test_name`, `op`
(what calls it), `dtypes` (those on a CPU) and `sample_inputs(device, dtype, requires_grad)`, which yields SampleInputs
of `input`, `args` and `kwargs`.
"""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from opbridge.coverage.entries import Entry, Sample
from opbridge.errors import UsageError
from opbridge.graph.operators import UNINITIALIZED

__all__ = ["entries", "entry"]

_ANY_ORDER = frozenset({"argsort", "kthvalue", "msort", "sort", "topk"})
_MEMORY = "its values are uninitialized memory"


def entries() -> list[Entry]:
    """The whole of op_db, in its order.

    Raises:
        UsageError: a package that it needs is not installed.
    """
    with warnings.catch_warnings(), _silenced("torch.utils.cpp_extension"):  # no CUDA is no news here
        warnings.simplefilter("ignore")
        try:
            from torch.testing._internal import common_methods_invocations as invocations
        except ModuleNotFoundError as error:
            raise UsageError(
                f"PyTorch's operator test database requires {error.name}, which is not installed: pip install "
                "'opbridge[coverage]'."
            ) from error
    # Random operators are wrapped, so that they always draw the same: an exported model could never agree with that.
    invocations.wrapper_set_seed = _as_it_is
    return [entry(info) for info in invocations.op_db]


@contextlib.contextmanager
def _silenced(name: str) -> Iterator[None]:
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _as_it_is(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


def entry(info: Any) -> Entry:
    """An OpInfo as an entry."""

    def samples(dtype: torch.dtype) -> Iterator[Sample]:
        for sample in info.sample_inputs("cpu", dtype, requires_grad=False):
            yield Sample((sample.input, *sample.args), dict(sample.kwargs))

    undefined = _MEMORY if info.name in UNINITIALIZED else ""
    any_order = info.name in _ANY_ORDER
    return Entry(info.name, info.op, samples, tuple(info.dtypes), info.variant_test_name, undefined, any_order)
