"""Complex tensors: arithmetic, functions, rearrangement, and products."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.matching import assert_matches
from helpers.tables import assert_all_match
from torch.export import Dim


def pairs(*shape: int, dtype: torch.dtype = torch.complex64) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype)


ARITHMETIC = {
    "parts": lambda x, y, r: (x.real, x.imag, torch.view_as_real(x), x.real.sum()),
    "made": lambda x, y, r: (torch.complex(r, r * 2), torch.view_as_complex(torch.stack([r, -r], -1))),
    "made of broadcast parts": lambda x, y, r: torch.complex(r[:1], r),
    "polar": lambda x, y, r: torch.polar(r.abs(), r),
    "conjugate": lambda x, y, r: (x.conj(), x.conj() * y, x.mH, torch.conj_physical(x), x.conj().imag),
    "size": lambda x, y, r: (x.abs(), x.angle(), torch.sgn(x), torch.sgn(x * 0), -x),
    "sums": lambda x, y, r: (x + y, x - y, torch.add(x, y, alpha=2), torch.sub(x, y, alpha=2j), torch.rsub(x, y)),
    "numbers": lambda x, y, r: (x + 1, x + 2j, x - 1.5, 3 - x, x * 2, x * 1j, x * (2 - 1j), x / 2, x / (1 + 1j), 1 / x),
    "products": lambda x, y, r: (x * y, x / y, x * x.conj(), torch.square(x), torch.reciprocal(x)),
    "with real ones": lambda x, y, r: (x + r, r - x, x * r, r / x, x / r, x - r[0], r[:, :1] * x),
    "real with complex numbers": lambda x, y, r: (r * 1j, r + 2j, r / 1j, 1j - r),
    "with integers": lambda x, y, r: x * torch.arange(4),
    "other names": lambda x, y, r: (
        torch.divide(x, r),
        torch.multiply(r, x),
        torch.subtract(x, r),
        torch.true_divide(r, x),
    ),
    "fused": lambda x, y, r: (torch.addcmul(x, y, y, value=2), torch.addcdiv(x, y, x, value=1j), torch.lerp(x, y, 0.3)),
    "in place": lambda x, y, r: x.clone().mul_(y).add_(1),
    "scalars": lambda x, y, r: x[0, 0] * y[0, 0] + x,
}

NAMES = """
    exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sigmoid sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh
