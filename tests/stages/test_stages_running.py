"""The stages as they run: told to a listener, with the time that they take."""

from __future__ import annotations

import contextlib

import pytest

from opbridge.stages.running import Stages


class Listener:
    def __init__(self) -> None:
        self.told: list[str] = []

    @contextlib.contextmanager
    def stage(self, name):
        self.told.append(name)
        yield self

    def detail(self, text):
        self.told.append(text)


def test_a_stage_is_told_and_timed():
    listener = Listener()
    stages = Stages(listener)
    with stages.running("plan") as stage:
        stage.detail("3 operators")
    assert listener.told == ["plan", "3 operators"]
    assert set(stages.spent.seconds) == set(stages.spent.peaks) == {"plan"}
    assert stages.spent.seconds["plan"] >= 0 and stages.spent.peaks["plan"] > 0


def test_a_stage_that_fails_has_no_time():
    stages = Stages(None)
    with pytest.raises(ValueError), stages.running("plan"):
        raise ValueError
    assert not stages.spent.seconds
