"""The forms in which people write dynamic shapes of containers and of `*args`."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch.utils import _pytree as pytree

from opbridge.capture import capture
from opbridge.errors import UsageError

BATCH = {0: "batch"}


def _sizes(taken):
    return ["batch" if isinstance(leaf.node.meta["val"].shape[0], torch.SymInt) else "" for leaf in taken.graph.inputs]


def _x():
    return torch.randn(3, 4)


@pytest.mark.parametrize(
    "shapes",
    [
        (BATCH, BATCH),
        [BATCH, BATCH],
        ((BATCH, BATCH),),
        {"inputs": (BATCH, BATCH)},
        {"inputs": [BATCH, BATCH]},
        {"inputs": BATCH},
        (("batch", None), ("batch", None)),
    ],
)
def test_what_is_gathered_by_a_star(shapes):
    taken = capture(lambda *inputs: inputs[0] + inputs[1], (_x(), _x()), dynamic_shapes=shapes)
    assert _sizes(taken) == ["batch", "batch"]


@pytest.mark.parametrize("shapes", [(None, BATCH), (None, (BATCH,)), ((None, None), ("batch", None))])
def test_one_input_that_is_gathered_behind_another(shapes):
    taken = capture(lambda x, *rest: x.sum() + rest[0], (_x(), _x()), dynamic_shapes=shapes)
    assert _sizes(taken) == ["", "batch"]


def test_what_is_gathered_before_keywords():
    def model(x, *rest, scale):
        return x + rest[0] + rest[1] + scale.sum()

    shapes = (BATCH, BATCH, BATCH, None)
    taken = capture(model, (_x(), _x(), _x()), {"scale": _x()}, dynamic_shapes=shapes)
    assert _sizes(taken) == ["batch", "batch", "batch", ""]


def test_too_many_for_what_is_gathered():
    with pytest.raises(UsageError, match="has 3 entries, but the model has 1 input "):
        capture(lambda *inputs: inputs[0] + inputs[1], (_x(), _x()), dynamic_shapes=(BATCH,) * 3)


@pytest.mark.parametrize("shape", [BATCH, {"a": BATCH, "b": [BATCH, BATCH]}, {"a": BATCH, "b": (BATCH, BATCH)}])
def test_a_shape_for_every_tensor_of_a_container(shape):
    inputs = {"a": _x(), "b": [_x(), _x()]}
    taken = capture(lambda x: x["a"] + x["b"][0] + x["b"][1], (inputs,), dynamic_shapes={"x": shape})
    assert _sizes(taken) == ["batch"] * 3


def test_a_dict_with_numbers_for_keys():
    inputs = {0: _x(), 1: _x()}
    taken = capture(lambda x: x[0] + x[1].sum(), (inputs,), dynamic_shapes={"x": {0: BATCH, 1: None}})
    assert _sizes(taken) == ["batch", ""]


@dataclasses.dataclass
class Both:
    left: torch.Tensor
    right: torch.Tensor


@pytest.mark.parametrize("shape", [BATCH, {"left": BATCH, "right": BATCH}, [BATCH, BATCH], (BATCH, BATCH)])
def test_a_dataclass(shape):
    taken = capture(lambda x: x.left + x.right, (Both(_x(), _x()),), dynamic_shapes={"x": shape})
    assert _sizes(taken) == ["batch", "batch"]


class Cache:
    """Keys and values of layers, as transformers' DynamicCache has them."""

    def __init__(self, keys, values):
        self.keys, self.values = keys, values


pytree.register_pytree_node(
    Cache,
    lambda cache: ([cache.keys, cache.values], None),
    # Like transformers' own, it computes with what it holds when it is made.
    lambda parts, _: Cache([each + 0 if isinstance(each, torch.Tensor) else each for each in parts[0]], parts[1]),
    serialized_type_name="tests.Cache",
    flatten_with_keys_fn=lambda cache: (
        [(pytree.MappingKey("keys"), cache.keys), (pytree.MappingKey("values"), cache.values)],
        None,
    ),
)


@pytest.mark.parametrize("layers", [2, 3])
@pytest.mark.parametrize("form", ["all", "parts", "names", "pairs"])
def test_a_cache(form, layers):
    each = [BATCH] * layers
    shape = {"all": BATCH, "parts": [each, each], "names": {"keys": each, "values": each}}.get(
        form, [(BATCH, BATCH)] * layers
    )
    cache = Cache([_x() for _ in range(layers)], [_x() for _ in range(layers)])
    taken = capture(lambda x: sum(x.keys) + sum(x.values), (cache,), dynamic_shapes={"x": shape})
    assert _sizes(taken) == ["batch"] * 2 * layers


@pytest.mark.parametrize("shape", [[BATCH] * 4, {"key": BATCH}])
def test_a_cache_in_another_form(shape):
    cache = Cache([_x(), _x()], [_x(), _x()])
    with pytest.raises(UsageError, match=r"with the tensors keys \(2 tensors\), values \(2 tensors\). Expected \{0:"):
        capture(lambda x: sum(x.keys) + sum(x.values), (cache,), dynamic_shapes={"x": shape})
