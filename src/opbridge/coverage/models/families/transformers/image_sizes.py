"""Sizes of images in small configurations of transformers' models."""

from __future__ import annotations

from typing import Any

__all__ = ["LARGE_RATIO", "image_ratio", "image_sizes"]

LARGE_RATIO = 8
"""What sides of images of more than 256 pixels are divided by, where nothing says into how many patches."""


def image_sizes(config: Any) -> dict[str, Any]:
    """A smaller image: fewer patches in each direction, by a number that divides them; what counts patches follows."""
    size = _side(config, "image_size")
    if size is None:
        return {}
    patch = _side(config, "patch_size")
    if patch is None or hasattr(config, "depths") or size % patch:
        return {"image_size": _like(config.image_size, max(size // LARGE_RATIO, 128))} if size > 256 else {}
    return {"image_size": _like(config.image_size, size // image_ratio(config))}


def image_ratio(config: Any) -> int:
    size, patch = _side(config, "image_size"), _side(config, "patch_size")
    if size is None or patch is None or hasattr(config, "depths") or size % patch:
        return 1
    return _ratio(size // patch)


def _side(config: Any, name: str) -> int | None:
    """The side of a square that a field says."""
    value = vars(config).get(name)
    if isinstance(value, list | tuple):
        value = value[0] if len(set(value)) == 1 else None
    return value if isinstance(value, int) else None


def _ratio(patches: int) -> int:
    """The largest divisor that leaves at least two patches; eight where there are so many that windows are likely."""
    least = 8 if patches >= 60 else 4 if patches % 4 == 0 else 2
    return max(
        (ratio for ratio in range(1, patches + 1) if patches % ratio == 0 and patches // ratio >= least), default=1
    )


def _like(value: Any, size: int) -> Any:
    return type(value)([size] * len(value)) if isinstance(value, list | tuple) else size
