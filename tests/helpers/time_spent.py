"""A plugin of pytest that notes what each test and each longer-lived fixture takes; bench/suite_time.py reads it.

Wall time, and the processor time of the test's process and of those children that it has waited for. What a server or a
pool of processes computes for a test is in the wall time alone.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

__all__ = ["FOLDER"]

FOLDER = "OPBRIDGE_SUITE_TIME"
"""The variable of the environment that names the folder that is written to."""


def _now() -> tuple[float, float]:
    """Wall time, and the processor time of this process and of the children that it has waited for, in seconds."""
    spent = os.times()
    return time.perf_counter(), spent.user + spent.system + spent.children_user + spent.children_system


def _write(**row: object) -> None:
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    with (Path(os.environ[FOLDER]) / f"{worker}.jsonl").open("a") as file:
        print(json.dumps(row), file=file)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Notes what a test takes, with the set-up of the fixtures that it is the first to ask for."""
    wall, cpu = _now()
    try:
        return (yield)
    finally:
        wall_after, cpu_after = _now()
        _write(test=item.nodeid, wall=wall_after - wall, cpu=cpu_after - cpu)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: pytest.FixtureRequest) -> Iterator[object]:
    """Notes what the set-up of a fixture of a class, a file or a session takes, with the fixtures that it asks for."""
    wall, cpu = _now()
    try:
        return (yield)
    finally:
        wall_after, cpu_after = _now()
        if fixturedef.scope != "function":
            name = f"{fixturedef.baseid}::{fixturedef.argname}"
            _write(fixture=name, test=request.node.nodeid, wall=wall_after - wall, cpu=cpu_after - cpu)
