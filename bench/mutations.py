"""Plants faults in the code, one at a time, and says which tests find each: a table in RESULTS.md.

    python bench/mutations.py                              # on the tests that each fault names
    python bench/mutations.py --whole                      # and on all tests, where those do not find it
    python bench/mutations.py --half 0                     # with the half of the slow tests that --seed 0 chooses
    python bench/mutations.py --only size-of-one,last-pixel --print
    python bench/mutations.py --tests-of v0.2.0            # with the tests of another revision, in a table of its own

The faults are in planted_faults.py. A copy of the working tree is what they are planted in, and kernels are compiled
into a cache beside it. What has found a fault runs once without it: where that does not pass, nothing is said of the
fault. Ends with 1 where one is not found.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from planted_faults import FAULTS, QUESTIONS, Fault
from results import table, write_section

ROOT = Path(__file__).parents[1]
_LIMIT = 1800
_WHOLE_LIMIT = 4 * 3600
_OF_FAULTS = "tests/test_planted_faults.py"
"""What looks for the texts that faults replace, and so finds each of them."""

_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?)(?:\[.*)?(?: - .*)?$", re.MULTILINE)
_COMMAND = "python -m "


@dataclass(frozen=True)
class Ran:
    """What a run of tests came to.

    Attributes:
        found: The first test that failed, or how the run ended otherwise; "" where all passed.
        seconds: How long it took.
        output: What it printed last.
    """

    found: str
    seconds: float
    output: str = ""


@dataclass(frozen=True)
class Answer:
    """What is known of a fault.

    Attributes:
        fault: The fault.
        by: What found it; "" where nothing did.
        seconds: How long the run took that found it, or all runs.
        unusable: Why nothing can be said of it; "" where something can.
    """

    fault: Fault
    by: str
    seconds: float
    unusable: str = ""

    @property
    def row(self) -> tuple[str, ...]:
        """The row of the table."""
        by = self.unusable or (f"`{self.by}`" if self.by else "nothing")
        return f"{self.fault.name}: {self.fault.what}", self.fault.question, by, f"{self.seconds:.0f}"


class Copy:
    """A copy of the working tree that faults are planted in.

    Args:
        folder: Where to make it.
        tests_of: The revision whose tests it has; None: those of the working tree.
        half: The seed that chooses the half of the slow tests that run; None: all of them run.
    """

    def __init__(self, folder: Path, tests_of: str | None = None, half: int | None = None) -> None:
        self.folder = folder / "checkout"
        self._chosen = () if half is None else ("--sampled", "--seed", str(half))
        self._cache = folder / "cache"
        self._passing: dict[str, Ran] = {}
        listed = _git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split(b"\0")
        for name in map(os.fsdecode, filter(None, listed)):
            source, target = ROOT / name, self.folder / name
            if source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)
                shutil.copymode(source, target)
        if tests_of is not None:
            shutil.rmtree(self.folder / "tests")
            archive = _git(ROOT, "archive", tests_of, "tests")
            subprocess.run(["tar", "-x", "-C", self.folder], input=archive, check=True)
        # Some tests ask git for the files of the repository.
        _git(self.folder, "init", "--quiet")
        _git(self.folder, "add", "--all")

    def answer(self, fault: Fault, limit: float, *, whole: bool, workers: str) -> Answer:
        """Plants a fault, and looks for it."""
        place = self.folder / "src" / "opbridge" / fault.file
        text = place.read_text()
        seconds = 0.0
        try:
            self._write(place, planted(fault, text))
            for finder in self._finders(fault):
                ran = self._run(finder, limit)
                seconds += ran.seconds
                if ran.found:
                    break
            else:
                ran = Ran("", 0.0)
                if whole:
                    options = ("-n", workers, "--dist", "worksteal", f"--ignore={_OF_FAULTS}")
                    ran = self._run("tests", _WHOLE_LIMIT, *options)
                    finder, seconds = ran.found.partition("::")[0], seconds + ran.seconds
        finally:
            self._write(place, text)
        if not ran.found:
            return Answer(fault, "", seconds)
        control = self._control(finder, limit)
        if control.found:
            print(control.output, flush=True)
            return Answer(fault, "", seconds, f"unusable: {control.found} fails without the fault")
        return Answer(fault, ran.found, ran.seconds)

    def _finders(self, fault: Fault) -> list[str]:
        """What finds a fault, as far as these tests have it."""
        return [each for each in fault.finders if each.startswith(_COMMAND) or (self.folder / each).exists()]

    def _control(self, finder: str, limit: float) -> Ran:
        """What a finder comes to without a fault, once."""
        if finder not in self._passing:
            self._passing[finder] = self._run(finder, limit)
            print(f"  without a fault: {finder}, {self._passing[finder].seconds:.0f} s", flush=True)
        return self._passing[finder]

    def _write(self, place: Path, text: str) -> None:
        place.write_text(text)
        # Python takes a file for unchanged that has its size, and its time to the second.
        if place.suffix == ".py":
            Path(importlib.util.cache_from_source(str(place))).unlink(missing_ok=True)

    def _run(self, finder: str, limit: float, *options: str) -> Ran:
        if finder.startswith(_COMMAND):
            command = [sys.executable, *finder.split()[1:]]
        else:
            command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
            command += [*self._chosen, *options, finder]
        paths = [self.folder / "src", *([self.folder / "tests"] if finder.startswith(_COMMAND) else [])]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "OPBRIDGE_CACHE": str(self._cache),
            "OMP_NUM_THREADS": "1",
        }
        start = time.monotonic()
        # A session of its own: what the tests have started ends with them.
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=limit)
            found = first_failure(finder, process.returncode, output)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            found = f"{finder}: no end within {limit:.0f} s"
        except BaseException:  # a key that interrupts this process does not reach a session of its own
            os.killpg(process.pid, signal.SIGKILL)
            raise
        return Ran(found, time.monotonic() - start, output[-4000:])


def planted(fault: Fault, text: str) -> str:
    """The text of a fault's file with the fault in it.

    Raises:
        ValueError: The text that it replaces does not stand there once.
    """
    count = text.count(fault.before)
    if count != 1:
        raise ValueError(f"The text of the fault '{fault.name}' stands {count} times in src/opbridge/{fault.file}.")
    return text.replace(fault.before, fault.after)


def first_failure(finder: str, status: int, output: str) -> str:
    """The first test that failed, without its row, or how the run ended otherwise; "" where it ended with 0."""
    if status == 0:
        return ""
    failed = _FAILED.search(output)
    return failed[1] if failed else finder if finder.startswith(_COMMAND) else f"{finder}: ended with {status}"


def shown(answers: Sequence[Answer], tests: str = "") -> str:
    """The table, with what it comes to below it: what was found, and by which tests, where not by all."""
    rows = sorted((each.row for each in answers), key=lambda row: QUESTIONS.index(row[1]))
    count = sum(bool(each.by) for each in answers)
    body = f"{table(('fault', 'question', 'found by', 'seconds'), rows)}\n\n{count} of {len(answers)} found"
    return f"{body} by {tests}." if tests else f"{body}."


def _git(folder: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True).stdout


def main() -> int:
    """Plants, and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--print", action="store_true", help="write nothing to RESULTS.md")
    parser.add_argument("--list", action="store_true", help="the faults, and where each is looked for first")
    parser.add_argument("--only", help="names of faults, with commas between them")
    parser.add_argument("--question", choices=QUESTIONS, help="the faults of one question")
    parser.add_argument("--whole", action="store_true", help="run all tests where those named find nothing")
    parser.add_argument("--workers", default="logical", help="processes of the run of all tests")
    parser.add_argument("--tests-of", metavar="REV", help="a revision of git whose tests are run")
    parser.add_argument("--half", type=int, choices=(0, 1), help="the seed that chooses half of the slow tests (all)")
    parser.add_argument("--limit", type=float, default=_LIMIT, help="seconds for each of a fault's files of tests")
    given = parser.parse_args()
    if given.tests_of and given.half is not None:
        parser.error("--half is not supported with --tests-of: another revision may not know it")
    names = given.only.split(",") if given.only else [each.name for each in FAULTS]
    if unknown := set(names) - {each.name for each in FAULTS}:
        parser.error(f"there is no fault {', '.join(sorted(unknown))}")
    chosen = [each for each in FAULTS if each.name in names and given.question in (None, each.question)]
    for fault in chosen:
        planted(fault, (ROOT / "src" / "opbridge" / fault.file).read_text())
    if given.list:
        for fault in chosen:
            print(f"{fault.name} ({fault.question}): {fault.what}\n  {', '.join(fault.finders)}")
        return 0
    answers = []
    with tempfile.TemporaryDirectory(prefix="opbridge-mutations-") as folder:
        copy = Copy(Path(folder), given.tests_of, given.half)
        for fault in chosen:
            answers.append(copy.answer(fault, given.limit, whole=given.whole, workers=given.workers))
            print(" | ".join(answers[-1].row), flush=True)
    name, title, tests = "mutations", "Faults planted in the code, and the tests that find them", ""
    if given.tests_of:
        tests = f"the tests of {given.tests_of}"
        name, title = "mutations_of_other_tests", f"The same faults, and {tests}"
    elif given.half is not None:
        tests = f"the tests with --sampled --seed {given.half}"
        name, title = f"mutations_of_half_{given.half}", f"The same faults, and {tests}"
    body = shown(answers, tests)
    if given.print:
        print(f"\n{body}")
    else:
        write_section(name, title, body)
    return 0 if all(each.by for each in answers) else 1


if __name__ == "__main__":
    sys.exit(main())
