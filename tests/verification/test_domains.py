"""Each domain: an example of it, that it is recognised, and that what is drawn is of it too."""

from __future__ import annotations

import pytest
import torch
from onnx import numpy_helper
from onnxscript import opset18 as op

import opbridge
from opbridge.verification.domains import DOMAINS, Domain
from opbridge.verification.fresh_inputs import Kind, fresh_inputs, fresh_tensor, kind_of


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def _covariance() -> torch.Tensor:
    factor = normal(2, 4, 4)
    return factor @ factor.mT + 0.5 * torch.eye(4)


def _homography() -> torch.Tensor:
    matrix = torch.eye(3).repeat(2, 1, 1)
    matrix[:, :2, 2] = torch.tensor([[12.0, -3.0], [4.0, 7.5]])
    matrix[:, 2, :2] = normal(2, 2) * 1e-4
    matrix[:, :2, :2] += normal(2, 2, 2, seed=1) * 0.05
    return matrix


def _affine() -> torch.Tensor:
    matrix = _homography()
    matrix[:, 2, :2] = 0
    return matrix


EXAMPLES = {
    "identity matrices": torch.eye(4).expand(2, 4, 4),
    "one-hot": torch.nn.functional.one_hot(torch.tensor([[1, 0, 1], [2, 4, 0]]), 5).float(),
    "affine matrices": _affine(),
    "orthogonal matrices": torch.linalg.qr(normal(3, 4, 4)).Q,
    "matrices near the identity": _homography(),
    "triangular matrices": normal(2, 5, 5).tril() + 3 * torch.eye(5),
    "positive definite matrices": _covariance(),
    "symmetric matrices": normal(3, 4, 4) + normal(3, 4, 4).mT,
    "probabilities": normal(3, 7).softmax(-1),
    "log-probabilities": normal(6, 2, 5).log_softmax(-1),
    "unit vectors": torch.nn.functional.normalize(normal(5, 8), dim=-1),
    "ordered offsets": torch.tensor([0, 3, 7, 12]),
    "lengths": torch.tensor([9, 6, 2]),
}


def domain_name(values: torch.Tensor) -> str:
    found = kind_of(values)
    return found.name if isinstance(found, Domain) else found.value


def test_every_domain_has_an_example() -> None:
    assert list(EXAMPLES) == [domain.name for domain in DOMAINS]


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_domain_is_recognised_and_kept(name: str) -> None:
    example = EXAMPLES[name]
    assert domain_name(example) == name
    domain = next(domain for domain in DOMAINS if domain.name == name)
    same = []
    for seed in range(4):
        drawn = fresh_tensor(example, torch.Generator().manual_seed(seed))
        assert drawn.dtype == example.dtype and drawn.shape == example.shape and domain.recognises(drawn)
        same.append(torch.equal(drawn, example))
        if domain.is_matrix and name != "symmetric matrices":
            assert float(torch.linalg.cond(drawn).max()) < 4 * float(torch.linalg.cond(example).max()) + 1
    assert all(same) == domain.is_kept and same.count(True) in (0, 1, 4)  # few integers are the same by chance
    # Another batch.
    larger = (example.shape[0] + 2, *example.shape[1:])
    drawn = fresh_tensor(example, torch.Generator().manual_seed(0), larger)
    assert drawn.shape == larger and domain.recognises(drawn)


def test_one_hot_along_another_dimension_and_permutations() -> None:
    labels = torch.nn.functional.one_hot(torch.randint(4, (2, 3, 3)), 4).movedim(-1, 1)
    drawn = fresh_tensor(labels, torch.Generator().manual_seed(1))
    assert bool((drawn.sum(1) == 1).all()) and drawn.dtype == torch.int64
    permutation = torch.eye(5)[torch.tensor([2, 0, 1, 4, 3])]
    drawn = fresh_tensor(permutation, torch.Generator().manual_seed(0))
    assert bool((drawn.sum(0) == 1).all()) and bool((drawn.sum(1) == 1).all()) and not torch.equal(drawn, permutation)


