"""Whether a capture is another computation than the model, and the first line that only the capture runs.

A model that asks whether it is exported, or whether its tensors have values, may compute something else then. No
operator of the file differs from the capture, and the file from the model.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import CodeType
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from opbridge.base.sources import Source, of_code
from opbridge.graph.node_sources import sources_of
from opbridge.verification.compare import compare
from opbridge.verification.eager import Eager
from opbridge.verification.graph_run import GraphRun
from opbridge.verification.intermediate import Unusable

if TYPE_CHECKING:
    from opbridge.capture import Capture

__all__ = ["computes_otherwise"]


def computes_otherwise(
    capture: Capture,
    eager: Eager,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    outputs: Mapping[int, torch.Tensor],
    *,
    seed: int,
    rtol: float | None = None,
    atol: float | None = None,
) -> str:
    """How a capture differs from its model, both computed by PyTorch, for a person; "" where it does not.

    Args:
        capture: The capture.
        eager: The model.
        args: The positional inputs.
        kwargs: The keyword inputs.
        outputs: What the model gives for some of the graph's outputs, by position.
        seed: The seed for torch's generators.
        rtol: As for `compare`.
        atol: As for `compare`.
    """
    if eager.used_generator or not _differs(capture, args, kwargs, outputs, rtol, atol):
        return ""
    seen = _Lines()
    eager.run(args, kwargs, seed, lambda: seen)
    found = _first_beside(capture, seen.lines())
    said = "the captured computation differs from the model"
    if found is not None:
        said += f": it includes {found}, which the model runs only during a capture: {found.code}"
    return (
        f"{said}. The model may test whether it is being exported or traced (torch.compiler.is_exporting(), "
        "torch.jit.is_tracing()); make it compute the same in both cases"
    )


def _differs(
    capture: Capture,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    outputs: Mapping[int, torch.Tensor],
    rtol: float | None,
    atol: float | None,
) -> bool:
    """Whether PyTorch gives other outputs for the captured graph than the model does."""
    functional = capture.functional
    run = GraphRun(functional, pytree.tree_leaves((args, dict(kwargs))))
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            for node in functional.graph.graph.nodes:
                if node.op == "get_attr":
                    run.read(node)
                elif node.op == "call_function":
                    run.assign(node, run.compute(node))
    except Unusable:
        return False
    nodes = [leaf.node for leaf in functional.graph.outputs if leaf.node is not None]
    for position, expected in outputs.items():
        actual = run.values[nodes[position]] if position < len(nodes) else None
        if not isinstance(actual, torch.Tensor):
            continue
        if actual.is_complex():  # as a runtime has it
            actual = torch.view_as_real(actual)
        if not compare("", expected, actual, rtol=rtol, atol=atol).ok:
            return True
    return False


def _first_beside(capture: Capture, lines: set[Source]) -> Source | None:
    """The line of the first operator of a capture that is none of these lines."""
    for node in capture.graph.graph.nodes:
        frames = sources_of(node) if node.op == "call_function" else ()
        if frames and frames[0] not in lines:
            return frames[0]
    return None


class _Lines(TorchFunctionMode):
    """Collects the lines of a model that call torch's functions."""

    def __init__(self) -> None:
        super().__init__()
        self._frames: set[tuple[CodeType, int]] = set()

    def __torch_function__(self, function: Callable[..., Any], kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        frame = sys._getframe(1)
        while frame is not None:
            self._frames.add((frame.f_code, frame.f_lineno))
            frame = frame.f_back  # type: ignore[assignment]
        return function(*args, **(kwargs or {}))

    def lines(self) -> set[Source]:
        """The lines."""
        return {source for code, line in self._frames if (source := of_code(code, line)) is not None}
