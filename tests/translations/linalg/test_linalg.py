"""Products of matrices, einsum, and distances."""

from __future__ import annotations

import pytest
import torch
from helpers.matching import assert_matches
from helpers.tables import assert_all_match
from torch.export import Dim

INF = float("inf")


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape).to(dtype) if dtype.is_floating_point else torch.randint(-5, 6, shape).to(dtype)


MATRICES = {
    "matmul": lambda m, x, y: torch.matmul(x, y),
    "matmul vectors": lambda m, x, y: (torch.matmul(x[0], y[:, 0]), torch.matmul(x[0], y), torch.matmul(x, y[:, 0])),
    "matmul batch": lambda m, x, y: (torch.matmul(x[None, None], y[None]), torch.matmul(x[0], y[None, None])),
    "products": lambda m, x, y: (
        torch.mm(x, y),
        torch.mv(x, y[:, 0]),
        torch.dot(x[0], y[:, 0]),
        torch.vdot(x[0], x[1]),
    ),
    "bmm": lambda m, x, y: torch.bmm(x[None], y[None]),
    "inner outer": lambda m, x, y: (torch.inner(x, x), torch.outer(x[0], y[0]), torch.kron(x, y)),
    "addmm": lambda m, x, y: torch.addmm(m, x, y),
    "addmm factors": lambda m, x, y: torch.addmm(m, x, y, beta=2, alpha=3),
    "addmm row": lambda m, x, y: torch.addmm(m[0], x, y, alpha=2),
    "addmm no alpha": lambda m, x, y: torch.addmm(m, x, y, alpha=0),
    "addmv": lambda m, x, y: torch.addmv(m[:, 0], x, y[:, 0], beta=3, alpha=2),
    "addr": lambda m, x, y: torch.addr(m, x[:, 0], y[0], beta=2, alpha=3),
    "addbmm": lambda m, x, y: torch.addbmm(m, x[None], y[None], beta=2, alpha=3),
    "baddbmm": lambda m, x, y: torch.baddbmm(m[None], x[None], y[None], beta=2, alpha=3),
    "linear": lambda m, x, y: torch.nn.functional.linear(x, y.T, m[0]),
    "linear batch": lambda m, x, y: torch.nn.functional.linear(x[None], y.T, m[0]),
    "linear vector": lambda m, x, y: (torch.nn.functional.linear(x[0], y.T), torch.nn.functional.linear(x, y[:, 0])),
    "tensordot": lambda m, x, y: torch.tensordot(x, y, 1),
    "powers": lambda m, x, y: torch.linalg.matrix_power(m[:, :3], 3),
    "multi_dot": lambda m, x, y: torch.linalg.multi_dot([x, y, m.T]),
    "cross": lambda m, x, y: torch.cross(x[:, :3], x[:, 1:4], dim=1),
    "trace": lambda m, x, y: torch.trace(torch.matmul(x, y[:, :3])),
    "vander": lambda m, x, y: (torch.linalg.vander(x), torch.linalg.vander(x[0], N=2), torch.linalg.vander(x[:, 0])),
}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64], ids=str)
def test_products(dtype: torch.dtype) -> None:
    inputs = [numbers(3, 5, dtype=dtype), numbers(3, 4, dtype=dtype), numbers(4, 5, dtype=dtype)]
    assert_all_match(MATRICES, *inputs, others=[[numbers(*x.shape, dtype=dtype) for x in inputs]])


@pytest.mark.slow
def test_products_opset_18() -> None:
    assert_all_match(MATRICES, numbers(3, 5), numbers(3, 4), numbers(4, 5), opset_version=18)


def test_products_of_any_number_of_rows() -> None:
    table = {
        "linear": lambda x, w, b: torch.nn.functional.linear(x, w, b),
        "addmm": lambda x, w, b: torch.addmm(b, x, w.T, beta=2),
        "bilinear": lambda x, w, b: torch.nn.functional.bilinear(x, x, w.view(2, 3, 1).expand(2, 3, 3), b),
        "similarity": lambda x, w, b: torch.nn.functional.cosine_similarity(x[:, None], w[None], dim=-1),
        "einsum": lambda x, w, b: torch.einsum("bi,oi->bo", x, w),
    }
    rows = Dim("rows")
    assert_all_match(
        table,
        numbers(4, 3),
        numbers(2, 3),
        numbers(2),
        dynamic_shapes={"args": ({0: rows}, None, None)},
        others=[(numbers(7, 3), numbers(2, 3), numbers(2))],
    )


def test_beta_zero_hides_nan() -> None:
    nothing = torch.full((2, 2), torch.nan)
    table = {
        "addmm": lambda m, x: torch.addmm(m, x, x, beta=0),
        "addmv": lambda m, x: torch.addmv(m[0], x, x[0], beta=0),
        "baddbmm": lambda m, x: torch.baddbmm(m[None], x[None], x[None], beta=0),
    }
    assert_all_match(table, nothing, numbers(2, 2))


