"""The lines and modules of nodes, from the metadata of torch.export and from that of other captures."""

from __future__ import annotations

import torch
from torch.fx import Graph, Node

from opbridge.base.sources import Source
from opbridge.capture import capture
from opbridge.graph.node_sources import has_module_path, module_path_of, sources_of


def node_with(**meta: object) -> Node:
    node = Graph().placeholder("x")
    node.meta.update(meta)
    return node


def test_torch_export_keeps_a_stack_trace_and_a_stack_of_modules() -> None:
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    class Inner(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return double(x)

    graph = capture(torch.nn.Sequential(torch.nn.ReLU(), Inner()), (torch.ones(2),)).graph.graph
    node = next(node for node in graph.nodes if node.name == "mul")
    assert [source.function for source in sources_of(node)][:2] == ["double", "forward"]
    assert module_path_of(node) == "1" and has_module_path(node)


def test_other_captures_keep_the_lines_themselves() -> None:
    lines = (Source("net.py", 7), Source("net.py", 3))
    node = node_with(sources=lambda: lines, module_path="layer1.0", stack_trace='File "other.py", line 1, in f')
    assert sources_of(node) == lines
    assert module_path_of(node) == "layer1.0" and has_module_path(node)
    assert module_path_of(node_with(module_path="", nn_module_stack={"a": ("b", None)})) == ""


def test_nothing_is_known_of_a_node_without_metadata() -> None:
    node = node_with()
    assert (sources_of(node), module_path_of(node), has_module_path(node)) == ((), "", False)
