"""Models in training mode: what is captured in that mode, and evaluation mode for a time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from opbridge.base.torch_private import torch_operators
from opbridge.graph.captured_graph import CapturedGraph

__all__ = ["evaluating", "training_notes"]

# Operators that behave differently in training, with the index of the argument that selects it.
_TRAINING_FLAGS = {
    "aten::alpha_dropout": 2,
    "aten::batch_norm": 5,
    "aten::dropout": 2,
    "aten::feature_alpha_dropout": 2,
    "aten::feature_dropout": 2,
    "aten::native_dropout": 2,
    "aten::rrelu": 3,
}


@contextlib.contextmanager
def evaluating(module: torch.nn.Module) -> Iterator[None]:
    """Within this context, a model is in evaluation mode; the modes of all submodules are restored afterwards."""
    training = [each for each in module.modules() if each.training]
    module.eval()
    try:
        yield
    finally:
        for each in training:
            each.training = True


def training_notes(module: torch.nn.Module, graph: CapturedGraph) -> Iterator[str]:
    """A note about the operators that were captured in training mode."""
    if not any(each.training for each in module.modules()):
        return
    found: dict[str, None] = {}
    for node in graph.graph.nodes:
        name = (
            (torch_operators.operator_name(node.target) or "").partition(".")[0] if node.op == "call_function" else ""
        )
        at = _TRAINING_FLAGS.get(name)
        if at is not None and len(node.args) > at and node.args[at] is True:
            found[name] = None
    if found:
        yield (
            f"the model is in training mode, so {', '.join(found)} behave as in training; call model.eval() first "
            "for inference"
        )
