"""What of Python's objects the functions that run may reach, and what of it has changed."""

from __future__ import annotations

import logging
import sys

from opbridge.capture.control_flow.heap_snapshot import HeapSnapshot

_counts = []


def _counting(snapshot):
    known = snapshot.note(sys._getframe())
    _counts.append(0)
    return known


def test_a_function_that_writes_a_log_is_looked_at_when_the_model_calls_it():
    snapshot, known = HeapSnapshot([]), []

    class Handler(logging.Handler):
        def emit(self, record):
            known.append(_counting(snapshot))

    logger = logging.Logger("of_this_test")
    logger.addHandler(Handler())
    logger.warning("It calls the function.")
    assert known == [False]
    assert list(snapshot.changed()) == []

    assert _counting(snapshot)
    assert not list(snapshot.changed())
    assert snapshot.grown
    _counts.clear()
    assert [what.partition(" ")[0] for what, _ in snapshot.changed()] == ["list"]
