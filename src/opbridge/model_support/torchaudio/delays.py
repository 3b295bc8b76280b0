"""A phaser, for any number of samples.

torchaudio adds to each sample, in a Python loop, a share of an earlier output. How far back that is follows a table of
delays. Here outputs are summed by doubling: after the step of length n, each is the sum over its n nearest ancestors,
and its ancestor is n generations away.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from opbridge.base.torch_private import torch_sizes

__all__ = ["TABLE", "has_unknown_length", "phased", "waves"]

TABLE = "_generate_wave_table"
_MOST_STEPS = 31
"""For a length that only a run tells: no tensor has 2^31 elements along a dimension."""


def has_unknown_length(named: Mapping[str, Any]) -> bool:
    """Whether the number of samples is not known, of a wave whose echoes do not grow."""
    return abs(named["decay"]) <= 1 and isinstance(torch_sizes.known_size(named["waveform"].shape[-1]), torch.SymInt)


def phased(named: Mapping[str, Any]) -> torch.Tensor:
    """What `phaser` gives, of its arguments by name.

    Returns:
        Of the shape of the waveform.
    """
    wave, rate = named["waveform"], named["sample_rate"]
    length, device = wave.shape[-1], wave.device
    most = int(named["delay_ms"] * 0.001 * rate + 0.5)
    table = named[TABLE](
        wave_type="SINE" if named["sinusoidal"] else "TRIANGLE",
        data_type="INT",
        table_size=int(rate / named["mod_speed"] + 0.5),
        min=1.0,
        max=float(most),
        phase=math.pi / 2,
        device=device,
    )
    places = torch.arange(length, device=device)
    # The outputs are written to a ring, one place ahead of that at which the delay is counted.
    ancestors = (places - (most + 1 - table[places % table.shape[0]])).clamp(min=-1)
    found = wave.reshape(-1, length) * named["gain_in"]
    for step in range(_MOST_STEPS):
        # Before the first sample there is nothing: what is at the place -1, after the last one.
        echoes = torch.nn.functional.pad(found, (0, 1))[:, ancestors.remainder(length + 1)]
        found = found + echoes * named["decay"] ** 2**step
        ancestors = torch.nn.functional.pad(ancestors, (0, 1), value=-1)[ancestors.remainder(length + 1)]
    result: torch.Tensor = (found * named["gain_out"]).clamp(min=-1, max=1).reshape(wave.shape)
    return result


def waves(owner: Any) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Arguments of `phaser`: waves of several lengths and shapes, of either form of the table."""
    for shape in ((1,), (2, 30), (2, 3, 700)):
        wave = (torch.arange(math.prod(shape)) * 389 % 201).reshape(shape) / 100 - 1
        yield (wave, 8000), {}
        yield (wave, 4000), {"sinusoidal": False, "decay": 0.9, "delay_ms": 2.0, "mod_speed": 1.7, "gain_in": 0.2}
