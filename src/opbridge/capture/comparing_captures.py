"""Whether a capture gives what the model gives, for the example and for other sizes."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from opbridge.base.torch_private import torch_tracing
from opbridge.capture import fixed_sizes, other_branches
from opbridge.capture.assumptions import Assumptions
from opbridge.capture.captured import Captured
from opbridge.capture.dynamic_shapes import Shapes
from opbridge.capture.model_state import ModelState
from opbridge.capture.session import CaptureSession
from opbridge.capture.side_effects import SideEffects, keeping_random_state
from opbridge.capture.tracer.writes import written_by
from opbridge.graph.captured_graph import CapturedGraph
from opbridge.graph.open_lists import open_lists, with_open_lists

__all__ = ["agrees", "differs_on_example", "is_model", "written_out"]


def differs_on_example(session: CaptureSession, captured: Captured) -> bool:
    """Whether a capture of a larger example does not give what the model gives for the sizes of the example itself."""
    graph = written_out(captured)
    leaves, structure = pytree.tree_flatten((session.call.args, session.call.kwargs))
    return any(
        _gives_same(session, captured.assumptions, graph, values, structure) is False
        for values in (leaves, other_branches.of_other_values(leaves))
    )


def is_model(session: CaptureSession, captured: Captured, example: Shapes, others: Shapes) -> bool:
    """Whether a capture gives what the model gives on the example, on one of twice its sizes, and on one of others.

    Where the others are so large that the model cannot be run on them, it is not said to be.

    Args:
        session: The model.
        captured: The capture.
        example: The dynamic shapes of the example.
        others: Those of the other sizes.
    """
    graph, assumptions = written_out(captured), captured.assumptions
    leaves, structure = pytree.tree_flatten((session.call.args, session.call.kwargs))
    if fixed_sizes.fixes_another_size(graph, leaves, example.axes):
        return False
    if not other_branches.are_few(leaves, others, example):
        return False
    further = [
        other_branches.of_other_values(leaves),
        other_branches.twice(leaves, example),
        other_branches.of_sizes(leaves, others),
    ]
    return _gives_same(session, assumptions, graph, leaves, structure) is True and not any(
        _gives_same(session, assumptions, graph, values, structure) is False for values in further
    )


def agrees(
    session: CaptureSession, assumptions: Assumptions, graph: CapturedGraph | None, leaves: list[Any], structure: Any
) -> bool | None:
    """Whether a capture gives what the model gives on some inputs; None where the model raises an error."""
    with keeping_random_state(), torch.set_grad_enabled(assumptions.gradients != "off"):
        try:
            expected, drew = _eager_results(session.module, leaves, structure, graph)
        except Exception:  # a model raises anything for sizes that it does not take
            return None
        if graph is None:
            return True
        try:
            found = other_branches.results(graph, _copied(leaves))
        except Exception:  # an operator raises for these sizes
            return False
        return drew or other_branches.agree(expected, found)


def _gives_same(
    session: CaptureSession, assumptions: Assumptions, graph: CapturedGraph, leaves: list[Any], structure: Any
) -> bool | None:
    """Whether a capture and the model give the same on some inputs.

    None where that cannot be said: the model refuses them, its results are random, or it gives nothing but zeros.
    """
    with keeping_random_state(), torch.set_grad_enabled(assumptions.gradients != "off"):
        try:
            expected, drew = _eager_results(session.module, leaves, structure, graph)
            if drew and not other_branches.agree(expected, _eager_results(session.module, leaves, structure, graph)[0]):
                return None
        except Exception:  # a model raises anything for sizes that it does not take
            return None
        if not any(isinstance(each, torch.Tensor) and bool(each.any()) for each in expected):
            return None
        try:
            return other_branches.agree(expected, other_branches.results(graph, _copied(leaves)))
        except Exception:  # an operator raises for these sizes
            return False


def written_out(captured: Captured) -> CapturedGraph:
    """The graph to compare with the model: without writes, as in the file.

    Where a size decides whether a tensor is written to or a copy of it, an operator does as torch does when it runs.
    """
    return captured.rewrite() if any(map(written_by, captured.graph.graph.nodes)) else captured.graph


def _eager_results(
    module: torch.nn.Module, leaves: list[Any], structure: Any, graph: CapturedGraph | None
) -> tuple[list[Any], bool]:
    """What the model gives on some inputs, leaf by leaf as a capture does, and whether it drew random numbers."""
    lists = {} if graph is None else open_lists(graph.structure)
    drawn = torch.get_rng_state()
    with SideEffects(module) as effects, ModelState(module), torch_tracing.in_onnx_export():
        args, kwargs = pytree.tree_unflatten(_copied(leaves), structure)
        found = pytree.tree_leaves(with_open_lists(module(*args, **kwargs), lists))
    return found, effects.drew or not torch.equal(drawn, torch.get_rng_state())


def _copied(leaves: list[Any]) -> list[Any]:
    return [each.clone() if isinstance(each, torch.Tensor) else each for each in leaves]
