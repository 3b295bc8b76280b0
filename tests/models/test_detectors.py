"""torchvision's detection models: data decides how many boxes there are, and Python looks at that."""

from __future__ import annotations

import functools

import pytest
import torch
from models.detecting import DETECTORS, NOTHING, detector, image, unmatched

import opbridge

pytestmark = [pytest.mark.slow, pytest.mark.torchvision]


def _assert_finds(program: opbridge.Program, model: torch.nn.Module, images: list[torch.Tensor]) -> list[int]:
    """Asserts that a file finds what a model finds, and gives how many boxes that are in each image."""
    session = program.session()
    names = [output.name.partition(".")[2] for output in session.get_outputs()]
    counts = []
    for each in images:
        with torch.no_grad():
            (expected,) = model([each])
        values = session.run(None, {session.get_inputs()[0].name: each.numpy()})
        found = dict(zip(names, map(torch.from_numpy, values), strict=True))
        for name, value in expected.items():
            assert (found[name].shape, found[name].dtype) == (value.shape, value.dtype)
        assert unmatched(found, expected) == 0
        assert unmatched(expected, found) == 0
        counts.append(len(expected["boxes"]))
    return counts


@functools.cache
def _exported(name: str) -> tuple[torch.nn.Module, opbridge.Program]:
    model = detector(name, 0.6)
    return model, opbridge.export(model, ([image(3)],), verify=False)


@pytest.mark.parametrize("name", DETECTORS)
def test_other_images_and_one_in_which_nothing_is_found(name):
    model, program = _exported(name)
    assert program.capture.strategy == "direct"
    assert program.plan.decisions
    images = [image(3), NOTHING, image(4), (image(5) + NOTHING * 9) / 10, image(6)]
    counts = _assert_finds(program, model, images)
    assert counts[0] and counts[1] == 0 and counts[2]


def test_threshold_that_no_box_passes():
    model = detector("fcos", 1.1)
    program = opbridge.export(model, ([image(3)],), verify=False)
    assert _assert_finds(program, model, [image(3), NOTHING, image(4)]) == [0, 0, 0]


def test_verification_takes_the_sides():
    model = detector("fcos", 0.6)
    program = opbridge.export(model, ([image(3)],))
    assert program.verification is not None and program.verification.ok
