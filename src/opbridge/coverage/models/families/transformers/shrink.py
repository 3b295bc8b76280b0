"""Small configurations of transformers' models: the default one, with its numbers made smaller by rules.

Widths are divided by one number, and counts of heads stay as they are, so that what has to fit together (heads times
the size of a head, the width of one part and what another part projects to, channels and groups) still does. Counts of
layers, experts, queries, positions and tokens get upper limits; ids of special tokens are mapped below the vocabulary's
size, each to one of its own. The spread of random weights grows as widths shrink: with scores near zero attention would
be a plain average, of which a wrong mask or window changes little. What a field is follows from its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from opbridge.coverage.models.families.transformers.fields import (
    DEPTHS,
    FIXED_LAYERS,
    IMAGE_TOKENS,
    LAYERS,
    LIMITS,
    LISTED,
    PLAIN_TOKENS,
    SECTIONS,
    SKIPPED,
    TOKEN,
    configs,
    is_config,
    is_derived,
    is_index,
    is_width,
)
from opbridge.coverage.models.families.transformers.image_sizes import LARGE_RATIO, image_ratio, image_sizes
from opbridge.coverage.models.families.transformers.layers import indices, layers, ranks
from opbridge.coverage.models.families.transformers.open_fields import missing
from opbridge.coverage.models.families.transformers.parts import join

__all__ = ["Scale", "shrink"]

_BACKBONE_WIDTHS = {"backbone_channel_list", "encoder_in_channels"}
_INITIAL = frozenset({"initializer_range", "init_std"})
_LARGEST_INITIAL = 0.5
_PERIOD = re.compile(r"layer_(period|offset)$")


@dataclass(frozen=True)
class Scale:
    """How much smaller a configuration is made.

    Attributes:
        divisor: What widths are divided by.
        pictures: Whether images get fewer patches too.
    """

    divisor: int = 8
    pictures: bool = True


_SCALE = Scale()


def shrink(config: Any, scale: Scale = _SCALE) -> Any:
    """A small configuration of the class of a configuration.

    Raises:
        Exception: What the class raises for numbers that do not fit together.
    """
    return _Shrinker(config, scale).config(config)


class _Shrinker:
    def __init__(self, root: Any, scale: Scale):
        self.divisor = 1 if any(LISTED & set(vars(config)) for config in configs(root)) else scale.divisor
        self.pictures = scale.pictures
        large = sorted({token for config in configs(root) for token in _tokens(config) if token >= PLAIN_TOKENS})
        self.image_ratio = max(image_ratio(config) for config in configs(root)) if scale.pictures else 1
        self.tokens = {token: PLAIN_TOKENS + i for i, token in enumerate(large)}

    def config(self, config: Any) -> Any:
        values = {}
        counts, made = layers(config), _made(config)
        for name, value in vars(config).items():
            if SKIPPED.search(name) or value is None or name in made:
                continue
            if is_config(value):
                values[name] = self.config(value)
            elif name in _BACKBONE_WIDTHS and _has_fixed_widths(config):
                values[name] = value
            elif not is_derived(config, name, value):
                values[name] = self.value(name, value, counts)
        if vars(config).get("_out_indices"):
            values["out_indices"] = _outputs(list(config.out_indices), counts)
        if self.pictures:
            values |= image_sizes(config)
        values |= missing(config, values)
        join(config, values)
        return type(config)(**values)

    def value(self, name: str, value: Any, layers: tuple[int, int]) -> Any:
        if isinstance(value, dict):
            return {key: self.value(str(key), part, layers) for key, part in value.items()}
        if isinstance(value, list | tuple):
            return self.sequence(name, value, layers)
        if name == "img_size" and self.pictures and isinstance(value, int) and value > 256:
            return max(value // LARGE_RATIO, 128)
        if name == "depth_coefficient":
            return min(value, 1.0)
        if name in _INITIAL and isinstance(value, float):
            return min(value * self.divisor, max(value, _LARGEST_INITIAL))
        if isinstance(value, bool) or not isinstance(value, int):
            return value
        return self.number(name, value, layers[1])

    def number(self, name: str, value: int, layers: int) -> int:
        if TOKEN.search(name):
            return self.tokens.get(value, value)
        for pattern, limit in LIMITS:
            if pattern.search(name):
                return min(value, limit)
        if _PERIOD.search(name):
            return min(value, 2 if name.endswith("period") else 1)
        if name == "num_kv_shared_layers":
            return min(value, layers // 2)
        if IMAGE_TOKENS.search(name):
            return max(value // self.image_ratio**2, 1)
        if LAYERS.search(name) and not FIXED_LAYERS.search(name):
            return min(value, layers)
        if is_width(name):
            return divided(value, self.divisor)
        return value

    def sequence(self, name: str, value: Sequence[Any], layers: tuple[int, int]) -> Any:
        before, after = layers
        kind: Any = list  # as it is read from a file, though some defaults are tuples
        if name == "backbone_feature_sizes":
            return kind([size // LARGE_RATIO if self.pictures else size for size in sizes] for sizes in value)
        if SECTIONS.search(name):
            return _sections(value, self.divisor)
        if before > after and len(value) == before:
            return kind(self.value(name, part, layers) for part in value[:after])
        if before > after and is_index(name) and indices(value, before):
            return kind(ranks(value, before, after))
        if DEPTHS.search(name) and all(isinstance(part, int) for part in value):
            return kind(min(part, max(2, len(value)) if name == "depth" else 2) for part in value)
        if name == "dilations":
            return kind(part[:2] if isinstance(part, list | tuple) else part for part in value)
        if LAYERS.search(name):
            return value
        return kind(self.value(name, part, layers) for part in value)


def divided(value: int, divisor: int) -> int:
    """A width divided; widths that are small already stay."""
    if value <= 8:
        return value
    small = max(value // divisor, 1)
    return small if small < 32 else small // 4 * 4  # grouped products of matrices take rows of whole 16 bytes


def _outputs(value: list[int], layers: tuple[int, int]) -> list[int]:
    """The layers whose outputs a backbone gives, among fewer."""
    before, after = layers
    return ranks(value, before, after) if before > after and min(value) >= 0 else value


def _made(config: Any) -> set[str]:
    """The values that a configuration makes itself from others, and from new numbers too."""
    given = getattr(type(config), "__dataclass_fields__", None)
    if given is None:
        return set()
    others = {name: value for name, value in vars(config).items() if name not in given and not SKIPPED.search(name)}
    default = vars(type(config)()) if others else {}
    return {name for name, value in others.items() if name in default and default[name] == value}


def _has_fixed_widths(config: Any) -> bool:
    """Whether a part is a model of timm, whose widths its name says."""
    return any(part.model_type.startswith("timm") for part in configs(config))


def _tokens(config: Any) -> Iterator[int]:
    for name, value in vars(config).items():
        if not TOKEN.search(name):
            continue
        for token in value if isinstance(value, list | tuple) else [value]:
            if isinstance(token, int):
                yield token


def _sections(value: Sequence[int], divisor: int) -> list[int]:
    """Parts of a divided sum that add up to it, equal where they were."""
    parts = [part // divisor for part in value]
    odd = next((i for i, part in enumerate(value) if value.count(part) == 1), 0)
    parts[odd] += sum(value) // divisor - sum(parts)
    return parts
