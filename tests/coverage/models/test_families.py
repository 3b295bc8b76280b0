"""The families that come with opbridge."""

from __future__ import annotations

import fnmatch

import pytest
import torch

from opbridge.coverage.models import catalogue
from opbridge.coverage.models.entries import DYNAMIC
from opbridge.verification.eager import Eager


@pytest.mark.slow
@pytest.mark.parametrize("family", catalogue.known_families())
def test_the_entries_of_a_family(family):
    if catalogue.absent(family):
        pytest.skip(f"{family} is not installed")
    entries = catalogue.entries_of(family)
    assert entries and all(name == entry.name for name, entry in entries.items())


@pytest.mark.slow
@pytest.mark.torchvision
@pytest.mark.parametrize(
    ("family", "name"),
    [
        ("torchvision", "squeezenet1_1"),
        ("torchvision", "vit_b_32"),
        ("torchvision", "lraspp_mobilenet_v3_large"),
        ("torchvision", "detection/ssdlite320_mobilenet_v3_large"),
        ("timm", "test_resnet"),
        ("timm", "test_vit"),
    ],
)
def test_a_case_is_whole(family, name):
    if catalogue.absent(family):
        pytest.skip(f"{family} is not installed")
    torch.manual_seed(0)
    case = catalogue.entries_of(family)[name].make()
    assert not case.model.training
    assert case.dynamic_shapes.keys() <= set(DYNAMIC) and case.others.keys() <= set(DYNAMIC)
    eager = Eager(case.model)
    for inputs in (case.example, *(each for others in case.others.values() for each in others)):
        assert eager.run(inputs.args, inputs.kwargs, 0)


@pytest.mark.slow
def test_timm_has_one_model_a_module():
    timm = pytest.importorskip("timm")
    names = list(catalogue.entries_of("timm"))
    assert len(names) == len(timm.list_modules())
    assert {"test_vit", "test_resnet", "visformer_tiny", "hrnet_w18_small"} <= set(names)
    assert not fnmatch.filter(names, "*_large*")
