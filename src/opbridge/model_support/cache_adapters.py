"""What tells opbridge how to take tensors out of a package's caches, and how to put others in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

__all__ = ["CacheAdapter", "Part"]


@dataclass(frozen=True)
class Part:
    """One tensor of a cache.

    Attributes:
        layer: The number of its layer.
        role: What it is: "key", "value", "conv", "recurrent", "length", ...
        group: "decoder" or "encoder" in an encoder-decoder cache; else "".
        number: The number of a state, where a layer may have several.
        attribute: Its attribute in the layer.
        grows: The dimension that is one longer for each token; None where there is none.
        batch: The dimension that is the batch; None where there is none.
        place: As the end of a Python expression: `.layers[0].keys`.
        is_state: Whether it is a state, which a token changes as a whole.
    """

    layer: int
    role: str
    group: str
    number: int | None
    attribute: str
    grows: int | None
    batch: int | None
    place: str
    is_state: bool

    def name(self, prefix: str, state_prefix: str) -> str:
        """Its name as an input or output of an ONNX model, as optimum and transformers.js name them.

        Args:
            prefix: "past_key_values" or "present": `past_key_values.0.key`, `present.0.decoder.key`.
            state_prefix: "past" or "present": `past_conv.0`.
        """
        if self.is_state:
            suffix = f".{self.number}" if self.number else ""
            return f"{state_prefix}_{self.role}.{self.layer}{suffix}"
        group = f".{self.group}" if self.group else ""
        return f"{prefix}.{self.layer}{group}.{self.role}"


def _nothing(cache: Any) -> tuple[str, ...]:
    return ()


def _itself(cache: Any) -> Any:
    return cache


def _taken(cache: Any) -> str:
    return ""


@dataclass(frozen=True, eq=False, kw_only=True)
class CacheAdapter:
    """Caches of a package as containers of tensors.

    Attributes:
        is_class: Whether a class is one of these caches.
        parts: The tensors of a cache, in order, and what each of them is.
        with_tensors: A cache like another one, which stays as it is, with other tensors for its parts. The cache may
            hold others by now than when these were its parts.
        structure: What else tells a cache from others of its class with the same parts, as a value to compare.
        refusal: Why a cache cannot be an input; "" for one that can.
        notes: What to say of a cache among the inputs.
        whole: A cache as a file takes it, where tensors of this one leave something out; it stays as it is.
        parameter: The parameter of the package's models that takes a cache; "" where there is no usual one.
        earlier_parameters: What it was called in earlier releases: what is given under these names is taken for it, and
            the first of them is what the names of tensors in a file begin with.
    """

    is_class: Callable[[type], bool]
    parts: Callable[[Any], Iterable[tuple[Part, torch.Tensor]]]
    with_tensors: Callable[[Any, Sequence[tuple[Part, torch.Tensor]]], Any]
    structure: Callable[[Any], Any] = _nothing
    refusal: Callable[[Any], str] = _taken
    notes: Callable[[Any], tuple[str, ...]] = _nothing
    whole: Callable[[Any], Any] = _itself
    parameter: str = ""
    earlier_parameters: tuple[str, ...] = ()
