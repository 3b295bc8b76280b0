"""Eigenvectors and singular vectors, whose signs PyTorch leaves open."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from onnxscript import opset18 as op
from torch.fx import Graph

import opbridge
from opbridge.verification import signs


def normal(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(0))


def node_of(operator):
    graph = Graph()
    return graph.create_node("call_function", operator, (graph.placeholder("x"),), name="it")


CASES = {
    "eigh": (torch.ops.aten._linalg_eigh.default, lambda x: torch.linalg.eigh(x @ x.mH), (4, 4)),
    "svd": (torch.ops.aten._linalg_svd.default, lambda x: torch.linalg.svd(x, full_matrices=False), (5, 4)),
    "svd of wide matrices": (torch.ops.aten._linalg_svd.default, lambda x: torch.linalg.svd(x, False), (3, 5)),
    "svd of all": (torch.ops.aten._linalg_svd.default, torch.linalg.svd, (5, 4)),
    "svd as it was": (torch.ops.aten.svd.default, torch.svd, (5, 4)),
}


def turned(name, result, factors, last=1.0):
    """The same decomposition with other signs, as a runtime may give it."""
    if name == "eigh":
        return result[0], result[1] * factors
    left, values, right = result
    count = values.shape[-1]
    more = torch.full((left.shape[-1] - count,), last, dtype=factors.dtype)
    left = left * torch.cat([factors[:count], more])
    right = right * factors[:count].conj()[:, None] if name != "svd as it was" else right * factors[:count]
    return left, values, right


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_the_result_gets_the_signs_of_the_runtime(name, dtype):
    operator, compute, shape = CASES[name]
    result = tuple(compute(normal(2, *shape, dtype=dtype)))
    factors = torch.tensor([1.0, -1.0, -1.0, 1.0], dtype=dtype)
    if dtype.is_complex:
        factors = factors * torch.polar(torch.ones(4).double(), torch.arange(4.0).double())
    other = turned(name, result, factors, -1.0)
    node = node_of(operator)
    assert signs.has_free_signs(node)
    for places in ((0, 1, 2), (1,) if name == "eigh" else (2,)):  # a file may have one of them alone
        actual = {f"it:{place}": other[place] for place in places if place < len(other)}
        found = signs.with_signs_of(node, result, actual)
        for place in places:
            if place < len(other) and not (name == "svd of all" and 0 not in places):
                torch.testing.assert_close(found[place], other[place])


def test_what_is_no_such_vector_stays_as_it_is():
    operator, compute, shape = CASES["eigh"]
    node, result = node_of(operator), tuple(compute(normal(*shape)))
    assert signs.with_signs_of(node, result, {"it:1": result[1]}) is None
    assert signs.with_signs_of(node, result, {"it:0": result[0]}) is None
    assert signs.with_signs_of(node, result, {"it:1": result[1].roll(1, -1)}) is None
    assert signs.with_signs_of(node, result, {"it:1": result[1].float()}) is None
    assert not signs.has_free_signs(SimpleNamespace(op="output"))


MODELS = {
    "eigh": lambda x: torch.linalg.eigh(x.mT @ x),
    "svd": lambda x: torch.linalg.svd(x, full_matrices=False),
    "components": lambda x: (x - x.mean(0)) @ torch.linalg.svd(x - x.mean(0), full_matrices=False)[2][:2].T,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_file_with_other_signs_agrees_and_says_so(name):
    program = opbridge.export(MODELS[name], (normal(6, 4, dtype=torch.float32) * torch.tensor([1.0, 2.0, 3.0, 4.0]),))
    assert program.verification.ok
    assert "have the opposite sign" in program.verification.summary()


def test_a_file_with_other_vectors_is_wrong():
    def wrong(A, UPLO="L"):
        return op.ReduceSum(A, [1], keepdims=0), op.Abs(A)

    table = {"aten::linalg_eigh": wrong}
    with pytest.raises(opbridge.VerificationError, match="linalg_eigh"):
        opbridge.export(MODELS["eigh"], (normal(6, 4, dtype=torch.float32),), custom_translation_table=table)
