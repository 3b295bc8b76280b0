"""The sizes that are tried where no proof says for which sizes a condition holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

__all__ = ["LARGEST", "SAMPLES", "SCANNED", "Range", "mixtures"]

Range = tuple[int, int | None]
"""The smallest and the largest value of a size; None: any."""

LARGEST = 1 << 40
"""No dimension is larger: what holds up to this size holds for all."""

SCANNED = 2048
"""So many sizes are tried one by one where a condition is about one size."""

SAMPLES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 31, 64, 100, 1000, 4096, 1_000_003)
"""The values of each size where a condition is about several."""


def mixtures(symbols: Sequence[str], ranges: Mapping[str, Range]) -> Iterator[dict[str, int]]:
    """Values for several sizes: all small or large, and in many combinations.

    Args:
        symbols: The sizes.
        ranges: The smallest and the largest value of each; from 1 by default.
    """
    choices = []
    for symbol in symbols:
        low, high = ranges.get(symbol, (1, None))
        inside = {size for size in SAMPLES if size >= low and (high is None or size <= high)}
        choices.append(sorted(inside | {low if high is None else high, low}))

    def mixed(step: int) -> dict[str, int]:
        pairs = enumerate(zip(symbols, choices, strict=True), 1)
        return {symbol: sizes[step * at % len(sizes)] for at, (symbol, sizes) in pairs}

    for step in range(len(SAMPLES) + 2):
        yield mixed(step)
    for step in range(1, 4):  # one that is as small as may be, with others that are not
        yield from ({**mixed(step), symbol: sizes[0]} for symbol, sizes in zip(symbols, choices, strict=True))
