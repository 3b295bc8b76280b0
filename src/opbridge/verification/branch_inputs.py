"""Inputs that may take another branch of a model's decisions than the example does.

They are tried in this order:

1. Sizes that are known to take another branch of a decision on sizes.
2. Fresh values like the example's, with other seeds.
3. Every input changed in one way: floats negated, scaled, shifted or constant, masks all true or all false, integers
   all at the smallest or the largest of the example's. Then each input alone.
4. Other sizes of dynamic dimensions, the empty ones among them.
5. Random values of several scales and offsets, of the example's sizes and of others.

Inputs whose values have to be in order, or of a domain (`opbridge.verification.domains`), keep to it: they are drawn as
fresh values are.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from opbridge.verification.fresh_inputs import Kind, fresh_inputs, kind_of

if TYPE_CHECKING:
    from opbridge.verification.dynamic_sizes import DynamicSizes

__all__ = ["Inputs", "branch_inputs"]

Inputs = tuple[str, tuple[Any, ...], dict[str, Any]]
"""What was changed, in words, and the positional and keyword inputs."""

_SEED = 3000
_FRESH = 2
_RANDOM = 64
_MOST_ELEMENTS = 1 << 24
"""The most elements that inputs have together, as a decision on sizes may have its other branch where none is small."""
_CHANGES: dict[str, dict[str, Callable[[torch.Tensor], torch.Tensor]]] = {
    "floats": {
        "negated": torch.neg,
        "10 times": lambda x: x * 10,
        "0.01 times": lambda x: x * 0.01,
        "centred": lambda x: x - x.mean(),
        "shifted up": lambda x: x + 1 + x.abs().max(),
        "shifted down": lambda x: x - 1 - x.abs().max(),
        "-100 times": lambda x: x * -100,
        "all 0": torch.zeros_like,
        "all 1": torch.ones_like,
        "all -1": lambda x: -torch.ones_like(x),
        "with a NaN": lambda x: _with_first(x, float("nan")),
        "with an infinity": lambda x: _with_first(x, float("inf")),
    },
    "masks": {
        "all true": torch.ones_like,
        "all false": torch.zeros_like,
        "inverted": torch.logical_not,
    },
    "integers": {
        "all at the smallest": lambda x: x.min().expand_as(x).clone(),
        "all at the largest": lambda x: x.max().expand_as(x).clone(),
        "all 0": torch.zeros_like,
        "all 1": torch.ones_like,
        "reversed": lambda x: x.flip(-1) if x.dim() else x.clone(),
    },
}


def branch_inputs(
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    seed: int,
    *,
    kept: Container[int],
    sizes: DynamicSizes,
    names: Mapping[int, str],
) -> Iterator[Inputs]:
    """Inputs in the structure of the example's, to be tried until every branch is taken.

    Args:
        args: The example's positional inputs.
        kwargs: The example's keyword inputs.
        seed: The same seed gives the same values.
        kept: The positions of leaves that are not changed.
        sizes: The dynamic dimensions.
        names: What the inputs are called, by position.
    """
    leaves, structure = pytree.tree_flatten((args, dict(kwargs)))

    def with_leaves(label: str, changed: Mapping[int, Any]) -> Inputs:
        found = [changed.get(position, leaf) for position, leaf in enumerate(leaves)]
        return (label, *pytree.tree_unflatten(found, structure))

    for number, each in enumerate(sizes.of_branches):
        if each != sizes.example and sizes.elements(each) <= _MOST_ELEMENTS:
            yield (sizes.label(each), *_of_sizes(args, kwargs, seed + _SEED + 50 + number, kept, sizes, each))
    for number in range(_FRESH):
        yield (f"fresh {number + 101}", *fresh_inputs(args, kwargs, seed + _SEED + number, kept=kept))
    families = {
        position: family
        for position, leaf in enumerate(leaves)
        if position not in kept and (family := _family(leaf)) is not None
    }
    for label in dict.fromkeys(name for family in families.values() for name in _CHANGES[family]):
        yield with_leaves(label, _changed(label, families, leaves))
    if len(families) > 1:
        for position, family in families.items():
            for label in _CHANGES[family]:
                changed = _changed(label, {position: family}, leaves)
                yield with_leaves(f"{names.get(position, f'input {position}')} {label}", changed)
    chosen = [sizes.example, *_other_sizes(sizes)]
    for number, each in enumerate(chosen[1:]):
        yield (sizes.label(each), *_of_sizes(args, kwargs, seed + _SEED + 100 + number, kept, sizes, each))
    for number in range(_RANDOM):
        each = chosen[number % len(chosen)]
        fresh = _of_sizes(args, kwargs, seed + _SEED + 200 + number, kept, sizes, each)
        generator = torch.Generator().manual_seed(seed + _SEED + number)
        drawn = pytree.tree_leaves(fresh)
        values = {position: _random(drawn[position], family, generator) for position, family in families.items()}
        found = [values.get(position, leaf) for position, leaf in enumerate(drawn)]
        yield (f"random {number + 1}", *pytree.tree_unflatten(found, structure))


def _with_first(values: torch.Tensor, number: float) -> torch.Tensor:
    values = values.contiguous()
    values.view(-1)[0] = number
    return values


def _family(leaf: Any) -> str | None:
    """How the values of an input may be changed; None where they are to stay as they are."""
    if not isinstance(leaf, torch.Tensor) or leaf.layout != torch.strided or leaf.is_quantized or not leaf.numel():
        return None
    if leaf.dtype == torch.bool:
        return "masks"
    kind = kind_of(leaf)
    if leaf.is_floating_point():
        return "floats" if kind in (Kind.REAL, Kind.WHOLE, Kind.CONSTANT, Kind.SHUFFLED) else None
    return "integers" if kind in (Kind.WHOLE, Kind.CONSTANT, Kind.SHUFFLED) and not leaf.is_complex() else None


def _changed(label: str, families: Mapping[int, str], leaves: list[Any]) -> dict[int, Any]:
    found = {}
    for position, family in families.items():
        change = _CHANGES[family].get(label)
        if change is not None:
            found[position] = change(leaves[position].detach().clone()).to(leaves[position].dtype)
    return found


def _other_sizes(sizes: DynamicSizes) -> list[dict[str, int]]:
    """Sizes of dynamic dimensions: those of the verification, and each dimension alone at 0, 1, 2 and more."""
    found = [each for group in sizes.groups() for each in group]
    for symbol, size in sizes.example.items():
        found += [{**sizes.example, symbol: each} for each in (0, 1, 2, size + 1, 4 * size + 1)]
    return [
        each
        for number, each in enumerate(found)
        if each != sizes.example and each not in found[:number] and _are_allowed(sizes, each)
    ]


def _are_allowed(sizes: DynamicSizes, chosen: Mapping[str, int]) -> bool:
    for symbol, size in chosen.items():
        least, greatest = sizes.ranges.get(symbol, (1, None))
        if size < least or (greatest is not None and size > greatest):
            return False
    return sizes.elements(chosen) <= _MOST_ELEMENTS and sizes.broken_condition(chosen) is None


def _of_sizes(
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    seed: int,
    kept: Container[int],
    sizes: DynamicSizes,
    chosen: Mapping[str, int],
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if chosen == sizes.example:
        return fresh_inputs(args, kwargs, seed, kept=kept)
    return fresh_inputs(args, kwargs, seed, shapes=sizes.shapes(chosen), numbers=sizes.values(chosen), kept=kept)


def _random(value: torch.Tensor, family: str, generator: torch.Generator) -> torch.Tensor:
    """Random values of a random kind."""

    def number() -> float:
        return float(torch.rand((), generator=generator))

    if family == "masks":
        return (torch.rand(value.shape, generator=generator) < number()).to(value.device)
    if family == "integers":
        return value
    scale = 10 ** (4 * number() - 2)
    drawn = torch.randn(value.shape, generator=generator) * number() + 2 * number() - 1
    return (drawn * scale).to(value.device, value.dtype)
