"""Files that are tried in processes that may crash or hang: what came of each call, and what must not come of it."""

from __future__ import annotations

import collections
import contextlib
import io
import json
import os
import resource
import select
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

__all__ = ["Unfit", "command", "in_child", "run_batch"]

_LIMIT_SECONDS = 5.0
_HANGING_SECONDS = 60.0
"""The time of a process without an answer after which it hangs."""

_WAITING_SECONDS = 600.0
"""The same by the clock, for one that waits for ever; on a busy machine, one that does not may get
a small part of the time."""

_LOOKING_SECONDS = 5.0
_MEMORY_BYTES = 8 << 30
_CONTROL = {*range(9), *range(11, 32), *range(127, 160)}

Calls = Callable[[int], Iterator[tuple[str, Callable[[], None]]]]
"""What is done with the file of a number: names and calls."""


def run_batch(
    calls: Calls,
    seed: int,
    numbers: range,
    end: float,
    outcomes: collections.Counter[str],
    found: list[dict[str, Any]],
) -> int:
    """Tries files in one process until it is done or lost. Returns the number of the next file."""
    reading, writing = os.pipe()
    if not (child := os.fork()):
        os.close(reading)
        _limited(lambda: _try_files(calls, numbers, end, os.fdopen(writing, "w", buffering=1)))
    os.close(writing)
    at, doing, hung = numbers.start, "", False
    with os.fdopen(reading) as lines:
        while True:
            if not _answers(lines, child):
                os.kill(child, signal.SIGKILL)
                hung = True
            line = lines.readline()
            if not line:
                break
            said = json.loads(line)
            at, doing = said["number"], said["doing"]
            if "outcome" in said:
                outcomes[said["outcome"]] += 1
                doing = ""
            if "finding" in said:
                found.append({"number": at, "seed": seed, "what": said["finding"]})
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status or doing:
        what = f"no answer in {_HANGING_SECONDS:.0f} s of its time" if hung else f"the process ended with {status}"
        found.append({"number": at, "seed": seed, "what": f"{doing}: {what}"})
        outcomes["crash"] += 1
        return at + 1
    return at + 1


def _answers(lines: Any, child: int) -> bool:
    """Whether a process writes a line before it has used the time that one may take."""
    used, start = _seconds_of(child), time.monotonic()
    while not select.select([lines], [], [], _LOOKING_SECONDS)[0]:
        if _seconds_of(child) - used > _HANGING_SECONDS or time.monotonic() - start > _WAITING_SECONDS:
            return False
    return True


def _seconds_of(process: int) -> float:
    """The time that a process has used of the processors, with that of the processes that it has waited for."""
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:  # it has ended
        return 0.0
    return sum(map(int, text.rpartition(")")[2].split()[11:15])) / os.sysconf("SC_CLK_TCK")


def _try_files(calls: Calls, numbers: range, end: float, out: Any) -> None:
    for number in numbers:
        if time.monotonic() > end:
            return
        for name, call in calls(number):
            out.write(json.dumps({"number": number, "doing": name}) + "\n")
            outcome, finding = _outcome(call)
            said = {"number": number, "doing": "", "outcome": outcome}
            if finding:
                said.update(finding=f"{name}: {finding}")
            out.write(json.dumps(said) + "\n")


class Unfit(Exception):
    """What a command must not say."""


def command(arguments: list[str]) -> None:
    from opbridge.cli import main

    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        status = main(arguments)
    if status not in (0, 1, 2) or "Internal error in opbridge" in said.getvalue():
        raise Unfit(f"exit status {status}: {said.getvalue()[-500:]}")
    _check_printable(said.getvalue())


def _check_printable(text: str) -> None:
    if any(ord(each) in _CONTROL for each in text):
        raise Unfit(f"control characters: {text[:500]!r}")


def _outcome(call: Callable[[], None]) -> tuple[str, str]:
    """What came of a call, and what is wrong with that; "" where nothing is."""
    from opbridge.errors import OpbridgeError

    wall, cpu = time.perf_counter(), time.process_time()
    finding = ""
    try:
        call()
        outcome = "result"
    except OpbridgeError as error:
        outcome = type(error).__name__
        if error.exit_status not in (1, 2):
            finding = f"exit status {error.exit_status}: {error}"
        try:
            _check_printable(str(error))
        except Unfit as unfit:
            finding = str(unfit)
    except BaseException as error:  # what it should not raise
        outcome = "other"
        finding = f"{type(error).__name__}: {str(error)[:500]} at {_place(error)}"
    # On a machine that does other things too, the time of this process is the fairer measure.
    seconds = min(time.perf_counter() - wall, time.process_time() - cpu)
    if seconds > _LIMIT_SECONDS:
        finding = finding or f"took {seconds:.1f} s"
    return outcome, finding


def _place(error: BaseException) -> str:
    import traceback

    return " < ".join(
        f"{Path(each.filename).name}:{each.lineno}" for each in traceback.extract_tb(error.__traceback__)[:-6:-1]
    )


def _limited(work: Callable[[], None]) -> None:
    """Does some work in a forked process, quietly and within limits, and ends it."""
    status = 1
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGESIZE")
        resource.setrlimit(resource.RLIMIT_AS, (used + _MEMORY_BYTES,) * 2)
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        if not os.environ.get("ATTACK_DEBUG"):
            os.dup2(silent, 2)
        work()
        status = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(status)


def in_child(work: Callable[[], None]) -> int:
    if not (child := os.fork()):
        _limited(work)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
