"""Local worker processes that outlive a task which crashes or hangs."""

from __future__ import annotations

import contextlib
import importlib.util
import multiprocessing
import os
import signal
import sys
import tempfile
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, TimeoutError, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

from opbridge.coverage.engine import worker
from opbridge.coverage.engine.memory import MemoryLimit
from opbridge.coverage.engine.work import Verdict, Work
from opbridge.errors import UsageError

__all__ = ["LocalPool"]

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_MOST_TIMES = 3
"""So many times a task is tried whose worker ended between two tasks, which breaks pebble's pool."""


class LocalPool:
    """Processes that try tasks; a context manager.

    They are forked from a server that has torch and opbridge imported, so that one which crashed or hung is replaced
    in a fraction of a second. The script that uses it needs `if __name__ == "__main__":`, as with any of
    multiprocessing's pools that do not fork the script itself.
    """

    def __init__(self, work: Work, jobs: int) -> None:
        """Args:
            work: What is done with each task.
            jobs: How many processes.

        Raises:
            UsageError: pebble is not installed.
        """
        if importlib.util.find_spec("pebble") is None:
            raise UsageError("This requires pebble, which is not installed: pip install 'opbridge[coverage]'.")
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([work.warm])
        self._work = work
        self._environment = _environment(work.environment)
        pids = [context.RawArray("i", 1) for _ in range(jobs)]
        self._memory = MemoryLimit(work.memory, pids)
        self._folder = tempfile.TemporaryDirectory(prefix="opbridge-sweep-", ignore_cleanup_errors=True)
        # One pool a worker, so that it is known which worker gets which tasks.
        self._pools = [self._pool(number, context, pid) for number, pid in enumerate(pids)]
        self._renewed = lambda number: self._pool(number, context, pids[number])

    def _pool(self, number: int, context: Any, pid: Any) -> Any:
        """The pool of one worker."""
        from pebble import ProcessPool

        return ProcessPool(
            max_workers=1,
            max_tasks=self._work.renewed_after,
            context=context,
            initializer=worker.start,
            initargs=(self._work, pid, Path(self._folder.name) / str(number), os.getpid()),
        )

    def __enter__(self) -> LocalPool:
        """Starts the server that processes are forked from.

        Raises:
            UsageError: It cannot be started; a pool would wait for it for ever.
        """
        self._environment.__enter__()
        try:
            forkserver.ensure_running()
        except OSError as error:
            self._folder.cleanup()
            self._environment.__exit__(None, None, None)
            raise UsageError(
                f"The processes of the sweep cannot be started: {error}. If the path of the folder for temporary files "
                f"is the cause ({tempfile.gettempdir()}), set TMPDIR to a shorter one."
            ) from error
        self._memory.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        for pool in self._pools:
            pool.stop()
        for pool in self._pools:
            pool.join()
        self._memory.__exit__()
        self._folder.cleanup()
        self._environment.__exit__(*raised)

    def run(self, tasks: Iterable[Any]) -> Iterator[tuple[Any, Verdict | None]]:
        """Tries tasks, and gives each with its verdict as it is known, in no certain order.

        A task that ends its process is a "crash", one that takes too long a "timeout", one that takes too
        much memory "memory"; each costs that task alone. None stands for a task that stands for nothing.
        """
        groups = self._work.groups(tasks)
        assigned: list[deque[Any]] = [deque() for _ in self._pools]
        pending: dict[Any, tuple[int, Any]] = {}
        ahead = [0] * len(self._pools)
        broken: set[int] = set()
        again: Counter[Any] = Counter()
        while True:
            for number in range(len(self._pools)):
                if number in broken and not ahead[number]:
                    self._renew(number)
                    broken.discard(number)
                while number not in broken and ahead[number] < self._work.ahead:
                    if not assigned[number]:
                        assigned[number].extend(next(groups, ()))
                    if not assigned[number]:
                        break
                    task = assigned[number].popleft()
                    try:
                        future = self._pools[number].schedule(worker.attempt, args=(task,), timeout=self._work.timeout)
                    except RuntimeError:  # the pool is broken, which the tasks that it has will say
                        assigned[number].appendleft(task)
                        broken.add(number)
                        break
                    pending[future] = number, task
                    ahead[number] += 1
            if not pending and not broken:
                return
            done: set[Any] = wait(pending, return_when=FIRST_COMPLETED).done
            for future in done:
                number, task = pending.pop(future)
                ahead[number] -= 1
                if isinstance(future.exception(), BrokenProcessPool):
                    broken.add(number)
                    again[task] += 1
                    if again[task] < _MOST_TIMES:
                        assigned[number].append(task)
                        continue
                yield task, self._verdict(future)

    def _renew(self, number: int) -> None:
        """Puts another pool in the place of one that is broken."""
        self._pools[number].stop()
        self._pools[number].join()
        self._pools[number] = self._renewed(number)

    def _verdict(self, future: Any) -> Verdict | None:
        from pebble import ProcessExpired

        work, verdict = self._work, self._work.verdict_type
        try:
            return future.result()
        except TimeoutError:
            return verdict("timeout", f"timeout after {work.timeout:g} seconds", seconds=work.timeout)
        except ProcessExpired as error:
            if error.pid in self._memory.ended and work.memory is not None:
                return verdict("memory", f"more than {work.memory / 1e9:.3g} GB of memory")
            return verdict("crash", f"the process terminated with {_ending(error.exitcode)}")
        except Exception as error:  # a mistake of the sweep's own costs one task, and is counted
            return verdict("sweep error", f"{type(error).__name__}: {error}")


def _ending(status: int) -> str:
    if status < 0:
        with contextlib.suppress(ValueError):
            return signal.Signals(-status).name
    return f"exit status {status}"


@contextlib.contextmanager
def _environment(more: Mapping[str, str]) -> Iterator[None]:
    """What the fork server inherits: one thread a worker, where to import from, and what the work asks for."""
    wanted = {**more, **dict.fromkeys(_THREADS, "1"), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
