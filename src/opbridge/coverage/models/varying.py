"""Cases of models whose inputs are drawn for given sizes: what is dynamic follows from what the sizes change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import Dim

from opbridge.coverage.models.entries import Case, Inputs
from opbridge.model_support import caches

__all__ = ["Size", "runs", "vary"]

Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Size:
    """A size of the inputs that a model's users vary.

    Attributes:
        example: Its value when the model is exported.
        others: Values to compare on. None, where the model takes no other.
    """

    example: int
    others: tuple[int, ...]


def vary(
    model: torch.nn.Module,
    draw: Callable[..., Inputs],
    sizes: Mapping[str, Size],
    batch: str | None = "batch",
    multiples: bool = False,
) -> Case:
    """The case of a model.

    Args:
        model: The model; it is set to evaluation mode.
        draw: Draws inputs for sizes that it takes by name, with random values. It gives the same structure for all.
        sizes: The sizes, by those names.
        batch: The one of them that "batch" varies; "all" varies all of them, be it the batch alone. None, or one that
            is not in `sizes`: the model has no batch.
        multiples: Whether a dimension that is always a multiple of a size is asked for as such, as `8 * Dim("height")`
            is for a network that halves an image three times; else it has a name of its own.
    """
    example = {name: size.example for name, size in sizes.items()}
    varied = [name for name, size in sizes.items() if size.others]
    kinds = {"all": varied} if varied else {}
    if batch in varied:
        kinds["batch"] = [batch]
    others: dict[str, Sequence[Inputs]] = {"none": [draw(**example)]}
    for kind, names in kinds.items():
        others[kind] = [draw(**example | changed) for changed in _changes(sizes, names)]
    return Case(
        model.eval(),
        draw(**example),
        {kind: _shapes(draw, sizes, example, names, multiples) for kind, names in kinds.items() if names},
        {kind: inputs for kind, inputs in others.items() if inputs},
    )


def runs(model: torch.nn.Module, inputs: Inputs) -> bool:
    """Whether a model runs on inputs: not all models take images of all sizes."""
    try:
        with torch.no_grad():
            model.eval()(*inputs.args, **inputs.kwargs)
    except Exception:  # whatever it is, these inputs are not for this model
        return False
    return True


def _changes(sizes: Mapping[str, Size], names: Sequence[str]) -> Iterator[dict[str, int]]:
    """Other values of these sizes, as many as the one that has most of them has."""
    count = max((len(sizes[name].others) for name in names), default=0)
    for i in range(count):
        yield {name: sizes[name].others[i % len(sizes[name].others)] for name in names}


def _shapes(
    draw: Callable[..., Inputs], sizes: Mapping[str, Size], example: Sizes, names: Sequence[str], multiples: bool
) -> Any:
    """`dynamic_shapes` where these sizes are dynamic: by parameter name, or by position where there are no names."""
    base = draw(**example)
    others = {name: sizes[name].others[-1] for name in names}
    changed = {name: draw(**{**example, name: other}) for name, other in others.items()}
    namer = _Namer(example, others, multiples)
    for _ in range(2):  # the first time to learn which sizes are dimensions themselves
        if base.kwargs:
            shapes: Any = {
                key: _dimensions(value, namer, {name: inputs.kwargs[key] for name, inputs in changed.items()})
                for key, value in base.kwargs.items()
            }
        else:
            shapes = tuple(
                _dimensions(value, namer, {name: inputs.args[i] for name, inputs in changed.items()})
                for i, value in enumerate(base.args)
            )
    return shapes


class _Namer:
    """What a dynamic dimension is called.

    Args:
        example: The sizes in the example.
        others: Another value of each size that varies.
        multiples: As for `vary`.
    """

    def __init__(self, example: Sizes, others: Sizes, multiples: bool) -> None:
        self._example, self._others, self._multiples = example, others, multiples
        self._plain: set[str] = set()

    def dimension(self, size: int, changed: Mapping[str, int]) -> Any:
        """The name of the size that a dimension is; one that only follows from sizes has its own name.

        Of multiples, a multiple of a Dim, where no dimension is that size itself. Where one is, a sum: the mask of a
        token after a cache has "past + 1" elements.

        Args:
            size: The dimension in the example.
            changed: The dimension for each size that changes it, with the other value of that size.
        """
        name, *more = changed
        if not more and size == self._example[name]:
            self._plain.add(name)
            return name
        factor, rest = divmod(size, self._example[name])
        is_multiple = not rest and changed[name] == factor * self._others[name]
        if self._multiples and not more and is_multiple and name not in self._plain:
            return factor * Dim(name)
        more_by = size - self._example[name]
        if not more and name in self._plain and more_by > 0 and changed[name] == self._others[name] + more_by:
            return f"{name} + {more_by}"
        return f"{'_'.join(changed)}_{size}"


def _dimensions(value: Any, namer: _Namer, changed: Mapping[str, Any]) -> Any:
    """The dynamic dimensions of a value, by how it changes with each size: a dict for a tensor.

    A dict stands for every tensor of a cache, whose tensors have the same dynamic dimensions.
    """
    if isinstance(value, torch.Tensor):
        return _tensor_dimensions(value, namer, changed) or None
    if type(value) is int:
        return Dim.DYNAMIC if any(other != value for other in changed.values()) else None
    if isinstance(value, list | tuple):
        return type(value)(
            _dimensions(part, namer, {name: other[i] for name, other in changed.items()})
            for i, part in enumerate(value)
        )
    if isinstance(value, Mapping):
        return {
            key: _dimensions(part, namer, {n: other[key] for n, other in changed.items()})
            for key, part in value.items()
        }
    return _cache_dimensions(value, namer, changed)


def _cache_dimensions(value: Any, namer: _Namer, changed: Mapping[str, Any]) -> dict[int, Any] | None:
    """The dynamic dimensions of the keys of a cache's layer of attention that changes with most sizes.

    A cache without such layers has the dimensions of its states, which are their batches.
    """
    keys = _keys(value)
    others = {name: _keys(other) for name, other in changed.items()}
    found = [
        _tensor_dimensions(each, namer, {name: of_other[i] for name, of_other in others.items()})
        for i, each in enumerate(keys)
    ]
    return max(found, key=len, default=None)


def _keys(cache: Any) -> list[torch.Tensor]:
    """The keys of a cache's layers of attention, as an exported model takes them, or its states if it has no keys."""
    if caches.is_cache(cache):
        parts = list(caches.parts(caches.of_all_tokens(cache)))
        keys = [tensor for part, tensor in parts if part.role == "key"]
        return keys or [tensor for part, tensor in parts if part.role in ("conv", "recurrent")]
    return [
        layer.keys for layer in getattr(cache, "layers", ()) if isinstance(getattr(layer, "keys", None), torch.Tensor)
    ]


def _tensor_dimensions(value: torch.Tensor, namer: _Namer, changed: Mapping[str, torch.Tensor]) -> dict[int, Any]:
    """The dimensions that change, by what they are called."""
    found = {}
    for dim, size in enumerate(value.shape):
        others = {name: other.shape[dim] for name, other in changed.items() if other.shape[dim] != size}
        if others:
            found[dim] = namer.dimension(size, others)
    return found
