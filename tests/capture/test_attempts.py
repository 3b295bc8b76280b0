"""Which of the ways to capture a model is taken."""

from __future__ import annotations

import pytest
import torch
from helpers.captures import LAYER, X, assert_same

import opbridge
from opbridge.capture import attempts, capture
from opbridge.errors import CaptureError


def test_torch_export_by_choice():
    taken = capture(LAYER, X, by_torch_export=True)
    assert (taken.strategy, taken.notes) == ("non-strict", ())
    assert_same(taken, X + 1)
    program = opbridge.export(LAYER, (X,), capture="torch.export", verify=False)
    assert program.capture.strategy == "non-strict"


def test_torch_export_where_the_direct_capture_stops(monkeypatch):
    def stops(*args, **kwargs):
        raise RuntimeError("no such thing")

    monkeypatch.setattr(attempts, "trace", stops)
    taken = capture(LAYER, X)
    assert taken.strategy == "non-strict"
    assert taken.notes[0].startswith("captured by torch.export, as the direct capture stops:")
    assert "no such thing" in taken.notes[0]
    assert_same(taken, X + 1)


def test_the_first_failure_is_told_where_both_stop(monkeypatch):
    def stops(*args, **kwargs):
        raise RuntimeError("the first")

    monkeypatch.setattr(attempts, "trace", stops)
    monkeypatch.setattr(torch.export, "export", lambda *args, **kwargs: (_ for _ in ()).throw(RuntimeError("other")))
    with pytest.raises(CaptureError, match="the first"):
        capture(LAYER, X)
