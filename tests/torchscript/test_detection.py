"""torchvision's detection models: data decides how many boxes there are, and Python looks at that."""

from __future__ import annotations

import pytest
from helpers.rows import one_in
from models.detecting import assert_finds, detector, image
from torch.export import Dim

import opbridge

pytestmark = [pytest.mark.slow, pytest.mark.torchvision]


@pytest.mark.parametrize("name", one_in(3, ["ssd", "retinanet", "fasterrcnn"]))
def test_images_that_were_not_the_examples(name):
    model = detector(name, 0.6)
    sizes = {1: Dim("height", min=60, max=100), 2: Dim("width", min=60, max=100)}
    # The capture of the operators of the first two, with sizes that decide as well, takes minutes before it fails.
    way = "auto" if name == "ssd" else "trace"
    program = opbridge.export(model, ([image(3)],), capture=way, dynamic_shapes={"images": [sizes]}, verify=False)
    assert program.capture.mode == ("direct" if name == "ssd" else "trace")
    frozen = [note for note in program.plan.notes if note.startswith("constant in the trace at torchvision")]
    assert bool(frozen) == (name != "ssd")
    (given,) = program.session().get_inputs()
    assert given.shape == [3, "height", "width"]
    counts = assert_finds(program, model, [image(4), image(5), image(6, 70, 90), image(7, 70, 90)])
    assert all(counts)


def test_verification_of_a_detection_model():
    program = opbridge.export(detector("ssd", 0.6), ([image(3)],), capture="trace")
    assert program.verification is not None and program.verification.ok
    assert [run.kind for run in program.verification.runs][:3] == ["example", "fresh", "fresh"]
