"""The function that Python calls for each frame that begins, without those of torch's own operators.

A capture of decisions follows the model's frames by `sys.settrace`. Python then calls its function for every frame, and
an operator that is run without values has hundreds of them: a third of the time of such a capture.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

__all__ = ["paused", "tracing"]

_CAN_SWITCH = sys.version_info < (3, 12)
"""Whether it costs nothing to switch tracing off and on: since Python 3.12 all code is instrumented anew."""


class _Thread(threading.local):
    is_on = False
    is_paused = False


_thread = _Thread()


@contextlib.contextmanager
def tracing(function: Callable[[FrameType, str, Any], Any]) -> Iterator[None]:
    """Within this context, a function is called as by `sys.settrace`, but for frames that begin where it is paused."""

    def called(frame: FrameType, event: str, argument: Any) -> Any:
        return None if _thread.is_paused else function(frame, event, argument)

    kept, was_on = sys.gettrace(), _thread.is_on
    _thread.is_on = True
    sys.settrace(function if _CAN_SWITCH else called)
    try:
        yield
    finally:
        sys.settrace(kept)
        _thread.is_on = was_on


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """Within this context, which runs no code of a model, the function of `tracing` is not called for new frames."""
    if not _thread.is_on or _thread.is_paused:
        yield
        return
    traced = sys.gettrace()
    _thread.is_paused = True
    if _CAN_SWITCH:
        sys.settrace(None)
    try:
        yield
    finally:
        if _CAN_SWITCH:
            sys.settrace(traced)
        _thread.is_paused = False
