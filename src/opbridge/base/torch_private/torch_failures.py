"""What torch's errors in a capture mean. Most have a type of their own, which no public module names.

An input and an output of an unknown class have none, and are told by what torch says.

Checked on torch 2.13.0, 2.14.1 and 2.15.0.
"""

from __future__ import annotations

import re

__all__ = [
    "has_unknown_output",
    "is_data_dependent",
    "is_shape_violation",
    "lacks_fake_implementation",
    "unknown_input",
]


def is_data_dependent(error: BaseException) -> bool:
    """Whether Python needed a value that depends on data."""
    from torch._subclasses.fake_tensor import DataDependentOutputException
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    return isinstance(error, DataDependentOutputException | GuardOnDataDependentSymNode)


def is_shape_violation(error: BaseException) -> bool:
    """Whether the model and the dynamic shapes contradict each other."""
    from torch._dynamo.exc import UserError, UserErrorType
    from torch.fx.experimental.symbolic_shapes import ConstraintViolationError

    if isinstance(error, UserError):
        return error.error_type is UserErrorType.CONSTRAINT_VIOLATION
    return isinstance(error, ConstraintViolationError)


def lacks_fake_implementation(error: BaseException) -> bool:
    """Whether an operator cannot run without values."""
    from torch._subclasses.fake_tensor import UnsupportedOperatorException

    return isinstance(error, UnsupportedOperatorException)


def has_unknown_output(error: BaseException) -> bool:
    """Whether the model returns an object of a class, other than NumPy's, that is not registered."""
    return re.match(r"Found <class '(?!numpy)", str(error)) is not None


def unknown_input(error: BaseException) -> str | None:
    """The class of an input that is not registered; None where the error says something else."""
    found = re.match(r"Unsupported input type <class '([^']+)'>", str(error))
    return None if found is None else found[1]
