"""Inputs of diffusers' models, by the names of their parameters and by their configurations."""

from __future__ import annotations

import dataclasses
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
    channels = _channels(config)
    units = dict.fromkeys((_unit(config, folder), 32))
    ways = [
        _way(parameters, config, [name for name in names if name], shape, unit)
        for unit in units
        for names, shape in _shapes(channels, unit).items()
        if "num_frames" not in parameters or names != _PATCHES
    ]
    yield from ways
    for sizes in _RARE_SIZES:
        for way in ways:
            if sizes.keys() <= way.sizes.keys():
                yield dataclasses.replace(way, sizes={**way.sizes, **sizes})


def _channels(config: Mapping[str, Any]) -> int:
    """Of a sample: those of the configuration, unless a model computes them from fewer, or takes a sound."""
    if "spatial_expansions" in config:
        return int(config["out_channels"])
    if "encoder_rates" in config:
        return 1
    return 2 if config.get("stereo") else first(config, _CHANNELS, 4)


_RARE_SIZES = ({"frames": Size(9, (17,))}, {"frames": Size(17, (33,))}, {"frames": Size(1, ())}, {"batch": Size(1, ())})
"""What some models need: more frames, as they make eight or sixteen one; a single frame; or no batch."""

_PATCHES = ("batch", "height", "width", "")
"""The sizes of a sequence of the patches of an image."""

_CHANNELS = (
    "audio_acoustic_hidden_dim", "in_channels", "in_dim", "in_visual_dim", "input_channels", "image_channels",
    "audio_channels", "io_channels", "embedding_dim", "num_channels", "latent_dim", "num_mels", "mel_bins",
    "encoder_in_channels", "latent_channels",
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
        _PATCHES: lambda s: (s["batch"], s["height"] * s["width"], channels),
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
    sizes = sizes_for([*names, "sequence"] if has_text else names, 4 if is_sequence else unit)
    # A list has a part for each of a batch, and a list's length is never dynamic.
    return Way(draw, {**sizes, "batch": Size(1, ())} if "all_patch_size" in config else sizes)
