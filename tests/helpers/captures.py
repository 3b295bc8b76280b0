"""What tests of the capture share."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from helpers.matching import eager_results
from opbridge.capture import Capture

LAYER = nn.Linear(4, 3).eval()
SMALL = {"vocab_size": 60, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
X = torch.arange(8, dtype=torch.float32).reshape(2, 4) / 8


def assert_same(taken: Capture, *args: Any, model: Any = None, **kwargs: Any) -> None:
    """The captured graph and the model give the same, on the example or on other inputs."""
    given, named = (args, kwargs) if args or kwargs else (taken.args, taken.kwargs)
    copies = pytree.tree_map_only(torch.Tensor, torch.clone, (given, named))
    with torch.no_grad():
        got = pytree.tree_leaves(computed(taken, *copies[0], **copies[1]))
    torch.testing.assert_close(got, eager_results(model or taken.model, given, named))


def computed(taken: Capture, *args: Any, **kwargs: Any) -> Any:
    """What the captured graph gives, in the model's containers, for inputs of sizes that it is valid for."""
    graph = taken.graph
    values = {node: weight.tensor.clone() for node, weight in graph.weights.items()}
    sizes: dict[str, int] = {}
    for leaf, value in zip(graph.inputs, pytree.tree_leaves((args, kwargs)), strict=True):
        if leaf.node is not None:
            values[leaf.node] = value
            known = getattr(leaf.node.meta["val"], "shape", ())
            for size, given in zip(map(str, known), getattr(value, "shape", ()), strict=True):
                assert sizes.setdefault(size, given) == given if not size.isdigit() else int(size) == given
    for symbol, (low, high) in graph.ranges.items():
        assert symbol not in sizes or (low <= sizes[symbol] and (high is None or sizes[symbol] <= high))
    placeholders = (node for node in graph.graph.nodes if node.op == "placeholder")
    return pytree.tree_unflatten(graph.module(*(values[node] for node in placeholders)), graph.structure)


def operators(taken: Capture) -> list[str]:
    return [str(node.target) for node in taken.graph.graph.nodes if node.op == "call_function"]


def shapes(taken: Capture) -> list[tuple[str, ...]]:
    """The sizes of the inputs, with the names that their symbols have."""
    nodes = [leaf.node for leaf in taken.graph.inputs if leaf.node is not None]
    values = [node.meta["val"] for node in nodes if isinstance(node.meta["val"], torch.Tensor)]
    return [tuple(named(str(size), taken.dim_names) for size in value.shape) for value in values]


def named(size: str, names: dict[str, str]) -> str:
    return re.sub(r"[su]\d+", lambda found: names[found[0]], size)


def line_of(file: str, marker: str) -> int:
    """The line of a test's file that ends with this marker: `# fails: loop`."""
    with open(file) as lines:
        return next(number for number, line in enumerate(lines, 1) if line.rstrip().endswith(f"# fails: {marker}"))
