"""Settings for every test: what is drawn and skipped, and what each command of the Makefile chooses."""

from __future__ import annotations

import gc
import importlib.util
import logging
import os
import random
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

# pytest-xdist starts one process a core. More threads in each of them, or in a process that a test starts, only take
# turns; a test that is about threads asks for them. OpenMP reads this when torch is imported, so it is set before.
os.environ.setdefault("OMP_NUM_THREADS", "1")

_TESTS = Path(__file__).parent
TOUCHING_TORCH = (
    *(
        "base",
        "capture",
        "graph",
        "model_support",
        "nodes",
        "plan",
        "recording",
        "symbolics",
        "tasks",
        "torchscript",
        "translate",
    ),
    *("translations/lib", "verification", "test_pipeline.py", "test_stock_cases.py"),
    *("kernels/test_aten_allowed.py", "kernels/test_aten_checks.py", "kernels/test_aten_evidence.py"),
    *("kernels/test_aten_kernel.py", "kernels/test_kernel_load.py", "kernels/test_kernel_views.py"),
    "kernels/test_device_launches.py",
)
"""What may depend on the release of torch by more than an operator's results: `make test-torch` runs it, with half of
its slow tests."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quick",
        action="store_true",
        help="run what is marked quick, and of the tests marked neither slow nor long half, which --seed chooses, with "
        "the first row of each",
    )
    parser.addoption(
        "--touching-torch",
        action="store_true",
        help="run the tests of what depends on the release of torch, with half of the slow ones, and of all others "
        "the first row, if they are neither slow nor long",
    )
    parser.addoption(
        "--thorough",
        action="store_true",
        help="run the tests marked thorough too, which are further models, sizes and architectures for the same code, "
        "and all tests marked slow where no file and no -k is given: without it half of them, which --seed chooses",
    )
    parser.addoption(
        "--sampled",
        action="store_true",
        help="half of the tests marked slow, also where a file or -k is given, and with --thorough a quarter of those "
        "marked thorough; --seed chooses",
    )
    parser.addoption(
        "--other-half",
        action="store_true",
        help="of the tests of which half run, the half that --seed does not choose",
    )
    parser.addoption(
        "--seed",
        default="0",
        help="what tests draw at random is drawn from it and from the test's name: a number, or 'random' for any",
    )


def pytest_configure(config: pytest.Config) -> None:
    chosen = config.getoption("seed")
    if hasattr(config, "workerinput"):  # the processes of pytest-xdist draw from the same seed
        chosen = config.workerinput["seed"]
        config.option.whole_suite = config.workerinput["whole_suite"]
    else:
        config.option.whole_suite = config.args_source is not config.ArgsSource.ARGS and not config.option.keyword
    if chosen == "random":
        chosen = str(random.SystemRandom().randrange(2**31))
    if not chosen.isdecimal():
        raise pytest.UsageError(f"--seed takes a number or 'random', not {chosen!r}.")
    config.option.seed = chosen


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["seed"] = node.config.option.seed
    node.workerinput["whole_suite"] = node.config.option.whole_suite


def pytest_report_header(config: pytest.Config) -> str:
    return f"random numbers: --seed {config.option.seed}"


def _draw_from(config: pytest.Config, name: str) -> None:
    """Makes what is drawn from here on depend on the seed and this name alone, and not on what ran before."""
    seed = zlib.crc32(f"{config.option.seed} {name}".encode())
    random.seed(seed)
    np.random.seed(seed)
    if (torch := sys.modules.get("torch")) is not None:
        torch.default_generator.manual_seed(seed)  # torch.manual_seed keeps the stack each time, for CUDA


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Modules and tests last as long as the process: to look for garbage among them takes a second each time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        gc.set_threshold(20_000, 10, 10)  # most of what tests make is freed without it, and torch makes much


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Before a file is imported, which may draw constants."""
    if isinstance(collector, pytest.Module):
        _draw_from(collector.config, collector.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: pytest.FixtureRequest) -> Iterator[object]:
    if fixturedef.scope != "function":
        _draw_from(request.config, f"{fixturedef.baseid}::{fixturedef.argname} {request.param_index}")
    return (yield)


def pytest_collection_finish() -> None:
    """pytest 9.1 and later listen to every logger that does not propagate, and torch writes a stack for each guard that
    it sets to this one while anybody listens: a fifth of the time of a capture. torch's own handler leaves at the first
    line, which would then be printed."""
    structured = logging.getLogger("torch.__trace")
    structured.handlers.clear()
    for name, logger in logging.root.manager.loggerDict.items():
        if name.startswith("torch") and isinstance(logger, logging.Logger):
            logger.propagate = True  # the others take pytest's handlers and lose them six times for each test


