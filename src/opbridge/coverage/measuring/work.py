"""One case on a runtime, as a worker process tries it."""

from __future__ import annotations

import dataclasses
import itertools
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from opbridge.coverage.measuring import cases
from opbridge.errors import ModelFileError
from opbridge.kernels.build import build_parts
from opbridge.runtimes import known
from opbridge.side_by_side import difference

__all__ = ["NEARLY", "OUTCOMES", "RIGHT", "CaseTask", "CaseVerdict", "CaseWork"]

OUTCOMES = (
    "crash", "timeout", "memory", "sweep error", "wrong", "raises", "not built", "refused", "nearly", "partly built",
    "built", "right",
)  # fmt: skip
"""What becomes of a case, the worst first. A runtime that builds for a GPU refuses a model when it parses it, or does
not build it, or builds it, for all GPUs or some; it is not run."""

RIGHT = ("right", "built")
"""The outcomes of a case that a runtime takes."""

NEARLY = ("nearly", "partly built")
"""Those of one that it takes with less precision, or for some GPUs only."""

_STAGES = {"parse": "refused", "build": "not built", "partly": "partly built", "built": "built"}
"""By where such a runtime stops, the outcome."""

_SMALL = 2.0**-8
"""The largest difference, relative to the largest number of an output, that is one of precision: bfloat16 rounds by
as much."""

_TOGETHER = 20
_FLOATING = ("float16", "bfloat16", "float32", "float64")


@dataclass(frozen=True)
class CaseTask:
    """A test and its form, as `cases.case` takes them."""

    name: str
    form: str = ""


@dataclass
class CaseVerdict:
    """What came of a case.

    Attributes:
        outcome: One of `OUTCOMES`.
        message: What the runtime said, or how much the result differs.
        seconds: How long it took.
    """

    outcome: str
    message: str = ""
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class CaseWork:
    """Tries cases on a runtime.

    Attributes:
        runtime: Its name.
        alone: Whether each case has a process of its own: what one leaves behind may end the next.
        timeout: The seconds that a case may take.
    """

    runtime: str
    alone: bool = False
    timeout: float = 30.0
    task_type: ClassVar[type] = CaseTask
    verdict_type: ClassVar[type] = CaseVerdict
    warm: ClassVar[str] = "opbridge.coverage.measuring.warm"
    ahead: ClassVar[int] = 3
    memory: ClassVar[int | None] = 6 << 30

    @property
    def environment(self) -> Mapping[str, str]:
        """What is read before it is written is then no 0 by chance: see `filled.cpp`."""
        if sys.platform != "linux":
            return {}
        path = str(build_parts([Path(__file__).with_name("filled.cpp")]))
        others = [each for each in os.environ.get("LD_PRELOAD", "").split() if each != path]
        return {"LD_PRELOAD": " ".join([path, *others])}

    @property
    def renewed_after(self) -> int:
        return 1 if self.alone else 500

    def start(self) -> None:
        """Makes the tests, where the fork server has not."""
        cases.names()

    def attempt(self, task: CaseTask) -> CaseVerdict | None:
        """Loads the case's model, runs it, and compares."""
        start = time.perf_counter()
        case = cases.case(task.name, task.form)
        if case is None:
            return None
        expected = case.expected if case.expected is not None else _expected(case)
        if expected is None and not (self.runtime in known.BUILDERS and is_own(task.name)):
            return None
        outcome, message = _tried(self.runtime, case, expected or ())
        return CaseVerdict(outcome, message[:300], round(time.perf_counter() - start, 3))

    def groups(self, tasks: Iterable[CaseTask]) -> Iterator[list[CaseTask]]:
        waiting = iter(tasks)
        while batch := list(itertools.islice(waiting, _TOGETHER)):
            yield batch


def is_own(name: str) -> bool:
    """Whether a case is a model of `own_models`, which is valid where neither of the two that could judge runs it."""
    return name not in cases.names()


