"""The functions of transformers that compute indices grid by grid, replaced while a model is captured.

`vision_grids` gives the same for all grids at once, without a loop that has as many passes as there are images. As for
rotary positions, only functions whose source is one of those that it was compared with are replaced.

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
from opbridge.base.transformers_private import vision_grids
from opbridge.base.transformers_private.rotary_functions import fingerprint

__all__ = ["computing_grids_at_once", "known"]

_MODULE = "transformers.vision_utils"


@dataclass(frozen=True)
class _Known:
    """A function that is known.

    Attributes:
        source: What tells its source from others.
        computed_before: The keys of its argument `kwargs` under which its user may give what it computes.
        compute: What is computed in its place, of its arguments by name; None where they are not of the usual form.
    """

    source: str
    computed_before: tuple[str, ...]
    compute: Callable[[Mapping[str, Any]], Any]


@contextlib.contextmanager
def computing_grids_at_once(module: torch.nn.Module) -> Iterator[None]:
    """Within this context, the functions that are known compute all grids at once, in the modules of a model's classes.

    In a module that has imported such a function, its name stands for the other one meanwhile.
    """
    defined = sys.modules.get(_MODULE)
    places = {sys.modules.get(kind.__module__) for kind in {type(each) for each in module.modules()}}
    replaced: list[tuple[Any, str, Any]] = []
    for name in _KNOWN:
        original = getattr(defined, name, None)
        if original is None or (computed := known(original)) is None:
            continue
        replaced += [(each, name, computed) for each in places if each and vars(each).get(name) is original]
    with replacing(*replaced):
        yield


def known(function: Any) -> Callable[..., Any] | None:
    """What computes the same for all grids at once; None for a function that is not known."""
    if type(function) is not types.FunctionType or hasattr(function, "__wrapped__"):
        return None
    found = _KNOWN.get(function.__name__)
    return None if found is None or fingerprint(function) != found.source else _following(function, found)


@functools.cache
def _following(original: Callable[..., Any], known: _Known) -> Callable[..., Any]:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def at_once(*args: Any, **settings: Any) -> Any:
        given = signature.bind(*args, **settings)
        given.apply_defaults()
        is_computed = (given.arguments["kwargs"] or {}).keys().isdisjoint(known.computed_before)
        found = known.compute(given.arguments) if is_computed else None
        return original(*args, **settings) if found is None else found

    return at_once


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


_KNOWN = {
    "get_vision_position_ids": _Known("d0bbfb2a51be25ad", ("position_ids",), _positions),
    "get_vision_window_index": _Known("1ceab1c7ae78d3d2", ("window_index", "cu_window_seqlens"), _windows),
    "get_vision_nearest_position_ids": _Known("b28e499cf51fddc6", ("position_ids",), _nearest),
}
