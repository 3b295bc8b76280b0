"""Special functions: error functions, gamma, Bessel, polynomials, and the spacing of numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from helpers.matching import assert_matches
from helpers.running import run
from helpers.tables import accepted, assert_all_match
from torch.export import Dim

import opbridge
from opbridge.errors import MissingOperators

NAN, INF = math.nan, math.inf
special = torch.special

EDGES = [
    *(0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 1.5, -1.5, INF, -INF, NAN, 1e-30, 1e-40, 50.0, -50.0, 5.0, 8.0),
    *(2.09, -2.09, 0.46875, -0.46875, 4.0, -4.0, 0.999, -0.999, 3.0, -3.0, 100.0, -100.0, 1000.0, 1e-3, -1e-3),
    *(7.5, -7.5, 9.3, -9.3, 27.0, -27.0, -30.0, 0.1, 0.135, 0.865, 1e-15),
]

# Everywhere, poles and infinities included.
FUNCTIONS = {
    "erf": torch.erf,
    "erfc": torch.erfc,
    "erfcx": special.erfcx,
    "erfinv": torch.erfinv,
    "ndtr": special.ndtr,
    "ndtri": special.ndtri,
    "log_ndtr": special.log_ndtr,
    "entr": special.entr,
    "xlog1py": lambda x: special.xlog1py(x, x),
    "xlog1py number": lambda x: special.xlog1py(x, 2.0),
    "number xlog1py": lambda x: special.xlog1py(0.0, x),
    "lgamma": torch.lgamma,
    "digamma": torch.digamma,
    "polygamma 0": lambda x: torch.polygamma(0, x),
    "polygamma 2": lambda x: torch.polygamma(2, x),
    "polygamma 5": lambda x: special.polygamma(5, x),
    "multigammaln": lambda x: torch.mvlgamma(x.abs() + 2, 3),
    "zeta": lambda x: special.zeta(2.0, x),
    "zeta fraction": lambda x: special.zeta(3.5, x),
    "zeta number": lambda x: special.zeta(x, 1.5),
    "zeta of two": lambda x: special.zeta(x, x),
    "i0": torch.i0,
    "i0e": special.i0e,
    "i1": special.i1,
    "i1e": special.i1e,
    "bessel_j0": special.bessel_j0,
    "bessel_j1": special.bessel_j1,
    "bessel_y0": special.bessel_y0,
    "bessel_y1": special.bessel_y1,
    "modified_bessel_i0": special.modified_bessel_i0,
    "modified_bessel_i1": special.modified_bessel_i1,
    "modified_bessel_k0": special.modified_bessel_k0,
    "modified_bessel_k1": special.modified_bessel_k1,
    "scaled_modified_bessel_k0": special.scaled_modified_bessel_k0,
    "scaled_modified_bessel_k1": special.scaled_modified_bessel_k1,
    "spherical_bessel_j0": special.spherical_bessel_j0,
    "airy_ai": special.airy_ai,
    "nextafter 0": lambda x: torch.nextafter(x, torch.zeros_like(x)),
    "nextafter inf": lambda x: torch.nextafter(x, torch.full_like(x, INF)),
    "nextafter -inf": lambda x: torch.nextafter(x, torch.full_like(x, -INF)),
}

SHORT = {
    name: FUNCTIONS[name] for name in ("erfcx", "ndtri", "lgamma", "digamma", "polygamma 2", "zeta", "i1", "bessel_y1")
}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_everywhere(dtype):
    count = len(EDGES)
    others = [
        (torch.linspace(-10, 10, count, dtype=dtype),),
        (torch.linspace(0, 1, count, dtype=dtype),),
        (torch.linspace(0.6, 60, count, dtype=dtype),),
    ]
    assert_all_match(FUNCTIONS, torch.tensor(EDGES, dtype=dtype), others=others)


@pytest.mark.parametrize("dtype", [torch.float16, torch.int64, torch.int8, torch.bool], ids=str)
def test_other_types(dtype):
    x = torch.arange(8).to(dtype)
    table = accepted(SHORT, x)
    assert len(table) >= 3
    assert_all_match(table, x, others=[(x.flip(0),)])


@pytest.mark.slow
@pytest.mark.parametrize("opset", [18, 23])
def test_dynamic_sizes(opset):
    assert_all_match(
        SHORT,
        torch.rand(3, 2) + 0.5,
        others=[(torch.rand(5, 2) * 4,), (torch.rand(1, 2),)],
        dynamic_shapes={"x": {0: Dim.AUTO}},
        opset_version=opset,
    )


@pytest.mark.slow
def test_nothing_and_a_number():
    assert_all_match(SHORT, torch.zeros(0, 3), others=[(torch.zeros(0, 3),)])
    assert_all_match(SHORT, torch.tensor(0.3), others=[(torch.tensor(0.8),)])


@pytest.mark.parametrize(
    ("function", "x", "expected"),
    [
        (special.log_ndtr, -20.0, -203.917155),
        (special.log_ndtr, 5.0, -2.8665161e-07),
        (special.erfcx, 30.0, 0.0187958888),
        (special.erfcx, -3.0, 16205.98885),
        (torch.erfc, 9.0, 4.13703e-37),
    ],
    ids=["log_ndtr", "log_ndtr above", "erfcx", "erfcx below", "erfc"],
)
def test_where_plain_formulas_fail(function, x, expected):
    """log(ndtr(x)), exp(x * x) * erfc(x) and 1 - erf(x) overflow, underflow or cancel here."""
    program = opbridge.export(function, (torch.tensor([1.0]),), verify=False)
    np.testing.assert_allclose(run(program, (torch.tensor([x]),))[0], [expected], rtol=2e-6)


def test_trigamma():
    """Away from its poles, where the rounding of torch's own argument decides."""
    near = torch.tensor([0.3, 0.5, 1.0, 2.5, -0.5, -1.25, -2.75, 10.0, 1e3, 0.0, INF])
    for dtype in (torch.float32, torch.float64):
        x = near.to(dtype)
        assert_matches(lambda x: torch.polygamma(1, x), x, others=[(x[:-2].abs().repeat(2)[:11] + 0.1,)])


