"""Vectors whose sign PyTorch's definition leaves open: eigenvectors of symmetric matrices, and singular vectors.

With its sign changed, or multiplied by a complex number of length 1, such a vector is one as well; of two singular
vectors that belong together, both change. Which one an operator gives depends on the LAPACK that PyTorch was built
with. Vectors of equal values, and several beyond the smaller dimension, are open in more than their sign: a runtime's
are then no vectors of PyTorch's, and differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import Node

from opbridge.graph.operators import functional_operator_of

__all__ = ["SIGNED", "has_free_signs", "with_signs_of"]

_ROWS, _COLUMNS = -2, -1
SIGNED: dict[str, tuple[tuple[int, int], ...]] = {
    "aten::linalg_eigh": ((1, _COLUMNS),),
    "aten::_linalg_eigh": ((1, _COLUMNS),),
    "aten::linalg_svd": ((0, _COLUMNS), (2, _ROWS)),
    "aten::_linalg_svd": ((0, _COLUMNS), (2, _ROWS)),
    "aten::svd": ((0, _COLUMNS), (2, _COLUMNS)),
}
"""For each operator its outputs that are vectors, each with the dimension that counts them."""

_SAME = 0.9
"""The least cosine between two vectors that are the same but for their sign."""


def has_free_signs(node: Node) -> bool:
    """Whether a node's operator gives vectors whose sign is open."""
    return node.op == "call_function" and functional_operator_of(node) in SIGNED


def with_signs_of(node: Node, result: Any, actual: Mapping[str, torch.Tensor]) -> Any:
    """PyTorch's result, whose vectors have the signs of a runtime's.

    Args:
        node: A node of which `has_free_signs` holds.
        result: PyTorch's result.
        actual: The runtime's values, by "node:output".

    Returns:
        None where the signs are the same, or the runtime's values are no such vectors.
    """
    vectors = SIGNED[functional_operator_of(node)]
    if not isinstance(result, (tuple, list)) or len(result) <= max(place for place, _ in vectors):
        return None
    found = {
        place: _factors(result[place], other, counting)
        for place, counting in vectors
        if (other := actual.get(f"{node.name}:{place}")) is not None  # the file may have one of them alone
    }
    of_pairs = next((each for each in found.values() if each is not None), None)
    if of_pairs is None or all(each is None or bool((each == 1).all()) for each in found.values()):
        return None
    count = min(result[place].shape[counting] for place, counting in vectors)
    changed = list(result)
    for place, counting in vectors:
        factors, own = of_pairs[..., :count], found.get(place)
        if own is not None:  # those beyond the smaller dimension belong to no other vector
            factors = torch.cat([factors, own[..., count:]], -1)
        changed[place] = _multiplied(changed[place], factors, counting)
    return tuple(changed)


def _factors(own: torch.Tensor, other: torch.Tensor, counting: int) -> torch.Tensor | None:
    """What each vector is multiplied by to become another one; 1 where it does not. Rows count as their conjugates."""
    if own.shape != other.shape or own.dtype != other.dtype or not own.numel():
        return None
    cosines = (own.conj() * other).sum(_ROWS if counting == _COLUMNS else _COLUMNS)
    is_same = cosines.abs() >= _SAME
    factors = torch.where(is_same, torch.sgn(cosines), torch.ones_like(cosines))
    return factors if counting == _COLUMNS else factors.conj()


def _multiplied(vectors: torch.Tensor, factors: torch.Tensor, counting: int) -> torch.Tensor:
    """The first vectors, as many as there are factors, each times its factor; and the others."""
    count = factors.shape[-1]
    given = factors.unsqueeze(_ROWS) if counting == _COLUMNS else factors.conj().unsqueeze(_COLUMNS)
    rest = vectors.narrow(counting, count, vectors.shape[counting] - count)
    return torch.cat([vectors.narrow(counting, 0, count) * given, rest], counting)
