"""How many layers a small configuration has, and which of a default configuration's layers its lists name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opbridge.coverage.models.families.transformers.fields import is_derived, is_index

__all__ = ["indices", "layers", "ranks"]

_MOST_LAYERS = 10
_STAGES = ("depths", "hidden_sizes")
"""Fields of models of stages, whose lists stay as long as they are."""


def layers(config: Any) -> tuple[int, int]:
    """How many layers there are by default, and how many a small one needs: one of each type at least."""
    before = getattr(config, "num_hidden_layers", 0)
    if any(isinstance(vars(config).get(name), list | tuple) for name in _STAGES):
        return 0, 4
    if not isinstance(before, int) or before == 0:
        return 0, 2
    after = 2
    for name, value in vars(config).items():
        if not isinstance(value, list | tuple):
            continue
        if len(value) == before and name.endswith(("layer_types", "layers_block_type", "pattern")):
            after = max(after, 1 + max(list(value).index(kind) for kind in set(value)))
        elif name == "block_types":
            after = max(after, len(value))
        elif is_index(name) and indices(value, before) and not is_derived(config, name, value):
            after = max(after, len(value))
    if vars(config).get("num_kv_shared_layers"):
        after *= 2  # half of them share the keys and values of the others
    return before, min(after, _MOST_LAYERS, before)


def indices(value: Sequence[Any], layers: int) -> bool:
    """Whether a list names layers: ascending, too large for a small configuration and not too large for the default."""
    return (
        len(value) > 0
        and all(isinstance(part, int) and not isinstance(part, bool) for part in value)
        and list(value) == sorted(set(value))
        and 2 < value[-1] <= layers
        and value[0] >= 0
        and (value[-1] > _MOST_LAYERS or len(value) > 1)
    )


def ranks(value: Sequence[int], before: int, after: int) -> list[int]:
    """Indices of as many layers, among fewer: the last ones, or one more where the default counts from 1."""
    top = after if value[-1] == before else after - 1
    return sorted({max(top - i, 0) for i in range(len(value))})
