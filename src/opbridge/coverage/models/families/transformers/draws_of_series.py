"""Tensors for parameters of transformers' models that stand for time series and for steps of an agent."""

from __future__ import annotations

import torch

from opbridge.coverage.models.families.transformers.facts import Facts

__all__ = [
    "actions",
    "frequency",
    "future_times",
    "future_values",
    "mask",
    "moment",
    "noise",
    "padding",
    "rewards",
    "state",
    "states",
    "steps",
    "times",
    "values",
]


def values(facts: Facts, batch: int) -> torch.Tensor:
    """Values of a time series, as far back as its lags reach."""
    return _values(facts, batch, facts.value("context_length", default=32) + max(_lags(facts)))


def future_values(facts: Facts, batch: int) -> torch.Tensor:
    return _values(facts, batch, facts.value("prediction_length", default=8))


def mask(facts: Facts, batch: int) -> torch.Tensor:
    return torch.ones_like(values(facts, batch))


def times(facts: Facts, batch: int) -> torch.Tensor:
    return torch.randn(batch, values(facts, batch).shape[1], _time_features(facts))


def future_times(facts: Facts, batch: int) -> torch.Tensor:
    return torch.randn(batch, future_values(facts, batch).shape[1], _time_features(facts))


def padding(facts: Facts, batch: int) -> torch.Tensor:
    return torch.zeros_like(values(facts, batch)).long()


def frequency(facts: Facts, batch: int) -> torch.Tensor:
    return torch.ones(batch, 1, dtype=torch.int64)


def states(facts: Facts, batch: int, sequence: int) -> torch.Tensor:
    return torch.randn(batch, sequence, facts.value("state_dim"))


def actions(facts: Facts, batch: int, sequence: int) -> torch.Tensor:
    return torch.randn(batch, sequence, facts.value("act_dim"))


def state(facts: Facts, batch: int) -> torch.Tensor:
    return torch.randn(batch, facts.value("max_state_dim", "state_dim"))


def noise(facts: Facts, batch: int) -> torch.Tensor:
    return torch.randn(batch, facts.value("chunk_size", default=8), facts.value("max_action_dim", "act_dim"))


def moment(facts: Facts, batch: int) -> torch.Tensor:
    return torch.rand(batch)


def rewards(facts: Facts, batch: int, sequence: int) -> torch.Tensor:
    return torch.randn(batch, sequence, 1)


def steps(facts: Facts, batch: int, sequence: int) -> torch.Tensor:
    return torch.arange(sequence).expand(batch, sequence).contiguous()


def _lags(facts: Facts) -> list[int]:
    return list(facts.value("lags_sequence", default=[0]))


def _time_features(facts: Facts) -> int:
    return facts.value("num_time_features", default=0) + facts.value("num_dynamic_real_features", default=0)


def _values(facts: Facts, batch: int, length: int) -> torch.Tensor:
    channels = facts.value("num_input_channels") or facts.value("input_size", default=1)
    is_one = channels == 1 and not hasattr(facts.config, "num_input_channels")
    return torch.randn(batch, length) if is_one else torch.randn(batch, length, channels)
