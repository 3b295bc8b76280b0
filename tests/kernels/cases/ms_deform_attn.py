"""Multi-scale deformable attention."""

from __future__ import annotations

import numpy as np
from kernels.cases import Case, Refused
from kernels.references.ms_deform_attn import ms_deform_attn

__all__ = ["REFUSED", "random_cases"]


def random_cases(seed: int) -> list[Case]:
    """One call, with levels of all sizes (one without a key), in any order, and points outside of them."""
    random = np.random.default_rng(seed)
    batch, queries, heads = random.choice([0, 1, 2]), random.choice([0, 1, 3, 9]), random.choice([1, 2, 3])
    dim, levels, points = (
        random.choice([0, 1, 3, 4, 8, 16, 23, 70]),
        random.choice([0, 1, 2, 4]),
        random.choice([0, 1, 3]),
    )
    shapes = random.choice([0, 1, 2, 5, 8] if seed % 5 == 0 else [1, 2, 5, 8], (levels, 2)).astype(np.int64)
    starts, keys = np.zeros(levels, dtype=np.int64), int(random.integers(3))
    for level in random.permutation(levels):
        starts[level], keys = keys, keys + int(shapes[level].prod())
    value = random.standard_normal((batch, keys, heads, dim))
    locations = np.round((random.random((batch, queries, heads, levels, points, 2)) * 1.5 - 0.25) * 64) / 64
    if locations.size and seed % 7 == 0:
        locations.flat[0] = [np.nan, np.inf, -np.inf, 1e4][seed // 7 % 4]
    weights = random.random((batch, queries, heads, levels, points))
    expected = ms_deform_attn(value, shapes, starts, locations, weights)
    return [Case("ms_deform_attn", [value, shapes, starts, locations, weights], {}, [expected])]


def _refused(
    words: str,
    value: tuple[int, ...] = (1, 20, 2, 4),
    shapes: object = ((4, 4), (2, 2)),
    starts: object = (0, 16),
    locations: tuple[int, ...] = (1, 3, 2, 2, 1, 2),
    weights: tuple[int, ...] = (1, 3, 2, 2, 1),
) -> Refused:
    inputs = [value, np.array(shapes, dtype=np.int64), np.array(starts, dtype=np.int64), locations, weights]
    return Refused("ms_deform_attn", inputs, {}, words)


REFUSED = [
    _refused("value must be", value=(20, 2, 4)),
    _refused("level 1 has 4 keys from 16, but value has 19 keys", value=(1, 19, 2, 4)),
    _refused("level 0 has 16 keys from -1", starts=(-1, 16)),
    _refused("level 1 has 4 keys from 9223372036854775807", starts=(0, 2**63 - 1)),
    _refused("level 0 has 25 keys", shapes=((5, 5), (2, 2))),
    _refused("spatial_shapes has a negative size", shapes=((-4, -4), (2, 2))),
    _refused("spatial_shapes exceeds the maximum memory size", shapes=((2**62, 2**62), (2, 2))),
    _refused("spatial_shapes must be", shapes=((4, 4),)),
    _refused("spatial_shapes must be", shapes=(4, 4)),
    _refused("level_start_index must be", starts=(0,)),
    _refused("level_start_index must be", starts=((0, 16),)),
    _refused("sampling_locations must be", locations=(1, 3, 2, 2, 1)),
    _refused("sampling_locations must be", locations=(1, 3, 2, 2, 1, 3)),
    _refused("sampling_locations must be", locations=(2, 3, 2, 2, 1, 2)),
    _refused("attention_weights must be", weights=(1, 3, 2, 2, 2)),
    _refused("attention_weights must be", weights=(1, 3, 2, 2)),
]
