"""The outputs of a model that depend on random numbers, which no run has in common with another, but for a seed.

ONNX Runtime draws the same numbers for the same seed, in whatever type a model computes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from opbridge.precision.types import bodies
from opbridge.side_by_side import draws

__all__ = ["drawn_outputs", "give_seeds", "is_alike"]


def drawn_outputs(model: ir.Model) -> frozenset[str]:
    """The names of the outputs that depend on random numbers.

    Args:
        model: The model, without functions, its nodes in order.
    """
    drawn: set[ir.Value] = set()
    _follow(model.graph, drawn)
    return frozenset(value.name or "" for value in model.graph.outputs if value in drawn)


def give_seeds(model: ir.Model) -> None:
    """Gives the nodes that draw random numbers a seed, in place: the same to the same nodes of a copy, cast or not.

    Args:
        model: The model, without functions.
    """
    for seed, node in enumerate((each for each in model.graph.all_nodes() if draws(each)), 1):
        is_whole = node.op_type == "Dropout"  # the seeds of other operators are floating numbers
        node.attributes["seed"] = ir.AttrInt64("seed", seed) if is_whole else ir.AttrFloat32("seed", float(seed))


def is_alike(want: Any, have: Any) -> bool:
    """Whether an output of random numbers may be one of the same model: by its rank, and as finite as the other.

    Args:
        want: What float32 gives.
        have: What the other model gives.
    """
    if not isinstance(want, np.ndarray) or not isinstance(have, np.ndarray):
        return type(want) is type(have)
    if want.ndim != have.ndim:
        return False
    if want.dtype.kind != "f":
        return True
    return not np.isfinite(want).all() or bool(np.isfinite(have.astype(np.float32)).all())


def _follow(graph: ir.Graph, drawn: set[ir.Value]) -> bool:
    """Adds the values of a graph that depend on random numbers; whether one of its nodes does."""
    found = False
    for node in graph:
        depends = draws(node) or any(value in drawn for value in node.inputs if value is not None)
        for body in bodies(node):
            if depends:
                drawn.update(body.inputs)
            depends = _follow(body, drawn) or any(value in drawn for value in body.outputs) or depends
        if depends:
            drawn.update(node.outputs)
            found = True
    return found
