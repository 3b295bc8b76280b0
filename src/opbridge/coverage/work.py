"""The sweep over operators, as the engine sees it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from opbridge.coverage.tasks import Settings, Task, Verdict, grouped

__all__ = ["OperatorWork"]


@dataclass(frozen=True)
class OperatorWork:
    """Tries samples of operators.

    Attributes:
        settings: What holds for every sample.
    """

    settings: Settings
    task_type: ClassVar[type] = Task
    verdict_type: ClassVar[type] = Verdict
    warm: ClassVar[str] = "opbridge.coverage.warm"
    memory: ClassVar[int | None] = None
    renewed_after: ClassVar[int] = 0
    ahead: ClassVar[int] = 3
    environment: ClassVar[Mapping[str, str]] = MappingProxyType({})

    @property
    def timeout(self) -> float:
        return self.settings.timeout

    def start(self) -> None:
        """Loads the database."""
        from opbridge.coverage.databases import database

        database(self.settings.database)

    def attempt(self, task: Task) -> Verdict | None:
        """See `judging.judge`."""
        from opbridge.coverage.judging import judge

        return judge(task, self.settings)

    def groups(self, tasks: Iterable[Task]) -> Iterator[list[Task]]:
        return grouped(tasks)
