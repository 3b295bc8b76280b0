"""The faults that `bench/mutations.py` plants: each still has its place in the code, and names tests that there are."""

from __future__ import annotations

import ast
import importlib
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def mutations(monkeypatch):
    # The script and the modules that it imports stand in one folder, which no other test adds to the path.
    monkeypatch.syspath_prepend(ROOT / "bench")
    return importlib.import_module("mutations")


def test_the_text_of_each_fault_stands_in_its_file_once(mutations):
    for fault in mutations.FAULTS:
        text = (ROOT / "src" / "opbridge" / fault.file).read_text()
        found = mutations.planted(fault, text)
        assert found != text, fault.name
        if fault.file.endswith(".py"):
            ast.parse(found)


def test_a_text_that_is_not_there_once_is_an_error(mutations):
    fault = mutations.FAULTS[0]
    for text in ("", fault.before * 2):
        with pytest.raises(ValueError, match=f"The text of the fault '{fault.name}' stands [02] times in"):
            mutations.planted(fault, text)


def test_there_are_faults_of_every_question_and_tests_for_each(mutations):
    names = [fault.name for fault in mutations.FAULTS]
    assert len(set(names)) == len(names) >= 20
    counts = Counter(fault.question for fault in mutations.FAULTS)
    assert counts.keys() == set(mutations.QUESTIONS) and min(counts.values()) >= 3
    for fault in mutations.FAULTS:
        assert fault.finders, fault.name
        for finder in fault.finders:
            # Whole files: a row of a test may go.
            assert finder.startswith("python -m attack ") or (ROOT / finder).exists(), finder


OUTPUT = """
E   assert 1 == 2
=========================== short test summary info ============================
FAILED tests/a/test_b.py::test_c[x - y z] - assert 1 == 2
"""


@pytest.mark.parametrize(
    "finder, status, output, found",
    [
        ("tests/a", 0, "3 passed", ""),
        ("tests/a", 1, OUTPUT, "tests/a/test_b.py::test_c"),
        ("tests/a", 1, OUTPUT.replace("[x - y z]", ""), "tests/a/test_b.py::test_c"),
        ("tests/a", 2, "ERROR tests/a/test_b.py - ImportError: x", "tests/a/test_b.py"),
        ("tests/a", -11, "", "tests/a: ended with -11"),
        ("python -m attack --seed 1", 1, "found: {}", "python -m attack --seed 1"),
    ],
)
def test_the_first_failure_is_told(mutations, finder, status, output, found):
    assert mutations.first_failure(finder, status, output) == found


def test_the_table_counts_what_was_found(mutations):
    first, second = mutations.FAULTS[:2]
    answers = [mutations.Answer(first, "tests/a.py::test_b", 3.0), mutations.Answer(second, "", 5.0)]
    body = mutations.shown(answers)
    assert "| `tests/a.py::test_b` | 3 |" in body and "| nothing | 5 |" in body
    assert body.endswith("1 of 2 found.")
    assert mutations.shown(answers, "the tests of v1").endswith("1 of 2 found by the tests of v1.")
