"""Losses over classes."""

from __future__ import annotations

import itertools

import pytest
import torch
from support import assert_matches
from tables import assert_all_match
from torch.export import Dim

F = torch.nn.functional

WEIGHT = torch.rand(5)

FORMS = list(itertools.product(("none", "mean", "sum"), (None, WEIGHT), (0.0, 0.1), (-100, 2)))


def cross_entropies() -> dict[str, object]:
    return {
        f"{reduction} {weight is not None} {smoothing} {ignored}": lambda x, t, reduction=reduction, weight=weight, smoothing=smoothing, ignored=ignored: (  # noqa: E501
            F.cross_entropy(x, t, weight, reduction=reduction, label_smoothing=smoothing, ignore_index=ignored)
        )
        for reduction, weight, smoothing, ignored in FORMS
    }


def classes(*shape: int) -> torch.Tensor:
    target = torch.randint(0, 5, shape)
    if target.numel() > 1:
        target.view(-1)[:2] = torch.tensor([2, -100])
    return target


def nll_losses() -> dict[str, object]:
    return {
        f"{reduction} {weight is not None} {ignored}": lambda x, t, r=reduction, w=weight, i=ignored: F.nll_loss(
            x, t.clamp(min=0), w, reduction=r, ignore_index=i
        )
        for reduction, weight, smoothing, ignored in FORMS
        if smoothing
    }


@pytest.mark.parametrize("shape", [(5,), (4, 5), (4, 5, 3), (2, 5, 3, 2)], ids=str)
def test_classes(shape: tuple[int, ...]) -> None:
    rest = (shape[0], *shape[2:]) if len(shape) > 1 else ()
    tables = {name: function for name, function in cross_entropies().items() if "-100" in name or not rest}
    assert_all_match(tables, torch.randn(*shape), classes(*rest), others=[(torch.randn(*shape), classes(*rest))])
    assert_all_match(nll_losses(), torch.randn(*shape), classes(*rest))


def test_ignored_class() -> None:
    table = {name: function for name, function in cross_entropies().items() if "-100" not in name}
    assert_all_match(table, torch.randn(6, 5), torch.tensor([2, 0, 1, 2, 4, 3]))
    assert_matches(F.cross_entropy, torch.randn(4, 5), torch.full((4,), -100))


@pytest.mark.parametrize("shape", [(5,), (4, 5), (4, 5, 3)], ids=str)
def test_distributions(shape: tuple[int, ...]) -> None:
    table = {name: function for name, function in cross_entropies().items() if "-100" in name}
    assert_all_match(table, torch.randn(*shape), torch.rand(*shape), others=[(torch.randn(*shape), torch.rand(*shape))])


def test_any_batch() -> None:
    batch = Dim("batch")
    for target in (lambda n: torch.randint(0, 5, (n,)), lambda n: torch.rand(n, 5)):
        assert_matches(
            lambda x, t: (F.cross_entropy(x, t, label_smoothing=0.1), F.cross_entropy(x, t, reduction="none")),
            torch.randn(4, 5),
            target(4),
            dynamic_shapes=({0: batch}, {0: batch}),
            others=[(torch.randn(7, 5), target(7))],
        )


def test_forward_operators_count_the_weights() -> None:
    table = {
        f"{reduction}": lambda x, t, r=reduction: torch.ops.aten.nll_loss_forward(x, t, WEIGHT, r, 2)
        for reduction in (0, 1, 2)
    }
    assert_all_match(table, torch.randn(6, 5), torch.tensor([2, 0, 1, 2, 4, 3]))


def test_doubles_at_opset_18() -> None:
    target = torch.randint(0, 5, (4,))
    assert_matches(lambda x: F.cross_entropy(x, target), torch.randn(4, 5).double(), opset_version=18)


LOSSES = {
    "mse": F.mse_loss,
    "l1": F.l1_loss,
    "smooth l1": lambda x, y: F.smooth_l1_loss(x, y, beta=0.5),
    "huber": lambda x, y: F.huber_loss(x, y, delta=0.7),
    "bce": lambda x, y: F.binary_cross_entropy(x.sigmoid(), y.sigmoid()),
    "bce with logits": lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid(), pos_weight=WEIGHT),
    "kl": lambda x, y: F.kl_div(x.log_softmax(1), y.softmax(1), reduction="batchmean"),
    "kl of logs": lambda x, y: F.kl_div(x.log_softmax(1), y.log_softmax(1), log_target=True, reduction="sum"),
    "cosine": lambda x, y: F.cosine_embedding_loss(x, y, torch.sign(y[:, 0]), margin=0.1),
    "margin ranking": lambda x, y: F.margin_ranking_loss(x[:, 0], y[:, 0], torch.sign(y[:, 1]), margin=0.1),
    "hinge": lambda x, y: F.hinge_embedding_loss(x, torch.sign(y)),
    "soft margin": lambda x, y: F.soft_margin_loss(x, torch.sign(y)),
    "multi margin": lambda x, y: F.multi_margin_loss(x, y.argmax(1)),
    "multilabel": lambda x, y: F.multilabel_soft_margin_loss(x, (y > 0).float()),
    "triplet": lambda x, y: F.triplet_margin_loss(x, y, x + y),
    "poisson": lambda x, y: F.poisson_nll_loss(x, y.abs(), full=False),
}


def test_losses_of_numbers() -> None:
    assert_all_match(LOSSES, torch.randn(4, 5), torch.randn(4, 5), others=[(torch.randn(4, 5), torch.randn(4, 5))])