def test_offsets_keep_their_ends_and_lengths_their_greatest() -> None:
    offsets = fresh_tensor(EXAMPLES["ordered offsets"], torch.Generator().manual_seed(3))
    assert int(offsets[0]) == 0 and int(offsets[-1]) == 12 and bool((offsets.diff() > 0).all())
    lengths = fresh_tensor(EXAMPLES["lengths"], torch.Generator().manual_seed(3))
    assert int(lengths[0]) == 9 and int(lengths.min()) >= 2 and bool((lengths.diff() < 0).all())
    assert fresh_tensor(torch.tensor([0, 4]), torch.Generator().manual_seed(0)).tolist() == [0, 4]


def test_offsets_and_lengths_follow_the_size_that_they_are_places_in() -> None:
    indices, offsets = torch.tensor([4, 1, 9, 3, 4, 7, 2, 2]), torch.tensor([0, 3, 6])
    (fresh, places), _ = fresh_inputs((indices, offsets), {}, 0, shapes={0: (4,), 1: (3,)})
    assert fresh.shape == (4,) and int(places[0]) == 0 and int(places[-1]) == 3
    rows, lengths = normal(3, 9, 2), torch.tensor([9, 6, 2])
    (_, chosen), _ = fresh_inputs((rows, lengths), {}, 0, shapes={0: (2, 3, 2), 1: (2,)})
    assert chosen.shape == (2,) and int(chosen[0]) == 3 and int(chosen.min()) >= 1


def test_what_no_domain_fits_stays_as_it_was() -> None:
    assert kind_of(normal(4, 4)) is Kind.REAL and kind_of(normal(2, 3, 8, 8)) is Kind.REAL
    assert kind_of(torch.arange(5)) is Kind.ORDERED and kind_of(torch.tensor([7, 3, 9])) is Kind.WHOLE
    assert kind_of(torch.ones(4, 4, dtype=torch.bool).tril()) is Kind.ORDERED
    assert fresh_tensor(EXAMPLES["symmetric matrices"], torch.Generator(), (3, 4, 2)).shape == (3, 4, 2)


def test_the_domain_is_said_where_the_two_differ() -> None:
    def model(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.embedding_bag(x.long(), torch.ones(10, 3), places, mode="sum") * 2

    x, places = torch.tensor([4, 1, 9, 3, 4, 7, 2, 2]), torch.tensor([0, 3, 7])
    frozen = {"aten::mul.Tensor": lambda a, b: op.Constant(value=numpy_helper.from_array(model(x, places).numpy()))}
    with pytest.raises(
        opbridge.VerificationError, match="The random inputs follow the example: 'places' as ordered offsets"
    ):
        opbridge.export(model, (x, places), custom_translation_table=frozen)
    assert opbridge.export(model, (x, places)).verification.ok  # type: ignore[union-attr]


def test_a_warp_by_homographies_agrees_on_fresh_ones() -> None:
    class Warp(torch.nn.Module):
        """Where each pixel comes from, by the inverse of a homography, as kornia's warp_perspective has it."""

        def forward(self, image: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
            height, width = image.shape[-2:]
            ys, xs = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
            points = torch.stack([xs, ys, torch.ones_like(xs)], -1).float().reshape(1, -1, 3)
            moved = points @ torch.linalg.inv(matrix).mT
            grid = (moved[..., :2] / moved[..., 2:]).reshape(-1, height, width, 2)
            grid = grid / torch.tensor([width - 1, height - 1]) * 2 - 1
            return torch.nn.functional.grid_sample(image, grid, align_corners=True)

    image, matrix = torch.rand(2, 3, 20, 24, generator=torch.Generator().manual_seed(0)), _homography()
    found = opbridge.export(Warp(), (image, matrix)).verification
    assert found is not None and found.ok and not found.left_out
