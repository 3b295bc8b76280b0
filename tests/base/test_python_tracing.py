"""The function that Python calls for frames, which is paused while torch's operators run."""

from __future__ import annotations

import sys

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
