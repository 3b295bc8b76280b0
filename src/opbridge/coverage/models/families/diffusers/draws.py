"""Inputs of diffusers' models, by the names of their parameters and by their configurations."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opbridge.coverage.models.entries import Inputs
from opbridge.coverage.models.families.diffusers.values import VALUES, Given, first, is_text, optional_parameters
from opbridge.coverage.models.varying import Size

__all__ = ["Way", "candidates", "sizes_for"]


@dataclass(frozen=True)
class Way:
    """A way to draw inputs.

    Attributes:
        draw: Draws them, for sizes by name.
        sizes: Those sizes.
    """

    draw: Callable[..., Inputs]
    sizes: Mapping[str, Size]

    def inputs(self, **others: int) -> Inputs:
        """Those of the example, or with other sizes."""
        return self.draw(**{name: size.example for name, size in self.sizes.items()} | others)


def sizes_for(names: Sequence[str], unit: int) -> dict[str, Size]:
    """Sizes by name; height and width are in units of so many elements, so that the whole stays small."""
    height = max(16 // unit, 2)
    width = height + height // 2
    known = {
        "batch": Size(2, (1, 3)),
        "height": Size(height, (width, 2 * height)),
        "width": Size(width, (2 * height, height)),
        "frames": Size(5, (9,)),
        "sequence": Size(7, (5, 9)),
    }
    return {name: known[name] for name in names}


def candidates(model: Any, folder: str) -> Iterator[Way]:
    """The ways to give a sample: an image, a video, a sequence of patches, a sound; in several units of its sizes."""
    config = dict(model.config)
    parameters = inspect.signature(model.forward).parameters
    channels = first(config, _CHANNELS, 4)
    units = dict.fromkeys((_unit(config, folder), 32))
    for unit in units:
        for names, shape in _shapes(channels, unit).items():
            yield _way(parameters, config, [name for name in names if name], shape, unit)


_CHANNELS = (
    "in_channels", "in_dim", "in_visual_dim", "input_channels", "image_channels", "audio_channels", "io_channels",
    "embedding_dim", "num_channels", "latent_dim", "num_mels", "mel_bins", "latent_channels",
)  # fmt: skip


def _unit(config: Mapping[str, Any], folder: str) -> int:
    """What users' heights and widths are multiples of: by how much a model makes images smaller."""
    if folder == "transformers":
        return max(first(config, ("patch_size",), 2, last=True), 2)
    blocks = config.get("block_out_channels") or config.get("encoder_block_out_channels")
    return int(2 ** (len(blocks) - 1)) if isinstance(blocks, list | tuple) and len(blocks) > 1 else 2


Shape = Callable[[Mapping[str, int]], tuple[int, ...]]


def _shapes(channels: int, unit: int) -> dict[tuple[str, ...], Shape]:
    """The shapes that a sample may have, by its sizes; an empty name makes a second one of the same sizes."""

    def image(s: Mapping[str, int]) -> tuple[int, ...]:
        return unit * s["height"], unit * s["width"]

    return {
        ("batch", "height", "width"): lambda s: (s["batch"], channels, *image(s)),
        ("batch", "height", "", ""): lambda s: (s["batch"], channels, unit * s["height"], unit * s["height"]),
        ("batch", "frames", "height", "width"): lambda s: (s["batch"], channels, s["frames"], *image(s)),
        ("batch", "frames", "height", "width", ""): lambda s: (s["batch"], s["frames"], channels, *image(s)),
        ("batch", "height", "width", ""): lambda s: (s["batch"], s["height"] * s["width"], channels),
        ("batch", "frames", "height", "width", "", ""): lambda s: (
            s["batch"],
            s["frames"] * s["height"] * s["width"],
            channels,
        ),
        ("batch", "height"): lambda s: (s["batch"], channels, 16 * unit * s["height"]),
        ("batch", "height", ""): lambda s: (s["batch"], unit * s["height"], channels),
        ("batch", "height", "", "", ""): lambda s: (s["batch"], 64 * s["height"]),
        ("batch",): lambda s: (s["batch"], channels),
    }


def _way(parameters: Mapping[str, Any], config: Mapping[str, Any], names: list[str], shape: Shape, unit: int) -> Way:
    wanted = optional_parameters(config)

    def draw(**given: int) -> Inputs:
        kwargs = {}
        for name, parameter in parameters.items():
            if parameter.default is not parameter.empty and name not in wanted:
                continue
            if name in VALUES:
                kwargs[name] = VALUES[name](Given(config, given, shape(given), unit))
        return Inputs((), {name: value for name, value in kwargs.items() if value is not None})

    has_text = any(is_text(name) for name in parameters)
    # Where patches come as a sequence, there are few of them.
    is_sequence = len(shape(dict.fromkeys(("batch", "frames", "height", "width"), 1))) == 3
    return Way(draw, sizes_for([*names, "sequence"] if has_text else names, 4 if is_sequence else unit))
