"""Functions of transformers that decide or go over images one by one, replaced while a model is captured.

`vision_grids`, `tiled_images` and `packed_images` give the same for all images at once, without a loop that has as many
passes as there are images, `audio_windows` for all recordings, `same_padding` and `audio_padding` for all sizes:
without decisions. As for rotary positions, only functions whose source is one of those that it was compared with are
replaced.

Checked on transformers 5.24.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from opbridge.base.attributes import replacing
from opbridge.model_support.fingerprints import fingerprint
from opbridge.model_support.transformers import (
    audio_padding,
    audio_windows,
    packed_images,
    same_padding,
    tiled_images,
    vision_grids,
)

__all__ = ["known", "without_decisions"]


@dataclass(frozen=True)
class _Known:
    """A function that is known.

    Attributes:
        source: What tells its source from others.
        compute: What is computed in its place, of its arguments by name; None where they are not of the usual form.
        computed_before: The keys of its argument `kwargs` under which its user may give what it computes.
        of: Of a method, what the name of its class ends with.
        uses: Functions of its module that are among the arguments too, by their names there.
        decorators: What its module has put around it, by their names there, the innermost first.
    """

    source: str
    compute: Callable[[Mapping[str, Any]], Any]
    computed_before: tuple[str, ...] = ()
    of: str = ""
    uses: tuple[str, ...] = ()
    decorators: tuple[str, ...] = ()


@contextlib.contextmanager
def without_decisions(module: torch.nn.Module) -> Iterator[None]:
    """Within this context, the functions that are known do not decide, in the modules of a model's classes.

    In a module that has imported or defined such a function, its name stands for the other one meanwhile. So it is in
    a class that has such a method.
    """
    kinds = {kind for each in module.modules() for kind in type(each).__mro__}
    places = [*kinds, *filter(None, (sys.modules.get(path) for path in {kind.__module__ for kind in kinds}))]
    with replacing(*(found for place in places for found in _replaced(place))):
        yield


def _replaced(place: Any) -> Iterator[tuple[Any, str, Any]]:
    """A module or a class, the name of each function of its own that is known, and what computes the same."""
    for name in _KNOWN:
        if (computed := known(vars(place).get(name))) is not None:
            yield place, name, computed


def known(function: Any) -> Callable[..., Any] | None:
    """What computes the same without decisions; None for a function that is not known."""
    if type(function) is not types.FunctionType:
        return None
    ways = _KNOWN.get(function.__name__, ())
    owner = function.__qualname__.rpartition(".")[0]
    plain = inspect.unwrap(function)
    found = next((each for each in ways if owner.endswith(each.of) and each.source == fingerprint(plain)), None)
    if found is None or (plain is not function) != bool(found.decorators):
        return None
    return _following(plain, found)


@functools.cache
def _following(original: Callable[..., Any], known: _Known) -> Callable[..., Any]:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def computed(*args: Any, **settings: Any) -> Any:
        given = signature.bind(*args, **settings)
        given.apply_defaults()
        is_computed = (given.arguments.get("kwargs") or {}).keys().isdisjoint(known.computed_before)
        used = {name: original.__globals__[name] for name in known.uses}
        found = known.compute({**given.arguments, **used}) if is_computed else None
        return original(*args, **settings) if found is None else found

    decorated: Callable[..., Any] = computed
    for name in known.decorators:
        decorated = original.__globals__[name](decorated)
    return decorated


def _is_grid(value: Any, sides: int) -> bool:
    """Whether a value is a tensor of integers with a row of sides for each grid."""
    usual = isinstance(value, torch.Tensor) and value.dim() == 2 and value.dtype in (torch.int32, torch.int64)
    return usual and isinstance(value.shape[1], int) and value.shape[1] == sides


def _positions(named: Mapping[str, Any]) -> torch.Tensor | None:
    grids, side = named["grid_thw"], named["spatial_merge_size"]
    is_number = type(side) is int
    if not _is_grid(grids, 3) or not (is_number or (isinstance(side, torch.Tensor) and side.dim() == 1)):
        return None
    if not is_number:
        torch._check(side.shape[0] == grids.shape[0], lambda: "spatial_merge_size is not as long as grid_thw")
    return vision_grids.positions_in_blocks(grids, side, with_frames=named["include_temporal"])


def _windows(named: Mapping[str, Any]) -> tuple[torch.Tensor, torch.Tensor] | None:
    grids, merged = named["grid_thw"], named["spatial_merge_size"]
    numbers = (merged, named["window_size"], named["patch_size"])
    if not _is_grid(grids, 3) or not all(type(each) is int and each > 0 for each in numbers):
        return None
    side = named["window_size"] // merged // named["patch_size"]
    return vision_grids.windows(grids, merged, side) if side else None


def _nearest(named: Mapping[str, Any]) -> torch.Tensor | None:
    sizes, side = named["target_sizes"], named["num_patches_per_side"]
    return vision_grids.nearest_positions(sizes, side) if _is_grid(sizes, 2) and type(side) is int else None


_KNOWN: dict[str, tuple[_Known, ...]] = {
    "apply_tf_padding": (
        _Known("8bcc3cdeaf8c7bad", same_padding.padded),  # MobileNetV1
        _Known("dce6f91828f20fa5", same_padding.padded_with_dilation),  # MobileNetV2
    ),
    "get_audio_cu_seqlens": (
        _Known("c48b2284e01eba2c", audio_windows.bounds, ("cu_seqlens",), uses=(audio_windows.LENGTHS,)),
    ),
    "forward": (
        _Known(
            "954ad0a6ced5d737",
            packed_images.encoded,
            of="PixtralVisionModel",
            decorators=("capture_outputs", "merge_with_config_defaults"),
        ),
        _Known("b5532c78eb5e27a6", audio_padding.convolved, of="EncodecConv1d"),
        _Known("47f1c3652c38cb22", packed_images.merged, of="PatchMerger"),  # Mistral 3, LightOnOCR
    ),
    "get_vision_position_ids": (_Known("d0bbfb2a51be25ad", _positions, ("position_ids",)),),
    "get_vision_window_index": (_Known("1ceab1c7ae78d3d2", _windows, ("window_index", "cu_window_seqlens")),),
    "get_vision_nearest_position_ids": (_Known("b28e499cf51fddc6", _nearest, ("position_ids",)),),
    "select_best_resolution": (_Known("731c630334a545f3", tiled_images.resolution),),
    "image_size_to_num_patches": (_Known("a0e13448024e5b02", tiled_images.count),),
    "pack_image_features": (
        _Known("99de80f91fdddb5d", tiled_images.packed),  # LLaVA-NeXT, for videos too
        _Known("c815e70b600bfc5a", tiled_images.packed_and_scaled),  # LLaVA-OneVision
        _Known("c1d71430a29b8e33", tiled_images.packed_and_projected),  # Granite 4 Vision
    ),
}
