"""Settings for every test, and the choice of tests for `make quick`."""

from __future__ import annotations

import os

import pytest

# pytest-xdist starts one process a core. More threads in each of them, or in a process that a test starts, only take
# turns; a test that is about threads asks for them. OpenMP reads this when torch is imported, so it is set before.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quick",
        action="store_true",
        help="run the first row of each parametrised test, no test marked slow, and what is marked quick",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("quick"):
        return
    chosen: dict[object, pytest.Item] = {}
    for item in items:
        if item.get_closest_marker("quick"):
            chosen[item.nodeid] = item
        elif not item.get_closest_marker("slow"):
            # The rows of a test are items of one function.
            chosen.setdefault((item.path, getattr(item, "originalname", item.name), item.parent), item)
    kept = set(chosen.values())
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


@pytest.fixture
def one_side(monkeypatch):
    """A capture is for the sizes of the example's side alone, as where that of another side fails."""
    from opbridge.capture import all_sizes

    monkeypatch.setattr(all_sizes, "capture_sides", lambda *args: None)
