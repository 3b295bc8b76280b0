"""Loops over the rows of a triangular matrix, and the operator in their place."""

from __future__ import annotations

import importlib
import types

import pytest
import torch

from opbridge.model_support.transformers import triangular_loops

pytest.importorskip("transformers", reason="not installed")


def inverted(attn, chunk_size):
    for i in range(1, chunk_size):
        row = attn[..., i, :i].clone()
        sub = attn[..., :i, :i].clone()
        attn[..., i, :i] = row + (row.unsqueeze(-1) * sub).sum(-2)

    return attn


def weighted(attn, chunk_size):
    for i in range(1, chunk_size):
        row = attn[..., i, :i].clone()
        sub = attn[..., :i, :i].clone()
        attn[..., i, :i] = row + (row.unsqueeze(-1) * sub).sum(-1)
    return attn


def _changed(function):
    code = triangular_loops.with_operator(function)
    return None if code is None else types.FunctionType(code, function.__globals__, function.__name__)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1, 2, 5, 16])
def test_the_operator_gives_what_the_loop_gives(dtype, size):
    torch.manual_seed(0)
    matrix = (torch.randn(2, 3, size, size, dtype=dtype) / 4).tril(-1)
    for given in (matrix, matrix[:, :0]):
        torch.testing.assert_close(_changed(inverted)(given.clone(), size), inverted(given.clone(), size))


def test_another_loop_stays():
    assert _changed(weighted) is None
    assert triangular_loops.with_operator(inverted).co_firstlineno == inverted.__code__.co_firstlineno


@pytest.mark.parametrize("name", ["kimi_linear", "bailing_hybrid", "glm5_next"])
def test_delta_attention_is_that_of_transformers(name):
    module = pytest.importorskip(f"transformers.models.{name}.modeling_{name}", reason="not in this transformers")
    module = importlib.import_module(module.__name__)
    found = triangular_loops.known(module)
    if not found:
        pytest.skip("this transformers has another chunk_kimi_delta_attention")  # transformers is not pinned
    torch.manual_seed(0)
    query, key, value, g = (torch.randn(2, 70, 2, 8) for _ in range(4))
    given = query, key, value, -g.abs() / 8, torch.rand(2, 70, 2)
    (original,) = found
    settings = {"output_final_state": True, "use_qk_l2norm_in_kernel": True}
    names = original.__code__.co_varnames
    assert {"query", "key", "value", "g", "beta"} <= {*names}
    named = dict(zip(("query", "key", "value", "g", "beta"), given, strict=True)) | {
        each: setting for each, setting in settings.items() if each in names
    }
    computed = types.FunctionType(
        triangular_loops.with_operator(original), original.__globals__, None, original.__defaults__
    )
    computed.__kwdefaults__ = original.__kwdefaults__
    torch.testing.assert_close(computed(**named), original(**named), rtol=1e-4, atol=1e-5)
