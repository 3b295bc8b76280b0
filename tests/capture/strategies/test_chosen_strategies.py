"""Which of the paths to capture a model is taken."""

from __future__ import annotations

import pytest
import torch
from helpers.captures import LAYER, X, assert_same

import opbridge
from opbridge.capture import capture, one_capture
from opbridge.capture.config import CaptureConfig
from opbridge.errors import CaptureError


def test_torch_export_by_choice():
    taken = capture(LAYER, X, config=CaptureConfig("torch.export"))
    assert (taken.mode, taken.notes) == ("non-strict", ())
    assert_same(taken, X + 1)
    program = opbridge.export(LAYER, (X,), capture="torch.export", verify=False)
    assert program.capture.mode == "non-strict"


def test_torch_export_where_the_direct_capture_stops(monkeypatch):
    def stops(*args, **kwargs):
        raise RuntimeError("no such thing")

    monkeypatch.setattr(one_capture, "trace", stops)
    taken = capture(LAYER, X)
    assert taken.mode == "non-strict"
    assert taken.notes[0].startswith("captured by torch.export, because opbridge's own capture failed:")
    assert "no such thing" in taken.notes[0]
    assert_same(taken, X + 1)


def test_the_first_failure_is_told_where_both_stop(monkeypatch):
    def stops(*args, **kwargs):
        raise RuntimeError("the first")

    monkeypatch.setattr(one_capture, "trace", stops)
    monkeypatch.setattr(torch.export, "export", lambda *args, **kwargs: (_ for _ in ()).throw(RuntimeError("other")))
    with pytest.raises(CaptureError, match="the first"):
        capture(LAYER, X)


class Cached(torch.nn.Module):
    """Keeps tensors in a list, as generators of anchors do."""

    def __init__(self) -> None:
        super().__init__()
        self.scales = [torch.ones(3)]
        self.runs = 0

    def forward(self, x):
        self.scales = [each.to(x.dtype) for each in self.scales]
        self.scales.append(x[0])
        self.runs += 1
        return x * self.scales[0]


class DecidedByData(Cached):
    def forward(self, x):
        y = super().forward(x)
        return y if y.sum() > 0 else -y


class RefusedByData(Cached):
    def forward(self, x):
        y = super().forward(x)
        return y if y.sum() > 0 else y.sum()


class WithGradient(Cached):
    def forward(self, x):
        x = x.detach().requires_grad_()
        return torch.autograd.grad(super().forward(x).sum(), x)[0]


@pytest.mark.slow
def test_a_failed_capture_leaves_nothing_in_containers():
    model = RefusedByData()
    with pytest.raises(CaptureError, match="return different structures"):
        capture(model, torch.ones(2, 3))
    assert model.runs == 0 and len(model.scales) == 1
    assert type(model.scales[0]) is torch.Tensor


def test_the_captures_of_several_paths_leave_nothing_in_containers():
    model = DecidedByData()
    taken = capture(model, torch.ones(2, 3))
    assert model.runs == 0 and len(model.scales) == 1
    assert type(model.scales[0]) is torch.Tensor
    for x in (torch.ones(2, 3), -torch.ones(2, 3)):
        assert_same(taken, x, model=DecidedByData())


def test_a_failed_attempt_leaves_nothing_for_the_next():
    model = WithGradient()
    taken = capture(model, torch.ones(2, 3))
    assert "captured with gradients enabled" in taken.notes[0]
    assert_same(taken, torch.ones(2, 3), model=lambda x: torch.ones(2, 3))
    assert len(model.scales) == 1 and type(model.scales[0]) is torch.Tensor


def test_torch_prints_no_traceback_of_an_attempt_that_is_followed_by_another(capfd):
    def model(x):
        return torch.nn.functional.interpolate(
            x, size=(x.shape[2] * 2 + 1, x.shape[3] // 2), mode="bicubic", antialias=True
        )

    capture(model, (torch.randn(1, 2, 8, 8),), dynamic_shapes={"x": {2: "h", 3: "w"}})
    assert capfd.readouterr() == ("", "")


def test_a_size_that_a_loop_fixes_is_not_captured_with_more_freedom():
    """Each capture in which the loop is no branch unrolls it: only the one with all paths helps."""

    class Recurrent(torch.nn.Module):
        def forward(self, x):
            state = x.new_zeros(x.shape[1])
            for row in range(x.shape[0]):
                state = torch.tanh(state + x[row])
            return state

    taken = capture(Recurrent(), (torch.randn(5, 3),), dynamic_shapes={"x": {0: "rows"}})
    tried = {each.strategy: each.executions for each in taken.tried}
    assert not tried.keys() & {"larger example", "symbolic calls of Python functions"}
    assert tried["direct capture"] == 1
