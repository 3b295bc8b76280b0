"""Worker processes of a sweep that end where none may."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers.scripts import run_script

from opbridge.coverage.engine.pool import LocalPool
from opbridge.coverage.measuring.work import CaseVerdict

pytest.importorskip("pebble")

SAMPLES = Path(__file__).with_name("samples_to_sweep.py")


@dataclass
class Pool:
    """A pool that breaks at some tasks, with those that wait."""

    breaks: Counter
    futures: list = field(default_factory=list)
    is_broken: bool = False

    def schedule(self, function, args, timeout):
        if self.is_broken:
            raise RuntimeError("Unexpected error within the Pool")
        future, (task,) = Future(), args
        self.futures.append(future)
        if self.breaks[task]:
            self.breaks[task] -= 1
            self.is_broken = True
            for each in self.futures:
                if not each.done():
                    each.set_exception(BrokenProcessPool("All workers expired"))
        else:
            future.set_result(CaseVerdict("right", task))
        return future

    def stop(self):
        self.is_broken = True

    join = stop


@pytest.mark.parametrize(("times", "outcome"), [(0, "right"), (1, "right"), (9, "sweep error")])
def test_a_pool_that_breaks_is_renewed(monkeypatch, times, outcome):
    breaks = Counter({"c": times})
    monkeypatch.setattr(LocalPool, "_pool", lambda self, number, context, pid: Pool(breaks))
    tasks = list("abcdefg")
    work = SimpleNamespace(
        ahead=3,
        warm="json",
        environment={},
        memory=None,
        timeout=1,
        verdict_type=CaseVerdict,
        groups=lambda every: iter([list(every)]),
    )
    found = dict(LocalPool(work, 2).run(tasks))
    assert sorted(found) == tasks
    assert {task: each.outcome for task, each in found.items() if task != "c"} == dict.fromkeys("abdefg", "right")
    assert found["c"].outcome == outcome


@pytest.mark.slow
def test_a_folder_whose_path_is_too_long_for_a_socket_is_an_error(tmp_path):
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    script = tmp_path / "sweep.py"
    script.write_text(
        "import tempfile\n"
        "from opbridge.cli import main\n"
        "if __name__ == '__main__':\n"
        f"    tempfile.tempdir = {str(folder)!r}\n"
        f"    raise SystemExit(main(['coverage', '--db', '{SAMPLES}:GOOD', '--samples', '1', '--jobs', '1']))\n"
    )
    done = run_script(script)
    assert done.returncode == 2
    assert "The processes of the sweep cannot be started: AF_UNIX path too long" in " ".join(done.stderr.split())
    assert "set TMPDIR to a shorter one" in " ".join(done.stderr.split())
    assert not list(folder.glob("opbridge-sweep-*"))
