"""What the engine has to know of a sweep: the one interface between the two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Protocol

__all__ = ["Verdict", "Work"]


class Verdict(Protocol):
    """What came of a task: a dataclass whose fields are plain values.

    Attributes:
        outcome: What came of it, in one or two words.
    """

    outcome: str

    def to_json(self) -> dict[str, Any]:
        """As plain data, of which the class can be made again."""


class Work(Protocol):
    """What a sweep does with each task: a value that can be pickled and sent to a worker process.

    A task is a frozen dataclass of plain values: names only, so that any process can make what it stands for.

    Attributes:
        task_type: The class of the tasks.
        verdict_type: The class of the verdicts, called with an outcome, a message and `seconds=` for a task whose
            process ended: "crash", "timeout", "memory" or "sweep error".
        warm: A module that the fork server imports once, so that every worker starts with it imported.
        timeout: The seconds that a task may take.
        memory: The bytes that a worker process may hold as its own; None: any number.
        environment: Variables of the environment that a worker starts with.
        renewed_after: So many tasks after which a worker is replaced; 0: never.
        ahead: So many tasks a worker has at a time. With several it need not wait for the next one, and with one no
            task waits for a long one while another worker has nothing to do.
    """

    task_type: ClassVar[type]
    verdict_type: ClassVar[type]
    warm: ClassVar[str]

    @property
    def timeout(self) -> float: ...

    @property
    def memory(self) -> int | None: ...

    @property
    def environment(self) -> Mapping[str, str]: ...

    @property
    def renewed_after(self) -> int: ...

    @property
    def ahead(self) -> int: ...

    def start(self) -> None:
        """Readies a worker process."""

    def attempt(self, task: Any) -> Verdict | None:
        """Tries a task, in a worker process; None where the task stands for nothing."""

    def groups(self, tasks: Iterable[Any]) -> Iterator[list[Any]]:
        """The tasks that one worker should try, as what it has learnt from one makes the next one cheaper."""
