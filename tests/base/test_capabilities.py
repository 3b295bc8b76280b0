"""What releases of torch do differently is asked of the installed one, and nothing asks for a release by its text."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from opbridge.base.torch_private import capabilities
from opbridge.base.torch_private.capabilities import CAPABILITIES

ROOT = Path(__file__).parents[2]
TEXT = re.compile(r"\btorch(?:\.version)?\.__version__|\btorch_version\b|\btorch\.torch_version\b")
COMPARED = re.compile(
    rf"(?:{TEXT.pattern})[^\n]*?(?:\s[<>]=?\s|\.startswith\()"  # the text before the sign
    rf"|\s[<>]=?\s[^\n]*(?:{TEXT.pattern})"  # and after it
    rf"|(?:Version|parse)\((?:{TEXT.pattern})"
)


@pytest.mark.parametrize("each", CAPABILITIES, ids=lambda each: each.name)
def test_each_is_asked_of_the_installed_torch(each, monkeypatch):
    assert type(each.present) is bool
    monkeypatch.setattr(torch, "__version__", "0.0")
    again = dataclasses.replace(each)
    with FakeTensorMode():  # as while a model is captured
        assert again.present is each.present


@pytest.mark.parametrize("each", CAPABILITIES, ids=lambda each: each.name)
def test_each_says_what_differs_since_when_and_how_it_was_seen(each):
    assert each.differs.endswith(".") and "without it" in each.differs
    assert re.fullmatch(r"\d+\.\d+", each.since)
    assert each.seen.endswith(".")
    assert getattr(capabilities, each.name) is each and each.name in capabilities.__all__


def test_their_names_differ():
    names = [each.name for each in CAPABILITIES]
    assert len(set(names)) == len(names)


def test_a_probe_runs_when_it_is_first_asked_for_and_once():
    calls = []
    each = capabilities.Capability("of_a_test", "", "", "", lambda: calls.append(1) is None)
    assert not calls
    assert each.present and each.present
    assert calls == [1]


@pytest.mark.slow
def test_nothing_compares_the_text_of_a_release_of_torch():
    files = [file for folder in ("src", "tests") for file in sorted((ROOT / folder).rglob("*.py"))]
    found = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()}"
        for file in files
        if file != Path(__file__)
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if COMPARED.search(line)
    ]
    assert not found, "ask for the capability: opbridge.base.torch_private.capabilities"


@pytest.mark.parametrize(
    "line",
    [
        'if torch.__version__ < "2.15":',
        'if "2.15" <= torch.__version__:',
        'x = torch.__version__.startswith("2.13.")',
        'if tuple(torch.__version__.split(".")[:2]) >= ("2", "15"):',
        'if Version(torch.__version__) >= Version("2.15"):',
        "if parse(torch.__version__).minor == 13:",
    ],
)
def test_comparisons_are_found(line):
    assert COMPARED.search(line)
