"""Makes the calls of operators in processes that may crash, and keeps a journal.

    python -m attack.operator_server JOURNAL --seed 0 --calls 2000 --seconds 3600 [--only 'aten::a*'] [--share 0/2]

It has to be started in the environment of `guard.environment`. For each operator a process is forked, which makes calls
until one is a finding; after a call that takes too long another one goes on. The same seed makes the same calls.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import itertools
import mmap
import os
import random
import resource
import select
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from attack import guard, handmade, overloads, samples
from attack.drawing import Drawer
from attack.guarded_calls import Checker
from attack.journal import Journal, Record

__all__ = ["Limits", "serve"]

_ADDRESS_SPACE = 24 << 30
"""Of a process beside what it has; guarded memory takes 13 GiB of it, of which 48 MiB may be in use."""

_MOST_SLOW = 40
_IN_VAIN = 500
"""Calls after which an operator is left alone of which none ran."""

_WALL_SECONDS = 60.0
_TEXT = 6000


class _Status(ctypes.Structure):
    """What a process says of itself, in memory that outlives it."""

    _fields_ = (
        ("fault", guard.Fault),
        ("number", ctypes.c_int64),
        ("ran", ctypes.c_int64),
        ("found", ctypes.c_char * 200),
        ("described", ctypes.c_char * _TEXT),
    )


class Limits:
    """Of a campaign.

    Args:
        calls: Of each operator.
        seconds: Of processor time, that a call may take.
        deadline: When to stop, as `time.monotonic` has it.
    """

    def __init__(self, calls: int = 2000, seconds: float = 0.2, deadline: float = float("inf")) -> None:
        self.calls, self.seconds, self.deadline = calls, seconds, deadline


def serve(names: Iterable[tuple[str, int]], found: dict[str, list[Any]], limits: Limits, journal: Journal) -> None:
    """Makes the calls of each operator, from a seed, that the journal does not have yet."""
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    warnings.filterwarnings("ignore")
    shared = mmap.mmap(-1, ctypes.sizeof(_Status))
    status = _Status.from_buffer(shared)
    Drawer(overloads.overload("aten::relu"), "")  # makes what all processes share
    gc.collect()
    gc.freeze()
    for name, seed in names:
        if journal.has(name, seed):
            continue
        record = _calls_of(name, found.get(name, ()), seed, limits, status)
        if record is None:
            return
        journal.add(record)


def _calls_of(name: str, found: Sequence[Any], seed: int, limits: Limits, status: _Status) -> Record | None:
    """What the calls of an operator came to; None where there was no time left."""
    record = Record(name, seed=seed)
    start = 0
    began = time.monotonic()
    while start < limits.calls and record.slow < _MOST_SLOW:
        if time.monotonic() > limits.deadline:
            return None
        ended = _forked(name, found, seed, start, limits, status)
        record.ran += status.ran
        number = status.number
        record.calls = number + 1
        what = _what(ended, status)
        if what == "slow":
            record.slow += 1
            start = number + 1
            continue
        if what:
            described = status.described or _described(name, found, seed, start, number, limits, status)
            record.finding(what, start=start, number=number, call=described.decode(errors="replace"))
        break
    record.seconds = round(time.monotonic() - began, 1)
    return record


def _forked(
    name: str, found: Sequence[Any], seed: int, start: int, limits: Limits, status: _Status, describe: int = -1
) -> int:
    """Makes calls in a process of its own; returns the signal that ended it, or 0."""
    ctypes.memset(ctypes.addressof(status), 0, ctypes.sizeof(status))
    status.number = start
    child = os.fork()
    if child == 0:
        try:
            _work(name, found, seed, start, limits, status, describe)
        except BaseException:  # a fault of the campaign's own
            status.found = traceback.format_exc()[-199:].encode()
        finally:
            os._exit(0)
    return _waited(child, status)


def _waited(child: int, status: _Status) -> int:
    """Waits for a process; ends it where one call takes too long by the clock on the wall."""
    handle = os.pidfd_open(child)
    try:
        seen = -1
        while not select.select([handle], [], [], _WALL_SECONDS)[0]:
            if status.number == seen:
                os.kill(child, signal.SIGKILL)
            seen = status.number
    finally:
        os.close(handle)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _work(
    name: str, found: Sequence[Any], seed: int, start: int, limits: Limits, status: _Status, describe: int
) -> None:
    """The process that may crash."""
    _silence()
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + _ADDRESS_SPACE, used + _ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    guard.library().guard_report(ctypes.addressof(status))
    target = overloads.overload(name)
    drawer, checker = Drawer(target, f"{seed} {name} {start}", found), Checker(target)
    for number in range(start, limits.calls):
        args, kwargs = drawer.call()
        status.number = number
        if number == describe:
            status.described = text_of(args, kwargs).encode(errors="replace")[: _TEXT - 1]
        signal.setitimer(signal.ITIMER_PROF, limits.seconds)
        ran, what = checker.check(args, kwargs)
        signal.setitimer(signal.ITIMER_PROF, 0)
        if ran:
            status.ran += 1
            drawer.keep((args, kwargs))
        if number == _IN_VAIN and status.ran == 0 and start == 0:
            return
        if what:
            status.described = text_of(args, kwargs).encode(errors="replace")[: _TEXT - 1]
            status.found = what.encode()
            return


def _silence() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)


def _what(ended: int, status: _Status) -> str:
    """What a process came to: "" where it made all calls, "slow" where one took too long."""
    if ended in (-signal.SIGPROF, -signal.SIGKILL):
        return "slow"
    if ended == 0:
        return str(status.found.decode())
    number = -ended if ended < 0 else ended
    if number in (signal.SIGSEGV, signal.SIGBUS) and status.fault.signal:
        return "writes out of bounds" if status.fault.is_write else "reads out of bounds"
    return f"ends the process ({signal.Signals(number).name})" if ended < 0 else f"ends the process (exit {ended})"


def _described(
    name: str, found: Sequence[Any], seed: int, start: int, number: int, limits: Limits, status: _Status
) -> bytes:
    """The arguments of the call that ended a process."""
    fault = guard.Fault.from_buffer_copy(status.fault)
    _forked(name, found, seed, start, limits, status, describe=number)
    described = bytes(status.described)
    status.fault = fault
    return described


def text_of(args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    """A call's arguments, as a person reads them."""
    words = [_text(each) for each in args] + [f"{name}={_text(each)}" for name, each in kwargs.items()]
    return ", ".join(words)


