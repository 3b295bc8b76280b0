"""torchvision's detection models: data decides how many boxes there are, and Python looks at that."""

from __future__ import annotations

import functools

import pytest
import torch
from helpers.rows import one_in
from models.detecting import NOTHING, assert_finds, detector, image

import opbridge

pytestmark = [pytest.mark.slow, pytest.mark.torchvision]


@functools.cache
def _exported(name: str) -> tuple[torch.nn.Module, opbridge.Program]:
    model = detector(name, 0.6)
    return model, opbridge.export(model, ([image(3)],), verify=False)


@pytest.mark.long
@pytest.mark.parametrize("name", one_in(6, ("fasterrcnn", "retinanet", "maskrcnn", "keypointrcnn", "fcos", "ssd")))
def test_other_images_and_one_in_which_nothing_is_found(name):
    model, program = _exported(name)
    assert program.capture.mode == "direct"
    assert not program.plan.decisions
    images = [image(3), NOTHING, image(4), (image(5) + NOTHING * 9) / 10, image(6)]
    counts = assert_finds(program, model, images)
    assert counts[0] and counts[1] == 0 and counts[2]


def test_several_images():
    """Of each of which other boxes are found, or none."""
    model = detector("maskrcnn", 0.6)
    program = opbridge.export(model, ([image(3), image(4)],), verify=False)
    assert not program.plan.decisions
    session = program.session()
    for images in ([image(5), image(6)], [NOTHING, image(3)], [image(7), NOTHING], [NOTHING, NOTHING]):
        given = dict(zip((each.name for each in session.get_inputs()), images, strict=True))
        with torch.no_grad():
            expected = [value for each in model(images) for value in each.values()]
        values = session.run(None, {name: each.numpy() for name, each in given.items()})
        for value, own in zip(values, expected, strict=True):
            torch.testing.assert_close(torch.from_numpy(value), own, rtol=1e-3, atol=1e-2)


@pytest.mark.long
@pytest.mark.parametrize("name", one_in(3, ("retinanet", "fasterrcnn", "fcos")))
def test_images_of_dynamic_sizes(name):
    """One file for images of all sizes, each of another one."""
    model = detector(name, 0.6)
    shapes = ([{1: "height0", 2: "width0"}, {1: "height1", 2: "width1"}],)
    program = opbridge.export(model, ([image(3), image(4)],), dynamic_shapes=shapes, verify=False)
    assert program.capture.mode == "direct" and not program.plan.decisions
    session = program.session()
    for sizes in (((64, 80), (64, 80)), ((100, 60), (50, 130)), ((33, 40), (70, 70)), ((200, 150), (31, 90))):
        images = [image(5 + number, *each) for number, each in enumerate(sizes)]
        with torch.no_grad():
            expected = [value for each in model(images) for value in each.values()]
        names = (each.name for each in session.get_inputs())
        values = session.run(None, dict(zip(names, (each.numpy() for each in images), strict=True)))
        for value, own in zip(values, expected, strict=True):
            torch.testing.assert_close(torch.from_numpy(value), own, rtol=1e-3, atol=1e-2)


@pytest.mark.thorough
def test_threshold_that_no_box_passes():
    model = detector("fcos", 1.1)
    program = opbridge.export(model, ([image(3)],), verify=False)
    assert assert_finds(program, model, [image(3), NOTHING, image(4)]) == [0, 0, 0]


@pytest.mark.thorough
def test_verification_of_keypoints():
    program = opbridge.export(detector("keypointrcnn", 0.6), ([image(3)],))
    assert program.verification is not None and program.verification.ok
