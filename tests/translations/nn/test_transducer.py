"""torchaudio's loss of a transducer, by an operator of the same schema where torchaudio is not installed."""

from __future__ import annotations

import importlib.util

import pytest
import torch
from helpers.matching import assert_matches

import opbridge

_SCHEMA = (
    "rnnt_loss_forward(Tensor logits, Tensor targets, Tensor logit_lengths, Tensor target_lengths, int blank, float"
    " clamp, bool fused_log_softmax) -> (Tensor, Tensor)"
)


def _loss(logits, targets, lengths, counts, blank, clamp, fused):
    """The sum over all alignments, moment by moment and label by label; what it gives as the gradient is none."""
    logs = logits.log_softmax(-1) if fused else logits
    costs = []
    for number in range(logits.shape[0]):
        moments, labels = int(lengths[number]), int(counts[number])
        forward = torch.full((moments, labels + 1), -torch.inf)
        forward[0, 0] = 0
        for t in range(moments):
            for u in range(labels + 1):
                ways = [forward[t, u]]
                ways += [forward[t - 1, u] + logs[number, t - 1, u, blank]] if t else []
                ways += [forward[t, u - 1] + logs[number, t, u - 1, int(targets[number, u - 1])]] if u else []
                forward[t, u] = torch.stack(ways).logsumexp(0)
        costs.append(-forward[-1, -1] - logs[number, moments - 1, labels, blank])
    return torch.stack(costs), torch.zeros_like(logits)


@pytest.fixture(scope="module", autouse=True)
def operator():
    if importlib.util.find_spec("torchaudio") is not None:
        import torchaudio  # noqa: F401 - the import registers the operator

        yield
        return
    library = torch.library.Library("torchaudio", "FRAGMENT")
    library.define(_SCHEMA)
    library.impl("rnnt_loss_forward", _loss, "CPU")
    yield
    library._destroy()


def _inputs(lengths: list[int], counts: list[int]) -> tuple[torch.Tensor, ...]:
    batch, moments, labels = len(lengths), max(lengths), max(counts)
    targets = torch.randint(0, 6, (batch, labels), dtype=torch.int32)
    logits = torch.randn(batch, moments, labels + 1, 7) * 3
    return logits, targets, torch.tensor(lengths, dtype=torch.int32), torch.tensor(counts, dtype=torch.int32)


@pytest.mark.parametrize("fused", [True, False])
def test_sequences_of_several_lengths(fused):
    def loss(logits, *others):
        logs = logits if fused else logits.log_softmax(-1)
        return torch.ops.torchaudio.rnnt_loss_forward(logs, *others, 6, -1.0, fused)[0]

    shapes = ({0: "batch", 1: "moments", 2: "labels_1"}, {0: "batch", 1: "labels"}, {0: "batch"}, {0: "batch"})
    others = [_inputs([3], [5]), _inputs([1, 9, 2], [4, 1, 2]), _inputs([1], [1])]
    program = assert_matches(loss, *_inputs([5, 8], [3, 2]), others=others, dynamic_shapes=shapes, rtol=1e-4, atol=1e-4)
    assert not program.plan.notes


def test_labels_beyond_the_length_of_a_target_are_not_read():
    logits, targets, lengths, counts = _inputs([5, 8], [3, 2])
    targets[1, 2] = 99

    def loss(logits):
        return torch.ops.torchaudio.rnnt_loss_forward(logits, targets, lengths, counts, 0, -1.0, True)[0]

    if importlib.util.find_spec("torchaudio") is None:  # whose own operator may check labels
        assert_matches(loss, logits, rtol=1e-4, atol=1e-4)


def test_the_gradient_is_not_computed():
    """A model that returns it is refused, and gets no file."""

    def gradient(*args):
        return torch.ops.torchaudio.rnnt_loss_forward(*args, 0, -1.0, True)

    with pytest.raises(opbridge.OpbridgeError):
        opbridge.export(gradient, _inputs([5], [3]))
