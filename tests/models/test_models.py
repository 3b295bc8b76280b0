"""Whole models: they export, load and match, with the sizes of the example and, where the model allows it, others."""

from __future__ import annotations

import onnx
import pytest
import torch
from helpers.rows import one_in
from helpers.shape_inference import assert_shapes_agree
from models.zoo import TRANSFORMERS, VISION

import opbridge

pytestmark = pytest.mark.slow
QUICK = {("mobilenet_v3_small", True), ("deform_conv", True), ("BERT", True), ("Llama", True), ("ViT", True)}
"""The models that `make quick` takes too, and whether with dynamic sizes."""


def _rows(names):
    return [
        pytest.param(
            name,
            dynamic,
            id=f"{name}-{'dynamic' if dynamic else 'static'}",
            marks=[pytest.mark.quick] if (name, dynamic) in QUICK else [],
        )
        for name in names
        for dynamic in (False, True)
        # raft_small's own code splits the images by their batch, which torch.export then refuses to leave open. Of the
        # others of torchvision, which have no dynamic size but the batch, one shows what a static batch is.
        if name not in VISION or dynamic != (name == "raft_small") or (name, dynamic) in QUICK
    ]


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


@pytest.mark.slow
@pytest.mark.torchvision
@pytest.mark.parametrize(("name", "dynamic"), one_in(2, _rows(VISION)))
def test_torchvision(name, dynamic, tmp_path):
    _export(VISION[name], tmp_path, dynamic)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dynamic"), _rows(TRANSFORMERS))
def test_transformers(name, dynamic, tmp_path):
    pytest.importorskip("transformers", reason="transformers is not installed")
    _export(TRANSFORMERS[name], tmp_path, dynamic)