def _tried(runtime: str, case: cases.Case, expected: Sequence[Any]) -> tuple[str, str]:
    given = zip(case.model.graph.input, case.inputs, strict=True)
    feeds = {value.name: each for value, each in given}
    if runtime in known.BUILDERS:
        stage, said = known.built(runtime, case.model.SerializeToString(), feeds)
        return _STAGES[stage], said
    try:
        loaded = known.find(runtime).load(case.model.SerializeToString())
    except ModelFileError as error:
        return "refused", str(error)
    try:
        found = list(loaded.run(feeds))
    except Exception as error:  # the runtimes' errors have no other common base class
        return "raises", " ".join(str(error).split()) or type(error).__name__
    return _compared(case, expected, found)


def _compared(case: cases.Case, expected: Sequence[Any], found: Sequence[Any]) -> tuple[str, str]:
    if len(expected) != len(found):
        return "wrong", f"{len(found)} outputs instead of {len(expected)}"
    nearly = ""
    for value, want, have in zip(case.model.graph.output, expected, found, strict=True):
        if case.is_random:
            if np.shape(want) != np.shape(have):
                return "wrong", f"output '{value.name}' has the shape {np.shape(have)}, not {np.shape(want)}"
            continue
        distance, close = difference(want, have)
        if not close and not _is_close(case, want, have):
            said = _described(want, have, distance)
            if _is_close(case, *_finite(want, have)):
                said = "differs only in infinities or NaN"
            elif not _is_small(want, distance):
                return "wrong", f"output '{value.name}' {said}"
            nearly = nearly or f"output '{value.name}' {said}"
    return ("nearly", nearly) if nearly else ("right", "")


def _finite(want: Any, have: Any) -> tuple[Any, Any]:
    """Two tensors of floating numbers with 0 where the first is infinite or no number; None where they are others."""
    if not isinstance(want, np.ndarray) or not isinstance(have, np.ndarray) or want.dtype.name not in _FLOATING:
        return None, None
    finite = np.isfinite(want.astype(np.float64))
    if want.shape != have.shape or finite.all() or not finite.any():
        return None, None
    return np.where(finite, want, want.dtype.type(0)), np.where(finite, have, have.dtype.type(0))


def _is_small(want: Any, distance: float) -> bool:
    """Whether a difference, relative to 1 or to the largest number, is as small beside the numbers themselves."""
    if not isinstance(want, np.ndarray) or not np.isfinite(distance):
        return False
    numbers = want.astype(np.float64)
    largest = float(np.abs(numbers[np.isfinite(numbers)]).max(initial=0.0))
    return distance * max(1.0, largest) <= _SMALL * largest


def _is_close(case: cases.Case, want: Any, have: Any) -> bool:
    """Whether two tensors are within what the test allows, and one step of types with steps."""
    if not isinstance(want, np.ndarray) or not isinstance(have, np.ndarray):
        return False
    if want.dtype != have.dtype or want.shape != have.shape or want.dtype.kind in "OUSb":
        return False
    try:
        left, right = want.astype(np.float64), have.astype(np.float64)
    except (TypeError, ValueError):
        return False
    return bool(np.allclose(right, left, rtol=case.rtol, atol=case.atol, equal_nan=True))


def _described(want: Any, have: Any, distance: float) -> str:
    if isinstance(want, np.ndarray) and isinstance(have, np.ndarray):
        if want.dtype != have.dtype:
            return f"has the dtype {have.dtype.name}, not {want.dtype.name}"
        if want.shape != have.shape:
            return f"has the shape {have.shape}, not {want.shape}"
    return f"differs by {distance:.2g}"


def _expected(case: cases.Case) -> list[Any] | None:
    """What ONNX Runtime and the reference evaluator give; None where neither runs it, or the two do not agree."""
    feeds = {value.name: each for value, each in zip(case.model.graph.input, case.inputs, strict=True)}
    found: list[list[Any]] = []
    for name in ("onnxruntime", "reference"):
        try:
            found.append(list(known.find(name).load(case.model.SerializeToString()).run(feeds)))
        except Exception:  # one of them lacks it
            continue
    if not found or (len(found) == 2 and _compared(case, *found)[0] != "right"):
        return None
    return found[0]
