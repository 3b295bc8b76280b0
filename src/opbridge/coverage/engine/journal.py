"""The verdicts of a sweep that is not over, so that one which was interrupted goes on where it stopped."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from opbridge.base import files
from opbridge.coverage.engine.work import Verdict, Work
from opbridge.errors import SaveError

__all__ = ["Journal"]

_LARGEST_BYTES = 1 << 32


class Journal:
    """A file of lines of JSON beside the results: a head, then one line for each task that is done.

    A context manager. It stays where the sweep ends early, and `finish` removes it.
    """

    def __init__(self, results: Path, head: Mapping[str, Any], work: Work) -> None:
        """Args:
        results: Where the results will be written.
        head: What the verdicts depend on; those of a journal with another head are dropped.
        work: Whose tasks and verdicts they are.
        """
        self.path = results.with_name(f"{results.name}.partial")
        self.done: dict[Any, Verdict | None] = {}
        self._work = work
        self._head = json.dumps(head, sort_keys=True)
        self._file: TextIO | None = None

    def __enter__(self) -> Journal:
        try:
            whole = self._read()
            self._file = self.path.open("a" if whole else "w", encoding="utf-8", buffering=1)
            if not whole:
                self._file.write(f"{self._head}\n")
            elif whole < self.path.stat().st_size:  # the last line was cut off while it was written
                self._file.truncate(whole)
        except OSError as error:
            raise SaveError(f"{self.path} is not writable ({error}). Give another file with -o.") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, task: Any, verdict: Verdict | None) -> None:
        """Keeps what came of a task."""
        assert self._file is not None
        line = {"task": dataclasses.asdict(task), "verdict": None if verdict is None else verdict.to_json()}
        self._file.write(f"{json.dumps(line)}\n")
        self.done[task] = verdict

    def finish(self) -> None:
        """Removes the file: the results are written."""
        self.path.unlink(missing_ok=True)

    def _read(self) -> int:
        """Reads what a sweep with the same head left. Returns how many bytes of the file are whole lines of it."""
        if not self.path.exists():
            return 0
        if why := files.problem(self.path, _LARGEST_BYTES):
            raise SaveError(
                f"The saved results in {self.path} cannot be continued: {why}. Remove the file, or give another "
                "one with -o."
            )
        whole = 0
        with self.path.open("rb") as file:
            for number, line in enumerate(file):
                if not line.endswith(b"\n") or (number == 0 and line.decode().rstrip("\n") != self._head):
                    break
                if number:
                    read = json.loads(line)
                    verdict = None if read["verdict"] is None else self._work.verdict_type(**read["verdict"])
                    self.done[self._work.task_type(**read["task"])] = verdict
                whole += len(line)
        return whole
