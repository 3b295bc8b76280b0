"""What models list for each image or sample, made for all at once, beside transformers' own functions."""

from __future__ import annotations

import pytest
import torch
from helpers.transformers_classes import of_module

import opbridge
from opbridge.model_support.transformers import image_list_inputs, stacked_tiles

pytest.importorskip("transformers", reason="not installed")

_RESOLUTIONS = [[28, 14], [14, 28], [28, 28], [42, 14], [14, 42]]
_SIDE = 14


def _class(module, name):
    return of_module(f"models.{module}.modeling_{module}", name)


@pytest.mark.parametrize("side", [_SIDE, 9])
def test_counts_are_those_of_transformers(side):
    count = _class("llava_next", "image_size_to_num_patches")
    sizes = torch.randint(1, 300, (200, 2), generator=torch.Generator().manual_seed(0))
    expected = [count(each, _RESOLUTIONS, side) for each in sizes]
    assert stacked_tiles.counts(sizes, _RESOLUTIONS, side).tolist() == expected
    assert stacked_tiles.counts(sizes.int(), _RESOLUTIONS, side).tolist() == expected
    assert stacked_tiles.counts(sizes[:0], _RESOLUTIONS, side).tolist() == []
    assert stacked_tiles.counts(sizes.tolist(), _RESOLUTIONS, side) is None


def test_a_size_that_no_image_has_is_an_error():
    with pytest.raises((RuntimeError, IndexError)):
        stacked_tiles.counts(torch.tensor([[28, 14], [0, 14]]), _RESOLUTIONS, _SIDE)


@pytest.mark.parametrize("images", [[1, 1], [2], [0, 1, 3, 1], []])
def test_images_of_samples_with_one_are_cut(images):
    given = torch.tensor(images, dtype=torch.int64)
    assert stacked_tiles.chosen(given).tolist() == [each == 1 for each in images for _ in range(each)]
    assert stacked_tiles.chosen(images) is None


def test_images_beyond_the_sizes_are_left_out():
    sizes = torch.tensor([[28, 28], [28, 14]])
    for images, expected in (([1, 1, 1], [5, 3]), ([1], [5]), ([3, 1], [1, 1])):
        found = stacked_tiles.counts_of_chosen(sizes, _RESOLUTIONS, _SIDE, torch.tensor(images))
        assert found.tolist() == expected


def test_the_first_tiles_of_each_image_are_taken():
    tiles = torch.randn(3, 5, 2, 4, 4)
    for counts in ([5, 1, 3], [2, 4], [5, 5, 5]):
        expected = torch.cat([each[:count] for each, count in zip(tiles, counts, strict=False)])
        assert torch.equal(stacked_tiles.joined(tiles, torch.tensor(counts)), expected)
    for wrong in ([6, 1, 1], [1, 1, 1, 1]):
        with pytest.raises((RuntimeError, IndexError)):
            stacked_tiles.joined(tiles, torch.tensor(wrong))


def _model(kind, inputs):
    """A model that returns what a class lists for each sample or image, and all of it as one tensor."""
    (stub, *_), settings = next(iter(inputs(kind)))

    class Model(kind):
        __module__ = kind.__module__  # so that functions of that module are those of the model

        def __init__(self):
            torch.nn.Module.__init__(self)
            self.scale = torch.nn.Parameter(torch.tensor(2.0))
            for name in vars(stub).keys() - {"dtype", "pack_image_features"}:  # which the class has
                setattr(self, name, getattr(stub, name))

        def forward(self, *images):
            found = self.get_image_features(*images, **settings).pooler_output
            return found, torch.cat(found) * self.scale

    return Model().eval()


def _samples(*counts):
    images = torch.randn(len(counts), 3, 3, _SIDE, _SIDE)
    for of_sample, count in zip(images, counts, strict=True):
        of_sample[count:] = 0
    return (images,)


def _images(*sizes):
    return torch.randn(len(sizes), 5, 3, _SIDE, _SIDE), torch.tensor(sizes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "name", "inputs", "example", "others"),
    [
        pytest.param(
            "idefics2",
            "Idefics2Model",
            image_list_inputs.samples,
            _samples(2, 1),
            [_samples(3), _samples(1, 0, 3), _samples(0, 2)],
            id="Idefics2",
        ),
        pytest.param(
            "llava_onevision",
            "LlavaOnevisionModel",
            image_list_inputs.chosen_tiles,
            _images((28, 14), (20, 21)),
            [_images((9, 30)), _images((300, 7), (1, 1), (41, 13), (28, 28))],
            id="LLaVA-OneVision",
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_they_are_exported_without_loops(module, name, inputs, example, others):
    kind = _class(module, name)
    program = opbridge.export(
        _model(kind, inputs), example, dynamic_shapes=({0: "batch"},) * len(example), inputs=others
    )
    assert not [each for each in program.model.graph.all_nodes() if each.op_type in ("Loop", "Scan", "If")]
    assert [each.name for each in program.model.graph.outputs] == ["output_0", "output_0.sizes", "output_1"]
