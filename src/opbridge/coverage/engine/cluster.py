"""A sweep over a Ray cluster: on each core of it, an actor with a worker process of its own."""

from __future__ import annotations

import importlib.util
import logging
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from typing import Any

from opbridge.coverage.engine.work import Verdict, Work
from opbridge.errors import OpbridgeError, UsageError

__all__ = ["ClusterError", "ClusterPool"]

_MOST_LOSSES = 3
"""So many actors may be lost over the same tasks before these are to blame."""


class ClusterError(OpbridgeError):
    """No node of the cluster is left."""

    exit_status = 1


class _Runner:
    """The actor. Its tasks run in a process of a `LocalPool`, as they do in a local sweep, and so end alike."""

    def __init__(self, work: Work) -> None:
        from opbridge.coverage.engine.pool import LocalPool

        self._pool = LocalPool(work, 1).__enter__()

    def run(self, tasks: list[Any]) -> list[tuple[Any, Verdict | None]]:
        return list(self._pool.run(tasks))


class ClusterPool:
    """Tries tasks on all cores of a Ray cluster; a context manager.

    When a node is lost, its tasks go to the others. A batch over which several actors are lost is tried one task at
    a time, and a task over which they are is a "crash".
    """

    def __init__(self, work: Work, address: str) -> None:
        """Args:
            work: What is done with each task.
            address: The cluster's address, as `ray.init` takes it: "auto", "127.0.0.1:6379", "ray://host:10001".

        Raises:
            UsageError: Ray is not installed, or there is no cluster at the address.
        """
        if importlib.util.find_spec("ray") is None:
            raise UsageError("--ray requires Ray, which is not installed: pip install 'opbridge[ray]'.")
        self._work, self._address = work, address

    def __enter__(self) -> ClusterPool:
        import ray

        if not ray.is_initialized():
            try:
                ray.init(address=self._address, log_to_driver=False, logging_level=logging.ERROR)
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise UsageError(
                    f"There is no Ray cluster at {self._address} ({error}). Start one with ray start --head, or "
                    "correct the address."
                ) from error
            self._is_ours = True
        else:
            self._is_ours = False
        cores = int(ray.cluster_resources().get("CPU", 0))
        if cores < 1:
            raise ClusterError(f"The Ray cluster at {self._address} has no CPU cores. Add a node with --num-cpus.")
        runner = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(_Runner)
        self._actors: list[Any] = [runner.remote(self._work) for _ in range(cores)]
        return self

    def __exit__(self, *raised: Any) -> None:
        import ray

        for actor in self._actors:
            ray.kill(actor)
        if self._is_ours:
            ray.shutdown()

    def run(self, tasks: Iterable[Any]) -> Iterator[tuple[Any, Verdict | None]]:
        """Tries tasks, and gives each with its verdict as it is known, in no certain order.

        Raises:
            ClusterError: no node is left.
        """
        import ray
        from ray.exceptions import RayActorError

        groups = self._work.groups(tasks)
        again: deque[list[Any]] = deque()
        lost: Counter[Any] = Counter()
        pending: dict[Any, tuple[Any, list[Any]]] = {}
        idle = list(self._actors)
        while True:
            while idle and (batch := again.popleft() if again else next(groups, [])):
                actor = idle.pop()
                pending[actor.run.remote(batch)] = actor, batch
            if not pending:
                if again:
                    raise ClusterError(
                        "All nodes of the Ray cluster were lost. Start the cluster again and run the same command "
                        "again; the results so far are saved."
                    )
                return
            for reference in ray.wait(list(pending), num_returns=1)[0]:
                actor, batch = pending.pop(reference)
                try:
                    yield from ray.get(reference)
                    idle.append(actor)
                except RayActorError:
                    lost.update(batch)
                    blamed = [task for task in batch if len(batch) == 1 and lost[task] > _MOST_LOSSES]
                    yield from (
                        (task, self._work.verdict_type("crash", "the Ray actor was lost each time")) for task in blamed
                    )
                    alone = max(lost[task] for task in batch) >= _MOST_LOSSES
                    rest = [task for task in batch if task not in blamed]
                    again.extend([[task] for task in rest] if alone else [rest] if rest else [])
