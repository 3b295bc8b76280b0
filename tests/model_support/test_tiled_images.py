"""Images that are cut to tiles, compared with transformers' own functions."""

from __future__ import annotations

import itertools
import sys
import types

import pytest
import torch
from helpers import known_functions

import opbridge
from opbridge.model_support.transformers import image_resolutions

processing = pytest.importorskip("transformers.image_processing_utils")
llava_next = pytest.importorskip("transformers.models.llava_next.modeling_llava_next")
llava_onevision = pytest.importorskip("transformers.models.llava_onevision.modeling_llava_onevision")

_FEW = [[28, 14], [14, 28], [28, 28], [42, 14], [14, 42]]
_MANY = [[14 * rows, 14 * columns] for rows in range(1, 7) for columns in range(1, 7)]


def _sizes(seed, count=4, largest=300):
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.randint(1, largest, (count, 2), generator=generator)
    return torch.where(torch.rand(count, 2, generator=generator) < 0.2, 1 + sizes % 3, sizes)


@pytest.mark.parametrize("resolutions", [_FEW, _MANY, [[336, 672], [672, 336], [672, 672], [1008, 336]], [[9, 9]]])
def test_resolutions_and_padding_are_those_of_transformers(resolutions):
    sizes = torch.cat(
        [
            torch.tensor(list(itertools.product(range(1, 30), repeat=2))),  # many that several resolutions fit equally
            _sizes(0, 300, 3000),
            _sizes(1, 300, 10**6),
        ]
    )
    chosen = image_resolutions.best(sizes, resolutions)
    found = torch.tensor(resolutions)[chosen]
    assert found.tolist() == [list(processing.select_best_resolution(each, resolutions)) for each in sizes.tolist()]
    left_out = image_resolutions.unpadded(sizes, found)
    for size, padded, (top, left) in zip(sizes.tolist(), found.tolist(), left_out.tolist(), strict=True):
        image = torch.arange(padded[0] * padded[1]).reshape(1, *padded)
        expected = llava_next.unpad_image(image, size)
        assert torch.equal(image[:, top : padded[0] - top, left : padded[1] - left], expected)


def test_counts_are_those_of_transformers():
    original = llava_next.image_size_to_num_patches
    computed = known_functions.computed(original)
    for size in _sizes(0, 50):
        for side in (14, 9):
            assert computed(size, _MANY, side) == original(size, _MANY, side)
            assert computed(size.tolist(), _MANY, side) == original(size, _MANY, side)


@pytest.mark.parametrize("size", [(0, 14), (14, 0), (0, 0), (-14, 14), (2**31, 14)])
def test_a_size_that_no_image_has_is_an_error(size):
    computed = known_functions.computed(llava_next.image_size_to_num_patches)
    with pytest.raises((RuntimeError, IndexError)):
        computed(torch.tensor(size), _FEW, 14)


def _model(kind, patch, resolutions):
    vision = types.SimpleNamespace(image_size=14, patch_size=patch)
    return types.SimpleNamespace(
        config=types.SimpleNamespace(vision_config=vision, image_grid_pinpoints=resolutions), kind=kind
    )


