"""How much work the captures of a model that decides by data may take, and what is said where they take more."""

from __future__ import annotations

import contextlib

import pytest
import torch

import opbridge
from opbridge.errors import CaptureError, UsageError

X = torch.ones(4, 3)


def three(x):
    for i in range(3):
        if x[i].sum() > 0:
            x = x * 1.5 + i
    return x


@pytest.mark.slow
def test_a_limit_of_captures():
    assert opbridge.check(three, (X,), max_captures=8).decisions
    with pytest.raises(CaptureError, match=r"has more than 2 paths, at .*test_limits\.py:\d+.*--max-captures"):
        opbridge.check(three, (X,), max_captures=2)


def test_a_limit_of_time():
    with pytest.raises(
        CaptureError,
        match=r"could not be captured within 1e-09 s \(1 path captured so far\), at .*test_limits\.py:\d+",
    ):
        opbridge.check(three, (X,), max_capture_seconds=1e-9)


@pytest.mark.parametrize("given", [{"max_captures": 0}, {"max_captures": 1.5}, {"max_capture_seconds": 0}])
def test_limits_that_are_none(given):
    with pytest.raises(UsageError, match=next(iter(given))):
        opbridge.check(three, (X,), **given)


@pytest.mark.slow
def test_the_captured_paths_are_shown():
    said = []

    class Shown:
        @contextlib.contextmanager
        def stage(self, name):
            yield self

        def detail(self, text):
            said.append(text)

    opbridge.export(three, (X,), verify=False, progress=Shown())
    assert "2 paths captured" in said
    assert "execution 3 of the model (another path of its data-dependent control flow), 1 path captured" in said
    assert any(text.endswith("3 conditions") for text in said)


def test_sides_of_other_ranks_are_refused_with_both_lines():
    def model(x):
        y = x * 2 if x.sum() > 0 else x.sum()
        return y + 1

    line = model.__code__.co_firstlineno
    with pytest.raises(CaptureError, match="return different structures") as caught:
        opbridge.check(model, (X,))
    said = str(caught.value)
    assert f"test_limits.py:{line + 1}" in said
    assert "2 dimensions" in said and "0 dimensions" in said


def test_a_side_that_cannot_be_captured_is_named_beside_its_decision():
    def model(x):
        if x.sum() > 100:
            return torch.from_numpy(x.numpy()) * 2
        return x + 1

    line = model.__code__.co_firstlineno
    with pytest.raises(CaptureError) as caught:
        opbridge.check(model, (X,))
    decision, stop = (str(caught.value).find(f"test_limits.py:{line + each}") for each in (1, 2))
    assert 0 <= stop < decision
    assert str(caught.value).startswith("The model cannot be captured: ")
    assert "a NumPy array" in str(caught.value).partition(". ")[0]
