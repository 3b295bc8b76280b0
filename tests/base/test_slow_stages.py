"""What is logged of a stage that takes long."""

from __future__ import annotations

import threading

from opbridge.base.slow_stages import LoggedStages


def test_a_stage_that_takes_long_is_logged(caplog):
    logged = threading.Event()
    caplog.handler.addFilter(lambda record: logged.set() or True)
    with LoggedStages(0.001).stage("capture") as stage:
        stage.detail("execution 2 of the model (a larger example)")
        assert logged.wait(10)
        logged.clear()
        assert logged.wait(10)
    said = caplog.messages[-1]
    assert said.startswith("capture has run for 0 s: execution 2 of the model (a larger example). To limit the time")
    assert {record.name for record in caplog.records} == {"opbridge"}


def test_nothing_is_logged_of_a_short_stage(caplog):
    with LoggedStages().stage("plan"):
        pass
    assert not caplog.records
