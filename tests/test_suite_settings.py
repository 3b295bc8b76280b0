"""conftest.py: what tests draw depends on the seed and their names alone, and what is skipped is counted by reason."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent

FILE = """
import json, os, random
import numpy as np, pytest

CONSTANT = random.random()

@pytest.fixture(scope="module")
def shared():
    return random.random()

def note(name, *values):
    with open(os.environ["NOTES"], "a") as file:
        print(json.dumps([name, CONSTANT, random.random(), np.random.rand(), *values]), file=file)

@pytest.mark.parametrize("row", "ab")
def test_rows(row):
    note(row)

def test_with_a_fixture(shared):
    note("fixture", shared)

@pytest.mark.parametrize("why", ["no moon", "no moon", "no sun"])
def test_skipped(why):
    pytest.skip(why)

def test_fails():
    assert not os.environ.get("FAIL")
"""


def run(folder: Path, *arguments: str, text: str = FILE, **variables: str) -> tuple[dict[str, list[float]], str]:
    """What each test drew, by its name, and what pytest printed."""
    folder.mkdir(exist_ok=True)
    shutil.copy(HERE / "conftest.py", folder)
    (folder / "test_drawing.py").write_text(text)
    notes = folder / "notes"
    notes.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rfEX", "-n", "0", *arguments]
    environment = {**os.environ, "NOTES": str(notes), "PYTEST_ADDOPTS": "", **variables}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    rows = [json.loads(line) for line in notes.read_text().splitlines()]
    return {name: drawn for name, *drawn in rows}, done.stdout


@pytest.mark.slow
def test_what_is_drawn_depends_on_the_seed_and_the_name_alone(tmp_path):
    whole, printed = run(tmp_path / "one")
    assert "random numbers: --seed 0" in printed
    assert len({each for drawn in whole.values() for each in drawn[1:]}) == 7  # no two draws are alike
    alone, _ = run(tmp_path / "one", "test_drawing.py::test_rows[b]", "test_drawing.py::test_with_a_fixture")
    assert alone == {name: whole[name] for name in ("b", "fixture")}
    other, _ = run(tmp_path / "one", "--seed", "1")
    assert other.keys() == whole.keys() and not any(other[name][0] == whole[name][0] for name in whole)


@pytest.mark.slow
def test_processes_of_pytest_xdist_draw_from_the_seed_that_was_drawn(tmp_path):
    many, printed = run(tmp_path / "one", "--seed", "random", "-n", "2")
    (seed,) = re.findall(r"--seed (\d+)", printed)
    assert run(tmp_path / "one", "--seed", seed)[0] == many


@pytest.mark.slow
def test_what_is_marked_thorough_is_skipped_unless_it_is_asked_for(tmp_path):
    marked = FILE.replace('"row", "ab"', '"row", ["a", pytest.param("b", marks=pytest.mark.thorough)]')
    kept, printed = run(tmp_path / "one", text=marked)
    assert "a" in kept and "b" not in kept and re.search(r"1  marked thorough", printed)
    assert {"a", "b"} <= run(tmp_path / "one", "--thorough", text=marked)[0].keys()


@pytest.mark.slow
@pytest.mark.parametrize("processes", ["0", "2"])
@pytest.mark.parametrize("other", [["--seed", "7"], ["--seed", "6", "--other-half"]], ids=" ".join)
def test_a_run_of_the_whole_suite_has_half_of_the_slow_tests(tmp_path, processes, other):
    marked = FILE.replace('parametrize("row", "ab")', 'parametrize("row", "abcde")\n@pytest.mark.slow')
    halves = [run(tmp_path / "one", "-n", processes, *given, text=marked) for given in (["--seed", "6"], other)]
    first, second = (set(drawn) - {"fixture"} for drawn, _ in halves)
    assert first | second == set("abcde") and not first & second and len(first) in (2, 3)
    assert all("fixture" in drawn for drawn, _ in halves)
    counts = [re.search(r"(\d)  half of the slow tests: --other-half", printed).group(1) for _, printed in halves]
    assert counts == [str(len(second)), str(len(first))]


@pytest.mark.slow
def test_half_of_what_is_slow_with_a_quarter_of_what_is_thorough(tmp_path):
    rows = '["a", "b", *(pytest.param(each, marks=pytest.mark.thorough) for each in "cdefghi")]'
    marked = FILE.replace('parametrize("row", "ab")', f'parametrize("row", {rows})\n@pytest.mark.slow')
    given = [["--thorough", "--sampled", "--seed", str(seed)] for seed in (4, 5, 6, 7)]
    drawn = [set(run(tmp_path / "one", *each, text=marked)[0]) - {"fixture"} for each in given]
    assert all(len(each & set("ab")) == 1 and len(each & set("cdefghi")) in (1, 2) for each in drawn)
    assert set.union(*drawn) == set("abcdefghi") and drawn[0] & set("ab") == drawn[2] & set("ab")


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["--thorough"], ["test_drawing.py"], ["-k", "rows or fixture"]], ids=" ".join)
def test_all_slow_tests_run_where_they_are_asked_for(tmp_path, arguments):
    marked = FILE.replace('parametrize("row", "ab")', 'parametrize("row", "abcde")\n@pytest.mark.slow')
    assert run(tmp_path / "one", *arguments, text=marked)[0].keys() == {*"abcde", "fixture"}


@pytest.mark.slow
def test_half_of_the_slow_tests_of_a_file(tmp_path):
    marked = FILE.replace('parametrize("row", "ab")', 'parametrize("row", "abcde")\n@pytest.mark.slow')
    halves = [run(tmp_path / "one", "test_drawing.py", "--sampled", "--seed", seed, text=marked)[0] for seed in "01"]
    first, second = (set(drawn) - {"fixture"} for drawn in halves)
    assert first | second == set("abcde") and not first & second and len(first) in (2, 3)


@pytest.mark.slow
def test_the_quick_tests_are_the_first_rows_of_half_of_the_tests(tmp_path):
    one = '\n\n@pytest.mark.parametrize("row", "ab")\ndef test_{name}(row):\n    note("{name}" + row)\n'
    slow = "\n\n@pytest.mark.slow\ndef test_slow():\n    note('slow')\n"
    asked = slow.replace("slow", "quick")
    text = FILE + "".join(one.format(name=name) for name in "pqrst") + slow + asked
    given = ["--seed", "4"], ["--seed", "5"], ["--seed", "4", "--other-half"]
    first, second, other = (set(run(tmp_path / "one", "--quick", *each, text=text)[0]) for each in given)
    assert first & second == {"quick"} and second == other
    assert first | second == {"a", "fixture", "pa", "qa", "ra", "sa", "ta", "quick"} and len(first) in (4, 5)


@pytest.mark.slow
def test_what_is_skipped_is_counted_by_reason_and_failures_say_the_seed(tmp_path):
    _, printed = run(tmp_path / "one", "--seed", "7", FAIL="yes")
    assert re.search(r"=+ skipped: 3 =+\n +2  no moon\n +1  no sun\n", printed)
    assert "drawn with --seed 7" in printed


@pytest.mark.slow
@pytest.mark.parametrize("given", ["-1", "many"])
def test_a_seed_that_is_no_number_is_refused(tmp_path, given):
    with pytest.raises(FileNotFoundError):  # no test ran
        run(tmp_path / "one", f"--seed={given}")