def _text(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        numbers = value.reshape(-1)[:24].tolist()
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)} {numbers}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_text, value))}]"
    return repr(value)[:300]


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("journal", type=Path)
    parser.add_argument("--samples", type=Path, default=Path("build/attack"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--only", default="*")
    parser.add_argument("--share", default="0/1", help="which part of the operators: 0/2 and 1/2 are halves")
    parser.add_argument("--by-default", action="store_true", help="only operators that a file may run without naming")
    parser.add_argument("--most", type=int, help="so many operators, of any")
    parser.add_argument("--endless", action="store_true", help="in a random order, and again from another seed")
    given = parser.parse_args()
    names = overloads.candidates(given.only, by_default=given.by_default)
    release = torch.__version__.partition("+")[0]
    found = samples.recorded(given.samples / f"samples-{release}.pt", set(overloads.candidates()))
    for name, made in handmade.calls().items():
        found[name] = [*found.get(name, ()), *made]
    which, of = map(int, given.share.split("/"))
    names.sort(key=lambda name: name not in found)  # those first that people call
    names = names[which::of]
    order = _endless(names, given.seed) if given.endless else ((name, given.seed) for name in names)
    limits = Limits(given.calls, deadline=time.monotonic() + given.seconds)
    serve(itertools.islice(order, given.most), found, limits, Journal(given.journal))
    return 0


def _endless(names: list[str], seed: int) -> Iterator[tuple[str, int]]:
    """All operators in a random order, and again and again from other seeds."""
    draw = random.Random(seed)
    for turn in itertools.count():
        yield from ((name, seed + turn) for name in draw.sample(names, len(names)))


if __name__ == "__main__":
    sys.exit(main())
