"""Mixtures of experts without loops over the experts that tokens have chosen."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.transformers_classes import of_module

import opbridge
from opbridge.model_support.transformers import comparison_inputs

pytest.importorskip("transformers", reason="not installed")

_CLASSES = [
    ("dbrx", "DbrxExperts", comparison_inputs.experts),
    ("longcat_flash", "LongcatFlashExperts", comparison_inputs.experts),
    ("step3p7", "Step3p7Experts", comparison_inputs.experts),
    ("switch_transformers", "SwitchTransformersExperts", comparison_inputs.modules_of_experts),
    ("nllb_moe", "NllbMoeExperts", comparison_inputs.modules_of_experts),
]


@pytest.mark.slow
@pytest.mark.parametrize(("module", "name", "inputs"), _CLASSES, ids=[name for _, name, _ in _CLASSES])
def test_a_file_takes_any_choice(module, name, inputs):
    kind = of_module(f"models.{module}.modeling_{module}", name)
    given = [(made, args) for (made, *args), _ in inputs(kind)]
    model, example = given[0]
    program = opbridge.export(model, tuple(example), dynamic_shapes=({0: "tokens"}, {0: "tokens"}, {0: "tokens"}))
    assert not program.capture.decisions
    session = program.session()
    names = [each.name for each in program.model.graph.inputs]
    for _, args in given:
        if args[1].shape[1:] == example[1].shape[1:]:
            (found,) = session.run(None, {each: value.numpy() for each, value in zip(names, args, strict=True)})
            np.testing.assert_allclose(found, model(*args).detach(), rtol=1e-4, atol=1e-5)