def test_sums_over_nothing() -> None:
    table = {
        "addmm": lambda m, x, y: torch.addmm(m, x, y, beta=0.5),
        "linear": lambda m, x, y: torch.nn.functional.linear(x, y.T, m[0]),
        "linear vector": lambda m, x, y: torch.nn.functional.linear(x, y[:, 0]),
        "matmul": lambda m, x, y: x @ y,
    }
    assert_all_match(table, numbers(2, 3), numbers(2, 0), numbers(0, 3))


EINSUMS = [
    ("ij,jk->ik", (3, 4), (4, 5)),
    ("ij,kj", (3, 4), (5, 4)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("bhid,bhjd->bhij", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("bihd,bjhd->bhij", (2, 4, 3, 5), (2, 6, 3, 5)),
    ("bchw,bkhw->bck", (2, 3, 4, 5), (2, 6, 4, 5)),
    ("bchtk,bhtk->bcht", (2, 3, 4, 5, 6), (2, 4, 5, 6)),
    ("bhd,bhd->bh", (2, 3, 4), (2, 3, 4)),
    ("i,j->ij", (3,), (4,)),
    ("i,i->", (4,), (4,)),
    ("bi,bj->bij", (2, 3), (2, 4)),
    ("ijk->k", (2, 3, 4)),
    ("ij->ji", (2, 3)),
    ("ii->i", (3, 3)),
    ("ii", (3, 3)),
    ("iij,jk->ik", (3, 3, 4), (4, 2)),
    ("...ij,...jk->...ik", (2, 1, 3, 4), (5, 4, 2)),
    ("...ij->...", (2, 5, 3, 4)),
    ("...i,...i", (2, 3, 4), (3, 4)),
    ("i...->...", (2, 3, 4)),
    ("...k,...j->kj", (2, 3, 4), (3, 5)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    ("bn,anm,bm->ba", (2, 5), (3, 5, 4), (2, 4)),
    ("ij,ij->ij", (1, 4), (3, 4)),
    ("ij,jk->ik", (3, 1), (4, 5)),
    ("i,jk->", (2,), (3, 4)),
    ("b i j , b j -> b i", (2, 3, 4), (2, 4)),
    ("ij,jk->ik", (3, 0), (0, 5)),
]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
def test_einsum(dtype: torch.dtype) -> None:
    for equation, *shapes in EINSUMS:
        tensors = [numbers(*shape, dtype=dtype) for shape in shapes]
        assert_matches(lambda *args, equation=equation: torch.einsum(equation, *args), *tensors)


@pytest.mark.slow
def test_einsum_of_dynamic_sizes() -> None:
    batch, length = Dim("batch"), Dim("length")
    assert_matches(
        lambda x, y: torch.einsum("bihd,bjhd->bhij", x, y),
        numbers(2, 4, 3, 5),
        numbers(2, 6, 3, 5),
        dynamic_shapes=({0: batch, 1: length}, {0: batch}),
        others=[(numbers(3, 7, 3, 5), numbers(3, 6, 3, 5))],
    )


def test_einsum_sums_large_integers_exactly() -> None:
    x = torch.randint(-(2**61), 2**61, (4, 5))
    assert_matches(lambda x: torch.einsum("ij->i", x), x)
    assert_matches(lambda x, y: torch.einsum("ij,ij->j", x, y), x, x.flip(0))


def test_einsum_of_several_dtypes() -> None:
    positions, frequencies = torch.arange(5), torch.randn(3)
    assert_matches(lambda i, j: torch.einsum("i,j->ij", i, j), positions, frequencies)
    assert_matches(lambda i, j: torch.einsum("i,i->i", i, j), positions, torch.randn(5, dtype=torch.float64))
    program = assert_matches(lambda i, j: torch.einsum("i,j->ij", i, j), positions.int(), torch.tensor([True, False]))
    assert program.plan.rows[0].route == "standard"


def test_einsum_of_too_few_tensors_says_so() -> None:
    from opbridge.errors import TranslationError
    from opbridge.translations.linalg.einsum import einsum

    class Value:
        shape = (2, 3)

    with pytest.raises(TranslationError, match="has 2 terms, but 1 tensors were given"):
        einsum("ij,jk->ik", [Value()])


# Distances


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_distances_between_few_vectors(dtype: torch.dtype) -> None:
    table = {f"cdist {p}": lambda x, y, p=p: torch.cdist(x, y, p=p) for p in (0.0, 0.5, 1.0, 2.0, 3.0, INF)}
    table |= {f"pdist {p}": lambda x, y, p=p: torch.pdist(x[0], p=p) for p in (0.0, 1.0, 2.0, 3.0, INF)}
    table["broadcast"] = lambda x, y: torch.cdist(x[:, None], y[None])
    table["by product"] = lambda x, y: torch.cdist(x, y, compute_mode="use_mm_for_euclid_dist")
    table["same"] = lambda x, y: torch.cdist(x, x)
    assert_all_match(table, numbers(2, 5, 4, dtype=dtype), numbers(2, 3, 4, dtype=dtype))


def test_distances_between_many_vectors() -> None:
    table = {
        "both": lambda x, y: torch.cdist(x, y),
        "one": lambda x, y: torch.cdist(x[:3], y),
        "batch": lambda x, y: torch.cdist(x.view(3, 1, 10, 4), y),
        "exact": lambda x, y: torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist"),
        "p=1": lambda x, y: torch.cdist(x, y, p=1),
    }
    inputs = numbers(30, 4), numbers(40, 4)
    assert_all_match(table, *inputs, others=[(numbers(30, 4), numbers(40, 4))], rtol=1e-4, atol=1e-4)
    assert_all_match(table, *inputs, opset_version=18, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("opset", [9, 10, 11, 13, 17])
def test_distances_between_numbers_of_vectors_that_the_run_tells_at_old_opsets(opset: int) -> None:
    others = [(numbers(x, 4), numbers(y, 4)) for x, y in ((30, 3), (2, 26), (25, 25), (1, 1))]
    shapes = ({0: "x"}, {0: "y"})
    first = numbers(5, 4), numbers(3, 4)
    assert_matches(torch.cdist, *first, others=others, dynamic_shapes=shapes, opset_version=opset, rtol=1e-4, atol=1e-4)


def test_distances_to_prototypes_are_one_product() -> None:
    prototypes = numbers(40, 16)
    program = assert_matches(lambda x: torch.cdist(x, prototypes), numbers(8, 16), rtol=1e-4, atol=1e-4)
    assert [node.op_type for node in program.model.graph].count("MatMul") == 1


@pytest.mark.slow
def test_distances_between_any_number_of_vectors() -> None:
    few, many = Dim("few", min=2, max=25), Dim("many", min=26, max=500)
    for sizes, others in [((few, 7), (3,)), ((many, 33), (26, 100))]:
        dim, count = sizes
        assert_matches(
            lambda x, y: torch.cdist(x, y),
            numbers(2, count, 5),
            numbers(2, 9, 5),
            dynamic_shapes=({1: dim}, None),
            others=[(numbers(2, other, 5), numbers(2, 9, 5)) for other in others],
            rtol=1e-4,
            atol=1e-4,
        )
    assert_matches(torch.pdist, numbers(6, 3), dynamic_shapes=({0: few},), others=[(numbers(11, 3),)])


@pytest.mark.slow
def test_distances_of_nothing() -> None:
    shapes = [((0, 3), (4, 3)), ((4, 3), (0, 3)), ((4, 0), (5, 0)), ((2, 0, 3), (2, 4, 3)), ((4, 5), (0, 3, 5))]
    for first, second in shapes:
        for p in (1.0, 2.0, INF):
            assert_matches(lambda x, y, p=p: torch.cdist(x, y, p=p), numbers(*first), numbers(*second))
    assert_matches(torch.pdist, numbers(1, 3))


def test_similarity() -> None:
    similarity = torch.nn.functional.cosine_similarity
    table = {
        "dim 1": lambda x, y: similarity(x, y),
        "dim -1": lambda x, y: similarity(x, y, dim=-1),
        "repeated": lambda x, y: similarity(x[:, :1], y, dim=1),
        "fewer dimensions": lambda x, y: similarity(x[0], y, dim=2),
        "numbers": lambda x, y: similarity(x[0, 0, 0], y[0, 0, 0], dim=0),
        "zeros": lambda x, y: similarity(x * 0, y, eps=1e-3),
        "pairwise": lambda x, y: torch.nn.functional.pairwise_distance(x, y),
        "renorm": lambda x, y: torch.renorm(x, 2, 0, 1.0),
    }
    assert_all_match(table, numbers(2, 3, 4), numbers(2, 3, 4), others=[(numbers(2, 3, 4), numbers(2, 3, 4))])


@pytest.mark.parametrize("order", [1, -1, float("inf"), float("-inf")])
def test_matrix_norms_of_sums(order):
    x = torch.randn(3, 4, 5)
    assert_matches(lambda x: torch.linalg.matrix_norm(x, order), x)
    assert_matches(lambda x: torch.linalg.matrix_norm(x, order, dim=(2, 0), keepdim=True), x)
    assert_matches(
        lambda x: torch.linalg.norm(x, order, dim=(0, 1)),
        x,
        others=[(torch.randn(2, 4, 7),)],
        dynamic_shapes=({0: "a", 2: "b"},),
    )


@pytest.mark.parametrize("shapes", [((2, 3), (4, 5)), ((3,), (2, 2)), ((2, 1, 3), (4,)), ((0, 2), (3, 2))])
def test_kron(shapes):
    assert_matches(torch.kron, *map(torch.randn, shapes))


def test_kron_of_any_size_and_other_dtypes():
    x, y = torch.randn(2, 3), torch.arange(4).view(2, 2)
    others = [(torch.randn(5, 1), torch.arange(2).view(1, 2))]
    assert_matches(torch.kron, x, y, others=others, dynamic_shapes=({0: "a", 1: "b"}, {0: "c"}))
