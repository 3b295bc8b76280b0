"""A block of TimesNet, which lays out a series by each of its periods.

neuralforecast computes the periods in NumPy, and pads a series where its length is no multiple of a period. Here they
are numbers that data decide, and a multiple is padded by nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

__all__ = ["CALLS", "blocks", "laid_out"]

CALLS = {"FFT_for_Period": "aa7a84d85246ee65"}
"""The function that `forward` calls, as in neuralforecast 3.3."""


def laid_out(named: Mapping[str, Any]) -> torch.Tensor:
    """What `TimesBlock.forward` gives, of its arguments by name.

    Returns:
        [batch, time, features]
    """
    block, x = named["self"], named["x"]
    batch, time, features = x.shape
    amplitudes = torch.fft.rfft(x, dim=1).abs()
    frequencies = amplitudes.mean(0).mean(-1)
    frequencies = torch.cat([torch.zeros_like(frequencies[:1]), frequencies[1:]])
    top = frequencies.topk(block.k).indices
    length = block.input_size + block.h
    found = []
    for each in range(block.k):
        period = (time // top[each]).item()
        torch._check(period >= 1)
        count = (length + period - 1) // period
        out = torch.nn.functional.pad(x, (0, 0, 0, count * period - length))
        out = out.reshape(batch, count, period, features).permute(0, 3, 1, 2).contiguous()
        out = block.conv(out).permute(0, 2, 3, 1).reshape(batch, -1, features)
        found.append(out.narrow(1, 0, length))  # which says that it has as many
    weights = amplitudes.mean(-1).index_select(1, top).softmax(1)
    result: torch.Tensor = (torch.stack(found, -1) * weights[:, None, None, :]).sum(-1) + x
    return result


def blocks(owner: Any) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Arguments of `TimesBlock.forward`: series of two periods, of which the length is a multiple or none."""
    for input_size, horizon in ((18, 6), (17, 6)):
        torch.manual_seed(0)
        block = owner(input_size, horizon, 2, 4, 3, 2).eval()
        time = torch.arange(float(input_size + horizon))
        series = torch.sin(time * 1.57) + 0.5 * torch.sin(time * 0.785 + 1) + 0.1 * torch.sin(time * 0.3)
        yield (block, series[None, :, None] * torch.rand(3, 1, 4)), {}
