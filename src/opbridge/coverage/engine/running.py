"""The run of a sweep: what an interrupted one left is taken over, the rest is tried, here or on a cluster."""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opbridge.coverage.engine.journal import Journal
from opbridge.coverage.engine.pool import LocalPool
from opbridge.coverage.engine.work import Verdict, Work
from opbridge.errors import UsageError

__all__ = ["Done", "Progress", "done", "processes"]

Progress = Callable[[int, int, Mapping[str, int]], None]
"""Receives the state of a sweep as it runs: tasks done, tasks in all, and how many have each outcome."""


@dataclass(frozen=True)
class Done:
    """A sweep whose tasks are all tried.

    Attributes:
        verdicts: The verdict on each task; None where it stands for nothing.
        resumed: How many of them an interrupted sweep left.
        start: The `time.perf_counter` at which it began.
    """

    verdicts: Mapping[Any, Any]
    resumed: int
    start: float

    @property
    def seconds(self) -> float:
        """How long it took until now."""
        return round(time.perf_counter() - self.start, 3)


def processes(jobs: int | None) -> int:
    """How many worker processes there are to be.

    Raises:
        UsageError: `jobs` is no such number.
    """
    if jobs is not None and jobs < 1:
        raise UsageError(f"Invalid value jobs={jobs}; expected 1 or more.")
    return jobs or len(os.sched_getaffinity(0))


@contextlib.contextmanager
def done(
    work: Work,
    tasks: Sequence[Any],
    head: Mapping[str, Any],
    path: Path | None,
    *,
    jobs: int,
    ray: str | None,
    progress: Progress | None,
) -> Iterator[Done]:
    """Tries all tasks of a sweep. The journal beside the results stays until the `with` has ended without an error.

    Tasks that an interrupted sweep made mistakes with are tried again.

    Args:
        work: What is done with each task.
        tasks: The tasks.
        head: What the verdicts depend on.
        path: Where the results will be written; None where they will not.
        jobs: How many processes.
        ray: The address of a Ray cluster to use instead.
        progress: Called after each task.

    Raises:
        UsageError: A package that is needed is not installed, or there is no such cluster.
        SaveError: The journal cannot be written.
    """
    start = time.perf_counter()
    with Journal(path, head, work) if path is not None else contextlib.nullcontext() as journal:
        kept = journal.done.items() if journal else ()
        verdicts = {task: verdict for task, verdict in kept if verdict is None or verdict.outcome != "sweep error"}
        resumed = len(verdicts)
        tally = Counter(verdict.outcome for verdict in verdicts.values() if verdict is not None)
        rest = [task for task in tasks if task not in verdicts]
        if progress is not None:
            progress(len(verdicts), len(tasks), tally)
        for task, verdict in _tried(rest, work, jobs, ray):
            verdicts[task] = verdict
            if journal:
                journal.add(task, verdict)
            if verdict is not None:
                tally[verdict.outcome] += 1
            if progress is not None:
                progress(len(verdicts), len(tasks), tally)
        yield Done(verdicts, resumed, start)
        if journal:
            journal.finish()


def _tried(tasks: Iterable[Any], work: Work, jobs: int, ray: str | None) -> Iterator[tuple[Any, Verdict | None]]:
    if ray is not None:
        from opbridge.coverage.engine.cluster import ClusterPool

        with ClusterPool(work, ray) as cluster:
            yield from cluster.run(tasks)
    else:
        with LocalPool(work, jobs) as pool:
            yield from pool.run(tasks)
