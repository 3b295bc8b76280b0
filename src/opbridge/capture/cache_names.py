"""The names of the tensors of caches among the inputs and outputs, as the field's other exporters have
them: `past_key_values.0.key`, `present.0.key`, `past_key_values.0.decoder.key`, `past_conv.0`."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from opbridge.errors import UsageError
from opbridge.graph.captured_graph import CapturedGraph
from opbridge.model_support import caches

__all__ = ["check_caches", "input_names_of_caches", "name_caches"]


def input_names_of_caches(module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[int, str]:
    """The names of the inputs that are tensors of caches, by their number among the leaves of `(args, kwargs)`."""
    positional = inspect.signature(module.forward).bind_partial(*args).arguments
    paths, _ = pytree.tree_flatten_with_path({**positional, **kwargs})
    found = {}
    for number, (path, _) in enumerate(paths):
        part = caches.part_of(path)
        if part is not None:
            before = [str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key)))) for key in path[:-1]]
            prefix = [*before[:-1], *(caches.prefix_of(path, name) for name in before[-1:])]
            found[number] = part.name(".".join(prefix), "past")
    return found


def name_caches(graph: CapturedGraph, inputs: Mapping[int, str]) -> None:
    """Gives the inputs and outputs of a graph that are tensors of caches their names.

    Args:
        graph: The graph, which changes.
        inputs: The names of inputs, from `input_names_of_caches`.
    """
    outputs = {} if graph.structure is None else caches.output_names(graph.structure)
    if inputs:
        graph.inputs = tuple(
            dataclasses.replace(leaf, name=inputs.get(number, leaf.name)) for number, leaf in enumerate(graph.inputs)
        )
    if outputs:
        graph.outputs = tuple(
            dataclasses.replace(leaf, name=outputs.get(number, leaf.name)) for number, leaf in enumerate(graph.outputs)
        )


def check_caches(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    """Checks that the tensors of the caches among the inputs say all that the model reads from them.

    Returns:
        Notes on what becomes of them.

    Raises:
        UsageError: One holds a number that decides, such as how many tokens it has seen.
    """
    found = [each for each in pytree.tree_leaves((args, kwargs), is_leaf=caches.is_cache) if caches.is_cache(each)]
    notes: list[str] = []
    for cache in found:
        hidden = caches.refusal(cache)
        if hidden:
            raise UsageError(
                f"The {type(cache).__name__} among the inputs cannot be an input of an ONNX model: {hidden}."
            )
        notes += caches.notes(cache)
    return tuple(notes)