@pytest.fixture(autouse=True)
def _drawn_from_the_seed(request: pytest.FixtureRequest) -> None:
    _draw_from(request.config, request.node.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[Any]:
    report = yield
    if report.failed:
        report.sections.append(("random numbers", f"drawn with --seed {item.config.option.seed}"))
    return report


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if importlib.util.find_spec("torchvision") is None:
        for item in items:
            if item.get_closest_marker("torchvision"):
                item.add_marker(pytest.mark.skip(reason="torchvision is not installed"))
    items.sort(key=lambda item: item.get_closest_marker("long") is None)  # of two others, the order stays
    is_thorough = config.getoption("thorough")
    for item in items:
        if not is_thorough and item.get_closest_marker("thorough") and not item.get_closest_marker("quick"):
            item.add_marker(pytest.mark.skip(reason="marked thorough: --thorough runs it too"))
    is_sampled = config.getoption("sampled")
    if (is_sampled or (config.option.whole_suite and not is_thorough)) and not config.getoption("quick"):
        number = int(config.option.seed) + config.getoption("other_half")
        reason = "half of the slow tests: --other-half runs it instead, --thorough runs all"
        for item in _left_out(items, "slow", number % 2, 2):
            item.add_marker(pytest.mark.skip(reason=reason))
        if is_thorough:
            reason = "a quarter of the thorough tests runs: another --seed chooses another one"
            for item in _left_out(items, "thorough", number % 4, 4):
                item.add_marker(pytest.mark.skip(reason=reason))
    if not (config.getoption("quick") or config.getoption("touching_torch")):
        return
    kept = _quick(items)
    if config.getoption("quick"):
        kept.difference_update(_other_half(items, kept, int(config.option.seed) + config.getoption("other_half")))
    if config.getoption("touching_torch"):
        kept.update(item for item in items if _touches_torch(item.path))
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def _quick(items: list[pytest.Item]) -> set[pytest.Item]:
    """The first row of each test that is neither slow nor long, and what is marked quick."""
    chosen: dict[object, pytest.Item] = {}
    for item in items:
        if item.get_closest_marker("quick"):
            chosen[item.nodeid] = item
        elif not item.get_closest_marker("slow") and not item.get_closest_marker("long"):
            chosen.setdefault(_test_of(item), item)
    return set(chosen.values())


def _other_half(items: list[pytest.Item], kept: set[pytest.Item], number: int) -> Iterator[pytest.Item]:
    """Every second one of the tests of a file that are kept, without what is marked quick.

    Args:
        items: The tests that were collected, in order.
        kept: Those that are kept.
        number: The seed, or the next number for the other half.
    """
    places: Counter[Path] = Counter()
    for item in items:
        if item in kept and not item.get_closest_marker("quick"):
            places[item.path] += 1
            if (places[item.path] + zlib.crc32(item.path.name.encode()) + number) % 2:
                yield item


def _test_of(item: pytest.Item) -> object:
    """What tells a test from others: its rows are items of one function."""
    return item.path, getattr(item, "originalname", item.name), item.parent


def _left_out(items: list[pytest.Item], mark: str, part: int, parts: int) -> Iterator[pytest.Item]:
    """All but each second, or fourth, row of each test marked slow, or thorough, and of such tests without rows.

    The parts are all of them, without what is marked quick; what is marked both slow and thorough counts as thorough.

    Args:
        items: The tests that were collected.
        mark: The mark.
        part: The part that is kept.
        parts: How many there are.
    """
    rows: Counter[object] = Counter()
    for item in items:
        marks = [each for each in ("quick", "thorough", "slow") if item.get_closest_marker(each)]
        if not marks or marks[0] != mark:
            continue
        test = _test_of(item)
        row = zlib.crc32(item.nodeid.partition("[")[0].encode()) + rows[test]
        rows[test] += 1
        if row % parts != part:
            yield item


def _touches_torch(path: Path) -> bool:
    within = path.relative_to(_TESTS)
    return any(within.is_relative_to(each) for each in TOUCHING_TORCH)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """How many tests are skipped for each reason: a reason with a file's name in it is one for all files."""
    counts: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", ()):
        _, _, reason = report.longrepr if isinstance(report.longrepr, tuple) else ("", 0, str(report.longrepr))
        counts[reason.removeprefix("Skipped: ")] += 1
    if not counts:
        return
    terminalreporter.section(f"skipped: {sum(counts.values())}")
    for reason, count in counts.most_common():
        terminalreporter.write_line(f"{count:5d}  {reason}")


@pytest.fixture
def one_branch(monkeypatch):
    """A capture is for the sizes of the example's side alone, as where that of another side fails."""
    from opbridge.capture import all_sizes

    monkeypatch.setattr(all_sizes, "capture_branches", lambda *args: None)


@pytest.fixture
def one_process(monkeypatch):
    """A repaired or converted model and the original are compared in this process, and not in processes of their own.

    `tests/fixing/test_fix.py`, `tests/conversion/` and the tests of commands leave them there.
    """
    from opbridge.side_by_side import running

    apart = running.open_session
    monkeypatch.setattr(running, "open_session", lambda model, _, **options: apart(model, False, **options))
