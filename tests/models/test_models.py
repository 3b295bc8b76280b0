"""Whole models: they export, load and match, with the sizes of the example and, where the model allows it, others."""

from __future__ import annotations

import onnx
import pytest
import torch
from models.zoo import TRANSFORMERS, VISION
from shape_inference import assert_shapes_agree

import opbridge

pytestmark = pytest.mark.slow


def _export(make, tmp_path, dynamic):
    torch.manual_seed(0)
    model, args, kwargs, varying = make()
    program = opbridge.export(
        model, args, tmp_path / "model.onnx", kwargs=kwargs, dynamic_shapes=varying if dynamic else None
    )
    assert program.plan.ok
    assert program.verification.ok
    kinds = {run.kind for run in program.verification.runs if run.left_out is None}
    assert kinds == ({"example", "fresh", "sizes"} if dynamic else {"example", "fresh"})
    # The large weights are not read: they lie in a file of their own.
    assert assert_shapes_agree(onnx.load(tmp_path / "model.onnx", load_external_data=False)) > 0


@pytest.mark.torchvision
@pytest.mark.parametrize(
    ("name", "dynamic"),
    # raft_small asks for one batch: its own code splits the images by it, and torch.export refuses to leave it open.
    [(name, dynamic) for name in VISION for dynamic in (False, True) if not (dynamic and name == "raft_small")],
)
def test_torchvision(name, dynamic, tmp_path):
    _export(VISION[name], tmp_path, dynamic)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_transformers(name, dynamic, tmp_path):
    pytest.importorskip("transformers", reason="transformers is not installed")
    _export(TRANSFORMERS[name], tmp_path, dynamic)
