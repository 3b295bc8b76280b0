"""The function that Python calls for frames, which is paused while torch's operators run."""

from __future__ import annotations

import contextlib
import gc
import signal
import sys

import pytest

from opbridge.base.python_private.tracing import paused, tracing


def _outer():
    _traced()
    with paused():
        _untraced()
        with paused():
            _untraced()
        _untraced()
    _traced()


def _traced():
    pass


def _untraced():
    pass


def test_frames_that_begin_while_it_is_paused_are_left_out():
    before, called = sys.gettrace(), []
    with tracing(lambda frame, event, argument: called.append(frame.f_code.co_name)):
        _outer()
    _traced()

    assert [name for name in called if name in ("_outer", "_traced", "_untraced")] == ["_outer", "_traced", "_traced"]
    assert sys.gettrace() is before


def test_pausing_changes_nothing_where_nothing_is_traced():
    before = sys.gettrace()
    with paused():
        assert sys.gettrace() is before
    assert sys.gettrace() is before


class _Handler:
    """An object that is called, as a handler of signals and as a callback of garbage collections."""

    def __call__(self, *given):
        _untraced()


def _handle(*given):
    _untraced()


def _fail(*given):
    raise LookupError


@pytest.mark.parametrize("handler", [_handle, _Handler(), _Handler().__call__], ids=["function", "object", "method"])
def test_handlers_and_what_they_call_are_left_out(handler):
    """As Python runs them between any two instructions of what is followed."""
    gc.callbacks.append(handler)
    kept = signal.signal(signal.SIGUSR1, handler)
    called = []
    try:
        with tracing(lambda frame, event, argument: called.append(frame.f_code.co_name)):
            _traced()
            signal.raise_signal(signal.SIGUSR1)
            gc.collect()
            _traced()
    finally:
        signal.signal(signal.SIGUSR1, kept)
        gc.callbacks.remove(handler)
    assert called.count("_traced") == 2 and not {"_untraced", "_handle", "__call__"} & set(called)


def test_a_handler_that_raises_ends_its_pause():
    kept = signal.signal(signal.SIGUSR1, _fail)
    called = []
    try:
        with tracing(lambda frame, event, argument: called.append(frame.f_code.co_name)):
            with contextlib.suppress(LookupError):
                signal.raise_signal(signal.SIGUSR1)
            _traced()
    finally:
        signal.signal(signal.SIGUSR1, kept)
    assert "_traced" in called and "_fail" not in called


def test_no_garbage_is_collected_meanwhile():
    assert gc.isenabled()
    with tracing(lambda frame, event, argument: None):
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with tracing(lambda frame, event, argument: None):
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