_PACKING = {
    "LLaVA-NeXT": (llava_next.LlavaNextModel, lambda seed: {"vision_feature_select_strategy": "default"}),
    "LLaVA-OneVision": (
        llava_onevision.LlavaOnevisionModel,
        lambda seed: {"vision_aspect_ratio": f"anyres_max_{1 + seed % 9}"},
    ),
}


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("name", _PACKING)
def test_packed_features_are_those_of_transformers(name, seed):
    kind, settings = _PACKING[name]
    original = kind.pack_image_features
    computed = known_functions.computed(original)
    torch.manual_seed(seed)
    patch, resolutions = (14, 7, 4)[seed % 3], (_FEW, _MANY)[seed % 2]
    sizes, places = _sizes(seed), (14 // patch) ** 2
    counts = [llava_next.image_size_to_num_patches(each, resolutions, 14) for each in sizes]
    counts[seed % 4] = counts[seed % 4] if seed % 5 else 1  # an image that is not cut
    features = [torch.randn(count, places, 5) for count in counts]
    newline = torch.randn(5) if seed % 4 else None
    given = (_model(name, patch, resolutions), features, sizes)
    try:
        expected, lengths = original(*given, image_newline=newline, **settings(seed))
    except RuntimeError:  # an image that is scaled down to nothing
        with pytest.raises((RuntimeError, IndexError)):
            computed(*given, image_newline=newline, **settings(seed))
        return
    found, found_lengths = computed(*given, image_newline=newline, **settings(seed))
    torch.testing.assert_close(list(found), expected)
    assert torch.equal(found_lengths, lengths)


@pytest.mark.parametrize("rate", [None, "1/2", "4/8"])
def test_packed_features_that_were_projected_are_those_of_transformers(rate):
    granite = pytest.importorskip("transformers.models.granite4_vision.modeling_granite4_vision")
    original = granite.Granite4VisionModel.pack_image_features
    model = _model("", 3 if rate else 7, _MANY)  # four patches in a row, or two
    model.layerwise_projectors, model.downsample_rate = None if rate is None else (), rate
    sizes = _sizes(3)
    counts = [llava_next.image_size_to_num_patches(each, _MANY, 14) for each in sizes]
    given = model, [torch.randn(count, 4, 5) for count in counts], sizes, "default", torch.randn(5)
    torch.testing.assert_close(known_functions.computed(original)(*given), original(*given))


@pytest.mark.parametrize("name", _PACKING)
@pytest.mark.parametrize(("tiles", "size"), [(4, (28, 14)), (2, (28, 14)), (3, (0, 14)), (0, (28, 14))])
def test_tiles_that_do_not_fit_are_an_error(name, tiles, size):
    kind, settings = _PACKING[name]
    for function in (kind.pack_image_features, known_functions.computed(kind.pack_image_features)):
        with pytest.raises((RuntimeError, IndexError, ValueError, ZeroDivisionError)):
            function(
                _model(name, 14, _FEW),
                [torch.randn(tiles, 1, 5)],
                torch.tensor([size]),
                image_newline=torch.randn(5),
                **settings(0),
            )


@pytest.mark.parametrize("name", _PACKING)
def test_infinite_features_stay_where_they_are(name):
    """An image that is not scaled down is no weighted sum of its neighbours."""
    kind, settings = _PACKING[name]
    features = [torch.randn(3, 4, 5), torch.randn(1, 4, 5)]
    features[0][1, 2] = float("inf")
    given = (_model(name, 7, _FEW), features, torch.tensor([[28, 14], [3, 3]]))
    expected, _ = kind.pack_image_features(*given, image_newline=torch.ones(5), **settings(8))
    found, _ = known_functions.computed(kind.pack_image_features)(*given, image_newline=torch.ones(5), **settings(8))
    torch.testing.assert_close(list(found), expected)


def _tiled(kind, settings):
    """A model of a class that packs the features of tiles as that class does."""

    class Tiled(kind):
        def __init__(self):
            torch.nn.Module.__init__(self)
            self.config = _model("", 7, _FEW).config
            self.linear, self.newline = torch.nn.Linear(3, 5), torch.nn.Parameter(torch.randn(5))

        def forward(self, tiles, sizes, counts=None):
            if counts is None:
                count = sys.modules[kind.__module__].image_size_to_num_patches
                counts = [count(image_size=each, grid_pinpoints=_FEW, patch_size=14) for each in sizes]
            parts = torch.split(self.linear(tiles), counts)
            features, lengths = self.pack_image_features(parts, sizes, image_newline=self.newline, **settings)
            return torch.cat(features), lengths

    return Tiled().eval()


class _Stacked(torch.nn.Module):
    """Images that are padded to one number of tiles, of which there is any number, as LLaVA-NeXT takes them."""

    def __init__(self, tiled):
        super().__init__()
        self.tiled = tiled

    def forward(self, tiles, sizes):
        counts = [image_size_to_num_patches(image_size=each, grid_pinpoints=_FEW, patch_size=14) for each in sizes]
        joined = torch.cat([each[:count] for each, count in zip(tiles, counts)])  # noqa: B905  # as models write it
        return *self.tiled(joined, sizes, counts), len(sizes) + int(sizes[0, 0])


image_size_to_num_patches = llava_next.image_size_to_num_patches


def _inputs(*sizes):
    sizes = torch.tensor(sizes)
    count = sum(llava_next.image_size_to_num_patches(each, _FEW, 14) for each in sizes)
    return torch.randn(count, 4, 3), sizes


@pytest.mark.slow
@pytest.mark.parametrize("name", _PACKING)
def test_they_are_exported_for_any_sizes(name):
    kind, settings = _PACKING[name]
    known_functions.computed(kind.pack_image_features)
    known_functions.computed(llava_next.image_size_to_num_patches)
    model = _tiled(kind, settings(0))
    program = opbridge.export(
        model,
        _inputs((28, 14), (20, 21)),
        dynamic_shapes={"tiles": {0: "tiles"}, "sizes": None},
        inputs=[_inputs((14, 28), (9, 30)), _inputs((300, 7), (1, 1)), _inputs((41, 13), (28, 28))],
    )
    assert not [each for each in program.model.graph.all_nodes() if each.op_type in ("Loop", "Scan", "If")]
    session = program.session()
    for tiles, sizes in (_inputs((28, 14), (28, 14)), _inputs((5, 14), (0x7FFFFFFF, 3))):
        found = session.run(None, {"tiles": tiles.numpy(), "sizes": sizes.numpy()})
        torch.testing.assert_close([torch.from_numpy(each) for each in found], list(model(tiles, sizes)))
    tiles, sizes = _inputs((28, 14), (28, 14))
    for wrong in (sizes * 0, -sizes):
        with pytest.raises(Exception, match=r"(?i)indices|bounds|range"):
            session.run(None, {"tiles": tiles.numpy(), "sizes": wrong.numpy()})


class _Chosen(torch.nn.Module):
    """The resolution of an image alone."""

    __module__ = llava_next.__name__  # the module in which the function is called

    def forward(self, x, sizes):
        height, width = llava_next.get_anyres_image_grid_shape(sizes, _FEW, 14)
        return x[:height, :width], torch.tensor([height, width])


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.thorough
def test_they_are_exported_for_any_number_of_images(tmp_path):
    kind, settings = _PACKING["LLaVA-OneVision"]  # LLaVA-NeXT takes lists of features so too, and scales nothing
    known_functions.computed(kind.pack_image_features)
    known_functions.computed(llava_next.image_size_to_num_patches)
    model, path = _Stacked(_tiled(kind, settings(0))).eval(), tmp_path / "model.onnx"
    opbridge.export(
        model,
        (torch.randn(2, 5, 4, 3), torch.tensor([[28, 14], [28, 28]])),
        path,
        dynamic_shapes=({0: "images"}, {0: "images"}),
        verify=False,
    )
    session = opbridge.session(path)
    for sizes in ([[9, 30]], [[28, 14], [300, 7]], [[20, 21], [41, 13], [1, 1], [14, 28], [29, 29]]):
        tiles, sizes = torch.randn(len(sizes), 5, 4, 3), torch.tensor(sizes)
        found = session.run(None, {"tiles": tiles.numpy(), "sizes": sizes.numpy()})
        expected = [torch.as_tensor(each) for each in model(tiles, sizes)]
        torch.testing.assert_close([torch.as_tensor(each) for each in found], expected)
    # What took the place of functions of the model's module is not there any more, where what is compared runs.
    assert image_size_to_num_patches is llava_next.image_size_to_num_patches
    assert not [name for name in globals() if name == "len" or name.startswith("__opbridge")]


def test_a_resolution_is_exported_for_any_size():
    known_functions.computed(processing.select_best_resolution)
    model = _Chosen()
    program = opbridge.export(model, (torch.randn(3, 3), torch.tensor([28, 14])), verify=False)
    session = program.session()
    for size in ([14, 28], [13, 60], [3, 500], [1, 1], [29, 29]):
        x = torch.randn(3, 3)
        found = session.run(None, {"x": x.numpy(), "sizes": torch.tensor(size).numpy()})
        for each, expected in zip(found, model(x, torch.tensor(size)), strict=True):
            torch.testing.assert_close(torch.from_numpy(each), expected)
