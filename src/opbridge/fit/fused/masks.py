"""What a mask is proved to hide: the tokens after a query, those before a window, and padding."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from opbridge.fit.fused.elements import Elements, Linear, Truth, Unknown, axis

__all__ = ["Visible", "visible"]

_BATCH, _QUERY, _KEY = axis(0), axis(2), axis(3)


@dataclass(frozen=True)
class Visible:
    """Which keys of a contiguous cache a query sees: those up to itself, and of them

    Attributes:
        window: As many as this, itself among them; None: all.
        padding: The input that is 0 for those that are padding, [batch, keys]; None: there is none.
    """

    window: int | None = None
    padding: str | None = None


def visible(elements: Elements, mask: ir.Value, past: Linear) -> Visible | None:
    """What a mask of attention, [batch or 1, heads or 1, queries, keys], lets a query see; None: it is not proved.

    Args:
        elements: The elements of the model.
        mask: Truth values, or numbers that are added: 0, or the lowest one of the type.
        past: The number of keys before the first query.
    """
    try:
        found = elements.broadcast(mask, (axis(0), axis(1), _QUERY, _KEY))
    except Unknown:
        return None
    if isinstance(found, tuple) and found[0] == "choose" and _hides(found[2], found[3], mask.dtype):
        found = found[1]
    if not isinstance(found, Truth):
        return None
    window: int | None = None
    padding: str | None = None
    is_causal = False
    distance = _QUERY.plus(past).plus(_KEY, -1)
    for atom in found.atoms:
        if atom[0] == "at least 0" and atom[1] == distance:
            is_causal = True
        elif atom[0] == "at least 0" and not (rest := atom[1].plus(distance)).terms and rest.number >= 0:
            window = rest.number + 1 if window is None else min(window, rest.number + 1)
        elif (name := _padding_of(atom)) is not None and padding in (None, name):
            padding = name
        else:
            return None
    return Visible(window, padding) if is_causal else None


def _hides(shown: object, hidden: object, dtype: ir.DataType | None) -> bool:
    """Whether numbers that are added to scores leave those of the keys that are seen, and hide the others."""
    if shown != ("number", 0.0) or not isinstance(hidden, tuple) or hidden[0] != "number" or dtype is None:
        return False
    return bool(hidden[1] == float("-inf") or hidden[1] == float(dtype.min))


def _padding_of(atom: tuple[object, ...]) -> str | None:
    """The name of the input whose element for the key of a text an atom asks for not being 0."""
    if atom[0] != "nonzero" or not isinstance(atom[1], Linear) or atom[1].number or len(atom[1].terms) != 1:
        return None
    ((found, count),) = atom[1].terms
    return str(found[1]) if count == 1 and found[0] == "input" and found[2:] == (_BATCH, _KEY) else None