"""

FUNCTIONS = {name: lambda x, y, r, name=name: getattr(torch, name)(x) for name in NAMES.split()} | {
    "silu": lambda x, y, r: torch.nn.functional.silu(x),
    "powers": lambda x, y, r: (x**2, x**3, x**-1, x**0.5, x**0, x**1, x**4, x**-2, x**-0.5, x**1.7, x**2.0),
    "powers of and to numbers": lambda x, y, r: (x ** (1 + 1j), 2**x, 1**x, 1j**x),
    "power of tensors": lambda x, y, r: (x**y, x**r, r.abs() ** x),
}

SHAPES = {
    "views": lambda x, y, r: (
        x.view(4, 3),
        x.reshape(-1),
        x.flatten(),
        x[0, 0].flatten(),  # of no dimensions
        x.view(1, 3, 4).flatten(1),
        x.unflatten(1, (2, 2)),
    ),
    "new dimensions": lambda x, y, r: (
        x.unsqueeze(-1),
        x.unsqueeze(1),
        x[None, :, None].squeeze(),
        x[:, :1].squeeze(-1),
    ),
    "transposed": lambda x, y, r: (x.T, x.transpose(-1, 0), x.permute(-1, 0), x.mT, x.unsqueeze(0).movedim(-1, 0)),
    "expanded": lambda x, y, r: (x[:1].expand(3, -1), x[:, None].expand(3, 2, 4), x.repeat(2, 1, 1), x.tile(2)),
    "taken": lambda x, y, r: (x[1], x[-1], x[:, 1:3], x[..., ::2], x.select(-1, 0), x.narrow(-1, 1, 2), x[:, -1]),
    "split": lambda x, y, r: (*x.split(2, -1), *x.chunk(2, dim=1), *x.unbind(-1), *x.split([1, 3], 1)),
    "indexed": lambda x, y, r: (
        x[torch.tensor([2, 0])],
        x[:, torch.tensor([1])],
        x.index_select(-1, torch.tensor([3, 1])),
    ),
    "gathered": lambda x, y, r: (x.gather(1, torch.tensor([[0], [3], [1]])), x.take(torch.tensor([0, 5]))),
    "joined": lambda x, y, r: (torch.cat([x, y]), torch.cat([x, y], -1), torch.stack([x, y], -1), torch.cat([x, r])),
    "moved": lambda x, y, r: (x.flip(-1), x.roll(1, -1), x.roll(2), torch.rot90(x), x.unfold(1, 2, 1)),
    "padded": lambda x, y, r: (
        torch.nn.functional.pad(x, (1, 2)),
        torch.nn.functional.pad(x, (0, 0, 1, 0), value=2.0),
        torch.nn.functional.pad(x[None], (1, 2), mode="reflect"),
    ),
    "chosen": lambda x, y, r: (torch.where(r > 0, x, y), torch.where(r > 0, x, 1.0), x.masked_fill(r > 0, 2j)),
    "triangles": lambda x, y, r: (x.tril(), x.triu(1), torch.diag_embed(x), x.diagonal(), x.diagonal(1).diag()),
    "reduced": lambda x, y, r: (
        x.sum(),
        x.sum(-1),
        x.mean(0, keepdim=True),
        x.mean(),
        x.sum((0, 1)),
        x.prod(),
        x.prod(-1),
    ),
    "cumulated": lambda x, y, r: (x.cumsum(-1), x.cumprod(1), x.var(), x.std(-1), torch.var_mean(x, 0)),
    "compared": lambda x, y, r: (
        x == y,
        x == x,
        x != y,
        x.isnan(),
        x.isfinite(),
        torch.isclose(x, y),
        (x * 0).logical_not(),
    ),
    "filled": lambda x, y, r: (torch.zeros_like(x), torch.ones_like(x), torch.full_like(x, 2j), x.new_zeros(2)),
    "converted": lambda x, y, r: (x.to(torch.complex128), r.to(torch.complex64), x.clone(), x.detach(), r.type_as(x)),
    "written": lambda x, y, r: torch.slice_scatter(x, y[:, :2], dim=1, start=1, end=3),
    "put": lambda x, y, r: x.index_put((torch.tensor([0]), torch.tensor([1])), y[0, 0]),
}

PIECES = {
    "split by tensors": lambda x, y, r: (
        *x.tensor_split(3, 1),
        *x.tensor_split((1, 3), dim=-1),
        *x.unsafe_chunk(2, -1),
    ),
    "unfolded": lambda x, y, r: (x.unfold(-1, 2, 2), torch.as_strided(x, (2, 2), (1, 2), 1)),
    "repeated": lambda x, y, r: (
        x.repeat_interleave(2, dim=-1),
        x.repeat_interleave(2),
        x.repeat_interleave(torch.tensor([1, 0, 2]), 0),
    ),
    "moved": lambda x, y, r: (x[None].movedim((0, -1), (1, 0)), x[:, None].squeeze((1,)), torch.rot90(x, 2, (-1, 0))),
    "padded": lambda x, y, r: (
        torch.nn.functional.pad(x[None], (1, 1), mode="replicate"),
        torch.nn.functional.pad(x[None, None], (1, 0, 1, 1), mode="reflect"),
        torch.nn.functional.pad(x[None], (1, 1), mode="circular"),
    ),
    "added": lambda x, y, r: (
        x.index_add(0, torch.tensor([2, 0]), y[:2], alpha=2),
        x.index_copy(-1, torch.tensor([3, 1]), y[:, :2]),
        x.scatter_add(1, torch.tensor([[0, 0, 2, 3]]), y),
        x.scatter(0, torch.tensor([[2, 0, 1, 1]]), y),
    ),
    "put": lambda x, y, r: (
        x.put(torch.tensor([0, -1]), y[0, :2]),
        x.put(torch.tensor([0, -1]), y[0, :2], accumulate=True),
        x.index_put((torch.tensor([0, 0]),), y[:2], accumulate=True),
    ),
    "written": lambda x, y, r: (
        torch.select_scatter(x, y[0], 0, -1),
        torch.diagonal_scatter(x, y[0, :3]),
        x.masked_scatter(r > 0, y),
        x.masked_select(r > 0),
        (x * (r > 0)).nonzero(),
    ),
}

PRODUCTS = {
    "matmul": lambda x, y, r: (x @ y.T, x @ y[0], x[0] @ y.T, x[None] @ y.T, x[None, None] @ y.mT[None]),
    "products": lambda x, y, r: (torch.mm(x, y.T), torch.mv(x, y[0]), torch.dot(x[0], y[0]), torch.vdot(x[0], y[0])),
    "bmm": lambda x, y, r: torch.bmm(x[None], y.mT[None]),
    "sums": lambda x, y, r: (torch.addmm(x[:, :3], x, y.T, beta=2j, alpha=3), torch.addmm(x[0, :3], x, y.T, beta=0)),
    "vectors": lambda x, y, r: (torch.outer(x[0], y[0]), torch.addmv(x[:, 0], x, y[0]), torch.linalg.vecdot(x, y)),
    "linear": lambda x, y, r: (torch.nn.functional.linear(x, y), torch.nn.functional.linear(x[None], y, x[0, :3])),
    "einsum": lambda x, y, r: (
        torch.einsum("ij,kj->ik", x, y),
        torch.einsum("ij->j", x),
        torch.einsum("ij,ij->i", x, y),
    ),
    "norm": lambda x, y, r: (torch.linalg.vector_norm(x), torch.linalg.norm(x), x.norm(dim=-1)),
}

TABLES = {"arithmetic": ARITHMETIC, "functions": FUNCTIONS, "shapes": SHAPES, "pieces": PIECES, "products": PRODUCTS}


def inputs(dtype: torch.dtype = torch.complex64) -> list[torch.Tensor]:
    return [pairs(3, 4, dtype=dtype), pairs(3, 4, dtype=dtype), torch.randn(3, 4, dtype=dtype.to_real())]


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES)
def test_complex(table: str) -> None:
    assert_all_match(TABLES[table], *inputs(), others=[inputs()], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("table", ["arithmetic", "functions", "products"])
def test_double_precision(table: str) -> None:
    assert_all_match(TABLES[table], *inputs(torch.complex128), rtol=1e-9, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES)
def test_complex_opset_18(table: str) -> None:
    assert_all_match(TABLES[table], *inputs(), rtol=1e-4, atol=1e-5, opset_version=18)


def test_large_and_small_numbers() -> None:
    table: dict[str, Any] = {
        "abs": lambda x: x.abs(),
        "quotient": lambda x: x / x.flip(0),
        "square root": lambda x: x.sqrt(),
        "logarithm": lambda x: x.log(),
    }
    numbers = torch.tensor([3e30 + 4e30j, 1e-30 - 1e-30j, 2 + 0j, -4 + 0j, 1e30j, -1e-25 + 0j])
    assert_all_match(table, numbers, rtol=1e-5, atol=0.0)
    assert_matches(torch.abs, torch.tensor([complex(0, 0), complex(torch.inf, 1), complex(-torch.inf, torch.inf)]))


SPECIAL = [0.0, -0.0, 1.0, -1.5, torch.inf, -torch.inf, torch.nan]
NUMBERS = (0, 1, 2, 3, 4, -1, -2, -3, 0.5, -0.5, 1.5, 2.0, 1j, 2 + 1j, 0j, torch.inf, -torch.inf, torch.nan)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_zeros_infinities_and_nan(dtype: torch.dtype) -> None:
    z = torch.tensor([complex(x, y) for x in SPECIAL for y in SPECIAL], dtype=dtype)
    table: dict[str, Any] = {
        "functions": lambda z: (z.abs(), z.exp(), z.log(), z.sqrt(), z.rsqrt(), z.reciprocal(), z * z[:, None]),
        "quotients": lambda z: z / z[:, None],
        "powers": lambda z: z ** z[:, None],
    }
    for number in NUMBERS:
        table[f"to {number}"] = lambda z, number=number: torch.pow(z, number)
        table[f"of {number}"] = lambda z, number=number: torch.pow(number, z)
    assert_all_match(table, z, rtol=1e-4, atol=2e-6)


def test_powers_out_of_range_on_the_way() -> None:
    z = torch.tensor([complex(89.0, 0.785), complex(88.8, -2.356), complex(-89.0, 2.0)])
    assert z.real[:2].exp().isinf().all() and z.exp().isfinite().all()
    assert_matches(torch.exp, z, rtol=1e-4, atol=1e-40)


@pytest.mark.slow
def test_no_elements() -> None:
    """ONNX Runtime reduces nothing where it is told of a dimension counted from the end."""
    x, y = pairs(0, 3), pairs(0, 3)
    table: dict[str, Any] = {
        "pointwise": lambda x, y: ((x - y).abs(), (x + y) / (x - y), (x - y) ** (x + y), torch.sgn(x - y)),
        "compared": lambda x, y: torch.isclose(x, y, equal_nan=True),
        "products": lambda x, y: (
            x @ y.T,
            x.T @ y,
            y[:, :0].T @ x,
            y[:, :2].T @ x,
            torch.ones(2, 3, dtype=x.dtype) @ x.T,
        ),
        "batches": lambda x, y: (x[None] @ y.T[None], torch.ones(2, 4, 3, dtype=x.dtype) @ x.T.expand(2, 3, 0)),
        "chain": lambda x, y: torch.linalg.multi_dot([x.T, y, torch.ones(3, 0, dtype=x.dtype), x[:, :2]]),
    }
    assert_all_match(table, x, y)


@pytest.mark.slow
def test_branches() -> None:
    table = {name: FUNCTIONS[name] for name in ("sqrt", "log", "asin", "acos", "atan", "asinh", "acosh", "atanh")}
    values = [complex(x, y) for x in (-2.0, -0.5, 0.5, 2.0) for y in (-1.0, -0.1, 0.1, 1.0)]
    numbers = torch.tensor(values)
    assert_all_match(table, numbers, numbers, numbers.real, rtol=1e-4, atol=1e-5)


def test_numbers_without_dimensions() -> None:
    table = {
        "arithmetic": lambda x, y: (x * y, x + 1j, x.abs(), x.real, x.exp()),
        "shapes": lambda x, y: (x.unsqueeze(0), x.reshape(1, 1), x.sum(), x.view(-1)),
    }
    assert_all_match(table, torch.tensor(1 - 2j), torch.tensor(0.5 + 3j), rtol=1e-5, atol=1e-5)


def test_any_batch() -> None:
    rows = Dim("rows")

    def model(x: torch.Tensor, r: torch.Tensor) -> Any:
        z = torch.complex(x, r)
        rotated = torch.view_as_complex(x.reshape(x.shape[0], 2, 2)) * torch.polar(torch.ones(2), torch.arange(2.0))
        return (z @ z.mH).abs(), z.reshape(-1).sum(), torch.view_as_real(rotated).flatten(1), z * r, torch.cat([z, z])

    assert_matches(
        model,
        torch.randn(3, 4),
        torch.randn(3, 4),
        dynamic_shapes=({0: rows}, {0: rows}),
        others=[(torch.randn(5, 4), torch.randn(5, 4))],
        rtol=1e-4,
        atol=1e-5,
    )


def test_weights() -> None:
    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(pairs(4, 5))
            self.register_buffer("shift", pairs(5))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x.to(self.weight.dtype) @ self.weight + self.shift).abs()

    assert_matches(Layer(), torch.randn(3, 4), rtol=1e-4, atol=1e-5)


def test_equations() -> None:
    def well_conditioned(*sizes: int) -> torch.Tensor:
        return pairs(*sizes) + 4 * torch.eye(sizes[-1])

    table = {
        "solve": lambda a, b: torch.linalg.solve(a, b),
        "solve, from the right": lambda a, b: torch.linalg.solve(a, b.mT, left=False),
        "vectors": lambda a, b: torch.linalg.solve(a, b[..., 0]),
        "inverses": lambda a, b: (torch.linalg.inv(a), torch.inverse(a[0]), a.inverse() @ b),
        "one matrix for a batch": lambda a, b: torch.linalg.solve(a[0], b),
    }
    assert_all_match(table, well_conditioned(2, 3, 3), pairs(2, 3, 4), rtol=1e-4, atol=1e-5)
