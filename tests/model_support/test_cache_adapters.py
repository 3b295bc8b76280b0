"""A cache of a package that brings its own adapter."""

from __future__ import annotations

import importlib

import pytest
import torch
from helpers.distributions import Distribution

import opbridge
from opbridge.model_support import caches, registry

_PACKAGE = """
import torch

class Cache:
    def __init__(self, keys):
        self.keys = keys

class Model(torch.nn.Module):
    def forward(self, x, cache=None, **kwargs):
        return Cache(torch.cat([cache.keys, x[:, None]], 2))
"""
_SUPPORT = """
from opbridge.model_support import CacheAdapter, ModelSupport, Part

def parts(cache):
    yield Part(0, "key", "", None, "keys", 2, 0, ".keys", False), cache.keys

def with_tensors(cache, tensors):
    ((_, keys),) = tensors
    return type(cache)(keys)

SUPPORT = ModelSupport(
    package="acme",
    caches=(
        CacheAdapter(
            is_class=lambda kind: kind.__name__ == "Cache" and kind.__module__ == "acme",
            parts=parts,
            with_tensors=with_tensors,
            refusal=lambda cache: "" if cache.keys.shape[2] else "it is empty",
            notes=lambda cache: ("it grows",),
            parameter="cache",
            earlier_parameters=("past",),
        ),
    ),
)
"""
_SHAPES = {"x": {0: "batch", 1: "new"}, "cache": {0: "batch", 2: "past"}}


@pytest.fixture
def acme(tmp_path, monkeypatch):
    registry.loaded.cache_clear()  # of the test before, which had the same entry point
    made = Distribution(tmp_path, monkeypatch, "acme-onnx")
    made.module("acme", _PACKAGE)
    made.module("acme_support", _SUPPORT)
    made.entry_points(registry.GROUP, acme="acme_support:SUPPORT")
    return importlib.import_module("acme")


@pytest.mark.slow
@pytest.mark.parametrize("parameter", ["cache", "past"])
def test_a_cache_is_an_input_and_an_output(acme, parameter):
    given = {"x": torch.randn(2, 1, 4), parameter: acme.Cache(torch.randn(2, 1, 3, 4))}
    shapes = {parameter if name == "cache" else name: each for name, each in _SHAPES.items()}
    program = opbridge.export(acme.Model(), kwargs=given, dynamic_shapes=shapes)
    assert [str(value) for value in program.model.graph.inputs[1].shape[:3]] == ["batch", "1", "past"]
    assert [value.name for value in program.model.graph.inputs] == ["x", "past.0.key"]
    assert [value.name for value in program.model.graph.outputs] == ["present.0.key"]
    assert program.verification.ok and "it grows" in program.plan.notes


def test_a_cache_that_cannot_be_an_input_is_refused(acme):
    given = {"x": torch.randn(2, 1, 4), "cache": acme.Cache(torch.randn(2, 1, 0, 4))}
    with pytest.raises(opbridge.UsageError, match="The Cache among the inputs cannot be an input .*: it is empty"):
        opbridge.check(acme.Model(), kwargs=given)


def test_a_class_without_an_adapter_is_no_cache(acme):
    assert not caches.is_cache(object()) and caches.is_cache(acme.Cache(torch.ones(1)))
    with pytest.raises(TypeError, match="object is no cache of a package that is supported"):
        caches.parts(object())
