"""Errors that are faults of opbridge, where a capture that fails is given up for another one.

A capture may fail by whatever the model or torch raises, so that what gives it up handles every exception. A fault of
opbridge would be hidden so, as a model that "cannot be joined".
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["raise_own_fault"]

_PACKAGE = os.path.join(Path(__file__).parents[1], "")  # not that of a package whose name begins as this one's
_KINDS = (AssertionError, AttributeError, KeyError, NameError)
"""What no function of torch's raises for the arguments that it is given, and a model raises in its own lines alone."""


def raise_own_fault(error: BaseException) -> None:
    """Raises an error again that a line of opbridge has raised, and that is no answer to what a model does.

    Args:
        error: What was raised while a model was captured.

    Raises:
        Exception: The error, where it is such a fault.
    """
    trace = error.__traceback__
    if trace is None or not isinstance(error, _KINDS):
        return
    while trace.tb_next is not None:
        trace = trace.tb_next
    if trace.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        raise error
