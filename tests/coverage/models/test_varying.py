"""Cases of models whose inputs are drawn for given sizes."""

from __future__ import annotations

import inspect
from types import SimpleNamespace

import pytest
import torch
from helpers import causal_models
from torch.export import Dim
from transformers import DynamicCache, EncoderDecoderCache, MistralConfig

from opbridge.coverage.models.entries import Inputs
from opbridge.coverage.models.varying import Size, runs, vary

SIZES = {"batch": Size(2, (1, 3)), "sequence": Size(4, (5,)), "fixed": Size(3, ())}


def _draw(batch: int, sequence: int, fixed: int) -> Inputs:
    return Inputs((), {"x": torch.randn(batch, sequence, fixed), "y": torch.randn(batch * sequence), "flag": True})


def test_dimensions_follow_from_the_sizes_that_change_them():
    case = vary(torch.nn.Identity().train(), _draw, SIZES)
    assert not case.model.training
    assert case.dynamic_shapes["batch"] == {"x": {0: "batch"}, "y": {0: "batch_8"}, "flag": None}
    assert case.dynamic_shapes["all"] == {
        "x": {0: "batch", 1: "sequence"},
        "y": {0: "batch_sequence_8"},
        "flag": None,
    }
    assert [tuple(one.kwargs["x"].shape) for one in case.others["none"]] == [(2, 4, 3)]
    assert [tuple(one.kwargs["x"].shape) for one in case.others["batch"]] == [(1, 4, 3), (3, 4, 3)]
    assert [tuple(one.kwargs["x"].shape) for one in case.others["all"]] == [(1, 5, 3), (3, 5, 3)]


def test_multiples_of_a_size_are_asked_for_as_such():
    def draw(batch: int, height: int) -> Inputs:
        return Inputs((), {"x": torch.randn(batch, 8 * height), "y": torch.randn(8 * batch, 64 * height, height + 1)})

    case = vary(torch.nn.Identity(), draw, {"batch": Size(2, (1, 3)), "height": Size(3, (5,))}, multiples=True)
    shapes = {name: {axis: str(dim) for axis, dim in dims.items()} for name, dims in case.dynamic_shapes["all"].items()}
    assert shapes == {"x": {0: "batch", 1: "8*height"}, "y": {0: "batch_16", 1: "64*height", 2: "height_4"}}
    assert isinstance(case.dynamic_shapes["all"]["x"][1], Dim)


def test_an_int_that_changes_is_dynamic():
    def draw(sequence: int) -> Inputs:
        return Inputs((torch.randn(sequence, 3), sequence, 4))

    case = vary(torch.nn.Identity(), draw, {"sequence": Size(4, (5,))}, batch=None)
    assert case.dynamic_shapes["all"] == ({0: "sequence"}, Dim.DYNAMIC, None)


def test_without_names_the_dimensions_are_by_position():
    def draw(nodes: int) -> Inputs:
        return Inputs((torch.randn(3, nodes), [torch.ones(nodes)]))

    case = vary(torch.nn.Identity(), draw, {"nodes": Size(4, (6,))}, batch=None)
    assert case.dynamic_shapes == {"all": ({1: "nodes"}, [{0: "nodes"}])}


def test_of_a_model_with_a_batch_alone_that_is_all():
    case = vary(torch.nn.Identity(), lambda batch: Inputs((torch.randn(batch, 3),)), {"batch": Size(2, (1, 3))})
    assert case.dynamic_shapes["all"] == case.dynamic_shapes["batch"] == ({0: "batch"},)


def test_a_model_of_fixed_sizes_has_nothing_dynamic():
    case = vary(torch.nn.Identity(), lambda nodes: Inputs((torch.randn(nodes, 3),)), {"nodes": Size(2, ())})
    assert case.dynamic_shapes == {}
    assert set(case.others) == {"none"}


@pytest.mark.parametrize("kind", ["halves", "full"])
def test_caches_have_the_sizes_that_an_exported_model_takes(kind):
    if kind == "full" and "config" not in inspect.signature(DynamicCache).parameters:
        pytest.skip("the DynamicCache of this transformers takes no configuration")

    def halves(batch, past):
        decoder, encoder = DynamicCache(), DynamicCache()
        decoder.update(torch.randn(batch, 2, past, 3), torch.randn(batch, 2, past, 3), 0)
        encoder.update(torch.randn(batch, 2, 7, 3), torch.randn(batch, 2, 7, 3), 0)
        return Inputs((), {"cache": EncoderDecoderCache(decoder, encoder)})

    def full(batch, past):
        cache = DynamicCache(config=MistralConfig(num_hidden_layers=1, sliding_window=4))
        cache.update(torch.randn(batch, 2, past, 3), torch.randn(batch, 2, past, 3), 0)
        assert cache.layers[0].keys.shape[2] == 3
        return Inputs((), {"cache": cache})

    draw = {"halves": halves, "full": full}[kind]
    case = vary(torch.nn.Identity(), draw, {"batch": Size(2, (1, 3)), "past": Size(6, (5, 9))})
    assert case.dynamic_shapes["all"] == {"cache": {0: "batch", 2: "past"}}


@pytest.mark.slow
def test_a_cache_without_keys_has_the_batch_of_its_states():
    model = causal_models.make_with_layers("mamba2")

    def draw(batch: int) -> Inputs:
        return Inputs((), {"cache": causal_models.filled(model, torch.zeros(batch, 5, dtype=torch.int64))})

    case = vary(torch.nn.Identity(), draw, {"batch": Size(2, (1, 3))})
    assert case.dynamic_shapes["all"] == {"cache": {0: "batch"}}


def test_a_cache_has_one_dict_for_all_its_tensors():
    def draw(batch: int, past: int) -> Inputs:
        layer = SimpleNamespace(keys=torch.randn(batch, 2, past, 4))
        return Inputs((), {"cache": SimpleNamespace(layers=[SimpleNamespace(), layer])})

    case = vary(torch.nn.Identity(), draw, {"batch": Size(2, (1,)), "past": Size(8, (5,))})
    assert case.dynamic_shapes["all"] == {"cache": {0: "batch", 2: "past"}}


def test_runs_says_whether_a_model_takes_inputs():
    model = torch.nn.Linear(3, 2)
    assert runs(model, Inputs((torch.randn(5, 3),)))
    assert not runs(model, Inputs((torch.randn(5, 4),)))


def test_a_dimension_that_is_longer_than_another_one_by_a_number():
    def draw(batch, past):
        return Inputs((), {"cache": torch.randn(batch, past), "mask": torch.ones(batch, past + 1)})

    sizes = {"batch": Size(2, (1,)), "past": Size(8, (5,))}
    shapes = vary(torch.nn.Identity(), draw, sizes).dynamic_shapes["all"]
    assert shapes == {"cache": {0: "batch", 1: "past"}, "mask": {0: "batch", 1: "past + 1"}}
