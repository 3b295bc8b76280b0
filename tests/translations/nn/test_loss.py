"""Losses over classes."""

from __future__ import annotations

import itertools

import pytest
import torch
from helpers.matching import assert_matches
from helpers.tables import assert_all_match
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_losses_of_numbers() -> None:
    assert_all_match(LOSSES, torch.randn(4, 5), torch.randn(4, 5), others=[(torch.randn(4, 5), torch.randn(4, 5))])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_soft_margin_loss(reduction: str, dtype: torch.dtype) -> None:
    def loss(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        # As numbers that numpy has; bfloat16 is none of them.
        return F.soft_margin_loss(x.to(dtype), y, reduction=reduction).double()

    signs = torch.tensor([1, -1, 1, -1, 1])
    rtol = 4 * torch.finfo(dtype).eps
    small, large = torch.randn(5), torch.tensor([-3.0, 2.0, -11.5, 11.5, -13.0])  # e^11.5 is infinite in float16
    assert_matches(loss, small, signs, others=[(large[:2].repeat(3)[:5], signs), (large, signs)], rtol=rtol, atol=0.0)
    assert F.soft_margin_loss(large.half(), signs).isinf() and not F.soft_margin_loss(large, signs).isinf()
    assert_matches(loss, small[:0], signs[:0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_ctc_loss(reduction: str, dtype: torch.dtype) -> None:
    logs = torch.randn(12, 4, 6, dtype=dtype).log_softmax(2)
    targets = torch.randint(1, 6, (4, 5))
    targets[0, 1] = targets[0, 0]  # a repeated label needs a blank between

    def losses(logs: torch.Tensor, targets: torch.Tensor, lengths: torch.Tensor, counts: torch.Tensor) -> object:
        return (
            F.ctc_loss(logs, targets, lengths, counts, reduction=reduction),
            F.ctc_loss(logs, targets, lengths, counts, reduction=reduction, zero_infinity=True),
            F.ctc_loss(logs, targets + 40, lengths, counts * 0, reduction=reduction, blank=5),
        )

    others = [
        [logs, targets, torch.tensor([2, 12, 6, 1]), torch.tensor([5, 5, 0, 1])],
        [logs * 30, targets, torch.tensor([12, 3, 3, 12]), torch.tensor([1, 2, 3, 5])],
    ]
    lengths, counts = torch.tensor([12, 11, 7, 12]), torch.tensor([5, 3, 0, 1])
    assert_matches(losses, logs, targets, lengths, counts, others=others, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_ctc_loss_of_labels_in_a_row_and_of_one_sequence() -> None:
    logs = torch.randn(9, 3, 5).log_softmax(2)
    counts = torch.tensor([3, 0, 4])
    assert_matches(
        lambda logs, row, counts: F.ctc_loss(logs, row, torch.tensor([9, 5, 8]), counts, reduction="none"),
        logs, torch.randint(1, 5, (7,)), counts, others=[[logs, torch.randint(1, 5, (7,)), torch.tensor([1, 4, 2])]],
    )  # fmt: skip
    assert_matches(lambda logs, row: F.ctc_loss(logs, row, (9, 9, 9), (2, 0, 3)), logs, torch.randint(1, 5, (5,)))
    assert_matches(
        lambda logs, row: F.ctc_loss(logs[:, 0], row, torch.tensor(9), torch.tensor(4)), logs, torch.randint(1, 5, (4,))
    )
    assert_matches(lambda logs, row: F.ctc_loss(logs, row, (9, 9, 9), (0, 0, 0)), logs, torch.randint(1, 5, (0,)))


def test_ctc_loss_of_any_time_and_batch() -> None:
    def loss(logs: torch.Tensor, targets: torch.Tensor, lengths: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        return F.ctc_loss(logs, targets, lengths, counts)

    def inputs(time: int, batch: int, labels: int) -> list[torch.Tensor]:
        logs = torch.randn(time, batch, 5).log_softmax(2)
        return [logs, torch.randint(1, 5, (batch, labels)), torch.full((batch,), time), torch.full((batch,), labels)]

    batch = Dim("batch")
    sizes = ({0: Dim("time"), 1: batch}, {0: batch, 1: Dim("labels")}, {0: batch}, {0: batch})
    assert_matches(loss, *inputs(9, 3, 2), others=[inputs(20, 1, 4), inputs(8, 5, 1)], dynamic_shapes=sizes)