A = [0.0, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 19.0, 50.0, 100.0, 250.0, 1000.0, 3000.0, INF, -1.0, 1e-3]
X = [0.0, 1e-5, 0.1, 1.2, 3.0, 5.0, 9.0, 10.0, 20.0, 45.0, 55.0, 105.0, 130.0, 300.0, 1100.0, 2900.0, 3300.0, INF, -1.0]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_incomplete_gamma(dtype):
    a, x = torch.meshgrid(torch.tensor(A, dtype=dtype), torch.tensor(X, dtype=dtype), indexing="ij")
    table = {"igamma": torch.igamma, "igammac": torch.igammac}
    smaller = (a * 0.7).contiguous()
    assert_all_match(table, a.contiguous(), x.contiguous(), others=[(smaller, x.contiguous())])
    # The tails keep their digits: 1 minus the other function would have none.
    assert_matches(torch.igammac, torch.tensor([1.0, 3.0]), torch.tensor([30.0, 40.0]), rtol=1e-4, atol=0.0)


# Polynomials

CHEBYSHEV = [f"{shifted}chebyshev_polynomial_{kind}" for shifted in ("", "shifted_") for kind in "tuvw"]
OTHERS = ["hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_chebyshev_polynomials(dtype):
    """At degrees known only when the model runs, inside [-1, 1], at its ends and outside."""
    x = torch.tensor([0.0, 0.3, -0.3, 0.99, -0.99, 1.0, -1.0, 1.5, -1.5, 4.0, -4.0, 0.5, 0.7], dtype=dtype)
    degrees = torch.tensor([0.0, 1, 2, 3, 4, 5, 7, 8, 9, -1, 6, 3, 5], dtype=dtype)
    table = {name: lambda x, n, name=name: getattr(special, name)(x, n) for name in CHEBYSHEV}
    table.update({f"{name} 4": lambda x, n, name=name: getattr(special, name)(x, 4) for name in CHEBYSHEV})
    table["number"] = lambda x, n: special.chebyshev_polynomial_t(0.25, n)
    others = [(x.flip(0).contiguous(), degrees), (x * 0.9, degrees.flip(0).contiguous())]
    assert_all_match(table, x, degrees, others=others)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_polynomials_of_constant_degree(dtype):
    degrees = torch.tensor([0, 1, 2, 5, -1, 3], dtype=dtype)
    table = {
        f"{name} {n}": lambda x, name=name, n=n: getattr(special, name)(x, n)
        for name in OTHERS
        for n in (-1, 0, 1, 2, 6)
    }
    table.update({name: lambda x, name=name: getattr(special, name)(x, degrees) for name in OTHERS})
    x = torch.tensor([0.0, 0.5, -0.5, 1.0, -1.0, 3.0], dtype=dtype)
    assert_all_match(table, x, others=[(torch.randn(6, dtype=dtype),)])


def test_polynomials_of_a_degree_that_is_not_known():
    with pytest.raises(MissingOperators, match="degrees that are known at export"):
        opbridge.export(special.legendre_polynomial_p, (torch.randn(3), torch.ones(3)), verify=False)


# Histograms


def test_histograms():
    x = torch.randn(20)
    table = {
        "histc": lambda x: torch.histc(x, 5),
        "histc range": lambda x: torch.histc(x, 4, -1.0, 1.0),
        "histogram": lambda x: torch.histogram(x, 5),
        "histogram range": lambda x: torch.histogram(x, 6, range=(-1.0, 1.5), density=True),
        "histogram weight": lambda x: torch.histogram(x, 3, weight=x * x),
        "histogram edges": lambda x: torch.histogram(x, torch.tensor([-1.0, 0.0, 0.5, 2.0]), density=True),
    }
    assert_all_match(table, x, others=[(torch.randn(20),), (torch.full((20,), 0.5),)])
    assert_matches(
        lambda x: (torch.histc(x, 5), torch.histc(x, 4, -1.0, 1.0)),
        x,
        dynamic_shapes=({0: "count"},),
        others=[(torch.randn(7),)],
    )


def test_bincount():
    assert_matches(
        lambda x, w: (torch.bincount(x), torch.bincount(x, w, minlength=4), torch.bincount(x[:0], minlength=2)),
        torch.tensor([1, 0, 3, 3]),
        torch.rand(4),
        others=[(torch.tensor([7, 7, 2, 0]), torch.rand(4)), (torch.zeros(4, dtype=torch.int64), torch.rand(4))],
    )
