"""Quotients of sizes that torch simplifies."""

from __future__ import annotations

import sympy
from torch.utils._sympy import functions

from opbridge.base.torch_private.torch_size_arithmetic import dividing_sizes_directly

BATCH, HEIGHT, WIDTH = sympy.symbols("batch height width", integer=True, positive=True)


def padded(size):
    return size + functions.Mod(7 - functions.Mod(size, 7), 7)


def test_a_quotient_without_a_fraction_is_not_simplified(monkeypatch):
    calls = []
    simplify = sympy.simplify
    monkeypatch.setattr(sympy, "simplify", lambda expression: calls.append(expression) or simplify(expression))
    with dividing_sizes_directly():
        product = BATCH * padded(HEIGHT) * padded(WIDTH) * 96
        found = functions.FloorDiv(product, 49 * 96)
        assert found == functions.FloorDiv(BATCH * padded(HEIGHT) * padded(WIDTH), 49)
        assert functions.FloorDiv(product, 96 * BATCH) == padded(HEIGHT) * padded(WIDTH)
        assert not calls
        assert functions.sympy.simplify((HEIGHT * WIDTH + HEIGHT) / HEIGHT) == WIDTH + 1
        assert len(calls) == 1
    assert functions.sympy is sympy


def test_what_is_left_unsimplified_has_no_fraction():
    with dividing_sizes_directly():
        simplify = functions.sympy.simplify
        for whole in (BATCH * HEIGHT**2, padded(HEIGHT) + 1, sympy.Integer(3)):
            assert simplify(whole) is whole
        assert simplify(2 * (HEIGHT + 1) / (2 * HEIGHT + 2)) == 1
