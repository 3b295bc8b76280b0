"""The primes that stand for symbolic sizes in the code that einx makes, without einx."""

from __future__ import annotations

import ast
import functools
import sys
import types

import numpy
import pytest
import torch

import opbridge
from opbridge.model_support.einx import symbolic_sizes


class _Backend:
    name = "torch"

    def __init__(self, **given):
        self.__dict__.update(given)


class _Compiler:
    def compile(self, graph, return_code=False):
        names = {"torch": torch}
        exec(graph, names)
        return (names["op"], graph) if return_code else names["op"]


def _shape(tensor):
    return tuple(int(size) for size in tensor.shape)


@pytest.fixture
def api(monkeypatch):
    """What einx has: a registry of backends, and a cache of functions by backend and shape."""
    found = types.ModuleType(symbolic_sizes._MODULE)
    given = dict.fromkeys(("ops", "priority", "optimizations", "is_supported_tensor"))
    backend = _Backend(**given, name="torch", compiler=_Compiler(), get_shape=_shape)
    found.registry = types.SimpleNamespace(get=lambda name, tensors: backend)
    found._split_tensors = lambda signature, args, kwargs: (args, kwargs, args)

    @functools.cache
    def function(backend, shape, parts, joined):
        rows = f"{shape[0]} + {shape[1]}" if joined else f"{parts}, {shape[0] * shape[1] // parts}"
        code = f"import torch\ndef op(a):\n    return torch.reshape(a, ({rows}, -1))"
        return backend.compiler.compile(ast_folded(code), return_code=True)[0]

    def call(x, parts, joined=False):
        _, kwargs, _ = found._split_tensors(None, (x,), {"parts": parts})
        backend = found.registry.get(None, (x,))
        return function(backend, backend.get_shape(x), kwargs["parts"], joined)(x)

    found.call = call
    monkeypatch.setitem(sys.modules, "einx", types.ModuleType("einx"))
    monkeypatch.setitem(sys.modules, symbolic_sizes._MODULE, found)
    return found


def ast_folded(code):
    """Code whose sums are numbers, as einx writes them."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.Tuple):
            node.elts = [
                ast.Constant(each.left.value + each.right.value) if isinstance(each, ast.BinOp) else each
                for each in node.elts
            ]
    return ast.unparse(ast.fix_missing_locations(tree))


def test_products_of_sizes(api):
    class Model(torch.nn.Module):
        def forward(self, x):
            return api.call(torch.cat([x, x]), x.shape[1])

    program = opbridge.export(Model(), (torch.randn(2, 6, 5),), dynamic_shapes=({0: "a", 1: "b"},))
    assert [str(size) for size in program.model.graph.outputs[0].shape[:2]] == ["b", "2*a"]
    assert symbolic_sizes._sizes._by_prime == {}


@pytest.mark.slow
def test_a_sum_is_refused(api):
    class Model(torch.nn.Module):
        def forward(self, x):
            return api.call(x[:, :2], 2, True)

    with pytest.raises(opbridge.CaptureError, match="it requires a == 4"):
        opbridge.export(Model(), (torch.randn(4, 6, 6),), dynamic_shapes=({0: "a"},))


def test_other_backends_and_other_releases(api, monkeypatch):
    other = types.SimpleNamespace(name="numpy")
    assert symbolic_sizes._keeping(other) is other
    del api.registry
    with symbolic_sizes.keeping_sizes():
        assert not hasattr(api, "registry")
    assert symbolic_sizes._sizes.number(7) == 7


def test_primes():
    assert [symbolic_sizes._prime_from(number) for number in (90, 97, 2**27)] == [97, 97, 134217757]


def test_large_numbers_that_are_known():
    inputs = [types.SimpleNamespace(shape=(8192, 256)), types.SimpleNamespace(shape=None)]
    known = symbolic_sizes._known(inputs)
    assert known == {1, 256, 8192, 8192 * 256}
    code = "def op():\n    return (2097152, 2097153)"
    names = {}
    exec(code, names)
    function = symbolic_sizes._with_sizes(names["op"], code, known)
    with pytest.raises(NotImplementedError, match="other than a product"):
        function()
    assert symbolic_sizes._with_sizes(names["op"], code, known | {2097153}) is names["op"]


def test_exact_numbers():
    exact = symbolic_sizes._ExactNumpy()
    assert exact.prod([2**40, numpy.int32(2**30)]).astype("int32") == 2**70 and exact.sum((2**31, 1)) == 2**31 + 1
    assert exact.prod(numpy.array([2.0, 3.0])) == 6 and exact.sum([[1], [2]], axis=0) == [3] and exact.pi == numpy.pi
