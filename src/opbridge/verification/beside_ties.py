"""A captured graph whose quantised values beside a rounding tie are rounded up in some computations, down in others.

PyTorch's quantised kernels sum in integers and multiply by one scale. Its plain operators, which the captured graph
has, dequantise, sum in float32 and divide by the scale. The values before rounding differ by some roundings of float32,
so beside a tie the two differ by one step of the quantisation, and what follows from that step may differ as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from opbridge.capture.functionalize import FunctionalGraph
from opbridge.verification.graph_run import GraphRun
from opbridge.verification.rounding import quantizes

__all__ = ["outputs_beside_ties"]

_RUNS = 8
_ROUNDINGS = 32
"""How many roundings of float32 the two sums of a layer may differ by: its terms are some thousands."""


def outputs_beside_ties(functional: FunctionalGraph, leaves: Sequence[Any]) -> list[list[Any]]:
    """The outputs of computations of a graph that differ in how they round quantised values beside a tie.

    Args:
        functional: The captured graph in functional form.
        leaves: The leaves of `(args, kwargs)`.

    Returns:
        The outputs of each computation that have values, in the graph's order.

    Raises:
        Unusable: PyTorch cannot compute a node.
    """
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        return [_outputs(functional, leaves, generator) for _ in range(_RUNS)]


def _outputs(functional: FunctionalGraph, leaves: Sequence[Any], generator: torch.Generator) -> list[Any]:
    run = GraphRun(functional, leaves)
    for node in functional.graph.graph.nodes:
        if node.op == "get_attr":
            run.read(node)
        elif node.op == "call_function":
            run.assign(node, _otherwise_rounded(node, run, generator) if quantizes(node) else run.compute(node))
    found = [leaf.value if leaf.node is None else run.values[leaf.node] for leaf in functional.graph.outputs]
    return [value for value in found if value is not None]


def _otherwise_rounded(node: Node, run: GraphRun, generator: torch.Generator) -> Any:
    """The result of a node that quantises, for a first argument that differs by some roundings."""
    source = node.args[0]
    exact = run.values[source] if isinstance(source, Node) else None
    if not isinstance(source, Node) or not isinstance(exact, torch.Tensor) or not exact.is_floating_point():
        return run.compute(node)
    around = _ROUNDINGS * torch.finfo(torch.float32).eps * (exact.abs() + exact.square().mean().sqrt())
    share = 2 * torch.rand(exact.shape, generator=generator).to(exact.device) - 1
    run.values[source] = (exact + share * around).to(exact.dtype)
    try:
        return run.compute(node)
    finally:
        run.values[source] = exact
