"""Numbers of an operator's arguments that only a run tells, where what the operator gives is described.

`addmm(x, a, b, beta=s)` with a symbolic `s` has the same shape and dtype for every `s`. torch, which computes them by
running what the operator consists of, asks there whether `s` is 0: a question that stops a capture, or becomes a
condition on a size. So the operator is described for a plain number of the same type. Where it has no translation and
is decomposed, `graph.decompose` refuses a decomposition that asks such a question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

__all__ = ["result_of"]

_PLAIN: dict[type, int | float | bool] = {torch.SymInt: 2, torch.SymFloat: 1.5, torch.SymBool: True}


def result_of(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What an operator gives for tensors without values.

    Symbolic numbers for arguments of the type Scalar are replaced, unless the operator has no tensor argument: numbers
    decide the size of what `arange` gives. Where the operator refuses the number that stands in, as `hardtanh` does for
    a lower bound above the upper one, the symbolic one is used.

    Args:
        function: The operator.
        args: Its positional arguments, without values.
        kwargs: Its keyword arguments, without values.
    """
    if not any(type(value) in _PLAIN for value in (*args, *kwargs.values())):
        return function(*args, **kwargs)
    arguments = function._schema.arguments
    scalars = {argument.name for argument in arguments if _is_scalar(argument)}
    if not scalars or not any(isinstance(value, torch.Tensor) for value in (*args, *kwargs.values())):
        return function(*args, **kwargs)
    plain_args = [
        _plain(value) if argument.name in scalars else value for argument, value in zip(arguments, args, strict=False)
    ]
    plain_kwargs = {name: _plain(value) if name in scalars else value for name, value in kwargs.items()}
    try:
        return function(*plain_args, **plain_kwargs)
    except (RuntimeError, ValueError):
        return function(*args, **kwargs)


def _is_scalar(argument: Any) -> bool:
    return str(argument.type) in ("number", "Optional[number]")


def _plain(value: Any) -> Any:
    return _PLAIN.get(type(value), value)
