"""The function that Python calls for each frame that begins, without those of torch's own operators.

A capture of branches follows the model's frames by `sys.settrace`, for three things: which functions run, whose global
variables the paths are compared by; the iterations of `for` loops; and the numbers that loops change. Rewriting the
functions' syntax trees instead was tried. The functions that will run are not known before they do, so that all of the
model's packages would be compiled again, which takes seconds for a model of transformers, where following frames adds a
tenth to a capture (`bench/python_hooks.py`). Functions without source, such as those of dataclasses, would be left out.

Python calls the function for every frame, and an operator that is run without values has hundreds of them: it is paused
there, and wherever else no code of the model runs.

Python also runs code that nothing of the model calls, between any two of its instructions: the handlers of signals,
what is called before and after a garbage collection, and the finalizers of what it frees. It would be taken for the
model's, which then seems to change its variables. Handlers are not followed, and no collection begins meanwhile.
"""

from __future__ import annotations

import contextlib
import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
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
    """Within this context, a function is called as by `sys.settrace`, but for frames that begin where it is paused.

    Garbage is not collected meanwhile, unless `gc.collect` is called.
    """
    handlers = _handlers()

    def called(frame: FrameType, event: str, argument: Any) -> Any:
        if _thread.is_paused:
            return None
        if frame.f_code in handlers:
            _thread.is_paused = True
            return _resume
        return function(frame, event, argument)

    kept, was_on, collected = sys.gettrace(), _thread.is_on, gc.isenabled()
    _thread.is_on = True
    gc.disable()
    sys.settrace(function if _CAN_SWITCH and not handlers else called)
    try:
        yield
    finally:
        sys.settrace(kept)
        _thread.is_on = was_on
        if collected:
            gc.enable()


def _handlers() -> frozenset[CodeType]:
    """The code of the functions that Python calls at a signal or at a garbage collection."""
    found = [*map(signal.getsignal, signal.valid_signals()), *gc.callbacks]
    called = [each if hasattr(each, "__code__") else type(each).__call__ for each in found if callable(each)]
    return frozenset(code for each in called if isinstance(code := getattr(each, "__code__", None), CodeType))


def _resume(frame: FrameType, event: str, argument: Any) -> Any:
    """Ends the pause in which a handler runs, once it returns."""
    if event == "return":
        _thread.is_paused = False
    return _resume


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
