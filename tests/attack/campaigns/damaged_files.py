"""Files that were damaged on purpose, given to everything that reads a file.

Each one is answered within some seconds, with a result or with an error of opbridge's that ends a command with 1 or 2
and controls no terminal. The calls are made in a process of their own, which may crash or hang.
"""

from __future__ import annotations

import collections
import contextlib
import io
import json
import os
import random
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attack.mutations import mutated
from attack.small_models import SPEC, write_seeds

__all__ = ["run"]

_LIMIT_SECONDS = 5.0
_HANGING_SECONDS = 60.0
_MEMORY_BYTES = 8 << 30
_FILES_OF_A_PROCESS = 500
_CONTROL = {*range(9), *range(11, 32), *range(127, 160)}


def run(seconds: float, seed: int, most: int | None = None) -> dict[str, Any]:
    """Tries files until the time is over, or `most` of them were tried.

    Returns:
        The number of files, of calls by their outcome, and the findings, each with the number that makes its file.
    """
    found: list[dict[str, Any]] = []
    outcomes: collections.Counter[str] = collections.Counter()
    number = 0
    with tempfile.TemporaryDirectory(prefix="opbridge-attack-") as folder:
        seeds = Path(folder, "seeds")
        if status := _in_child(lambda: write_seeds(seeds)):
            raise RuntimeError(f"the files to begin with cannot be made: exit status {status}")
        end = time.monotonic() + seconds
        while time.monotonic() < end and (most is None or number < most):
            numbers = range(number, min(number + _FILES_OF_A_PROCESS, most or sys.maxsize))
            number = _batch(seeds, Path(folder, "tried"), seed, numbers, end, outcomes, found)
    return {"files": number, "calls": sum(outcomes.values()), "outcomes": dict(outcomes), "findings": found}


def _batch(
    seeds: Path,
    folder: Path,
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
        _limited(lambda: _try_files(seeds, folder, seed, numbers, end, os.fdopen(writing, "w", buffering=1)))
    os.close(writing)
    at, doing, hung = numbers.start, "", False
    with os.fdopen(reading) as lines:
        while True:
            if not select.select([lines], [], [], _HANGING_SECONDS)[0]:
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
                found.append({"number": at, "seed": seed, "file": said["file"], "what": said["finding"]})
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status or doing:
        what = f"no answer in {_HANGING_SECONDS:.0f} s" if hung else f"the process ended with {status}"
        found.append({"number": at, "seed": seed, "what": f"{doing}: {what}"})
        outcomes["crash"] += 1
        return at + 1
    return at + 1


def _try_files(seeds: Path, folder: Path, seed: int, numbers: range, end: float, out: Any) -> None:
    for number in numbers:
        if time.monotonic() > end:
            return
        random_ = random.Random(f"{seed} {number}")
        shutil.rmtree(folder, ignore_errors=True)
        source = random_.choice(sorted(each for each in seeds.iterdir() if each.is_dir()))
        shutil.copytree(source, folder)
        file = random_.choice(sorted(each for each in folder.iterdir() if each.name != "spec.txt"))
        file.write_bytes(mutated(file.read_bytes(), random_, is_model=file.suffix == ".onnx"))
        spec = (source / "spec.txt").read_text()
        for name, call in _calls(folder, file, spec, number):
            out.write(json.dumps({"number": number, "doing": f"{source.name} {name}"}) + "\n")
            outcome, finding = _outcome(call)
            said = {"number": number, "doing": "", "outcome": outcome}
            if finding:
                said.update(finding=f"{source.name} {name}: {finding}", file=file.name)
            out.write(json.dumps(said) + "\n")


def _calls(folder: Path, file: Path, spec: str, number: int) -> Iterator[tuple[str, Callable[[], None]]]:
    """What reads the file."""
    from attack import small_models

    import opbridge
    from opbridge.coverage import results
    from opbridge.coverage.models import results as model_results

    model = folder / "model.onnx"
    if file.suffix == ".json":
        yield "results of operators", lambda: results.read(file)
        yield "results of models", lambda: model_results.read(file)
        return
    inputs = [f"--inputs={file}"] if file.suffix in (".npz", ".npy") else []
    if not inputs:
        yield "session", lambda: opbridge.session(model, threads=1)
        yield "session of bytes", lambda: opbridge.session(model.read_bytes(), threads=1)
        yield "verify", lambda: opbridge.verify(model, *getattr(small_models, spec)(), samples=1)
    if inputs or number % 4 == 0:
        yield "command", lambda: _command(["verify", str(model), f"{SPEC}:{spec}", *inputs])
    if file.suffix == ".onnx" and number % 8 == 0:
        shutil.copy(model, folder / "part.onnx")
        parts = opbridge.Parts({"part": getattr(small_models, spec)()})
        yield "verify a set", lambda: parts.verify(folder)


class _Unfit(Exception):
    """What a command must not say."""


def _command(arguments: list[str]) -> None:
    from opbridge.cli import main

    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        status = main(arguments)
    if status not in (0, 1, 2) or "this is a bug" in said.getvalue():
        raise _Unfit(f"exit status {status}: {said.getvalue()[-500:]}")
    _check_printable(said.getvalue())


def _check_printable(text: str) -> None:
    if any(ord(each) in _CONTROL for each in text):
        raise _Unfit(f"control characters: {text[:500]!r}")


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
        except _Unfit as unfit:
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


def _in_child(work: Callable[[], None]) -> int:
    if not (child := os.fork()):
        _limited(work)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    print(json.dumps(run(float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if sys.argv[3:] else None), indent=1))
