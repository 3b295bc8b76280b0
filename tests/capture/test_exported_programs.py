"""An ExportedProgram becomes a captured graph, and stays as it is."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from opbridge.capture.exported_programs import from_exported_program, without_writes
from opbridge.graph.captured_graph import Leaf


class Model(nn.Module):
    """Parameters, buffers and constants, of which one is written to; names of Python's own functions."""

    def __init__(self) -> None:
        super().__init__()
        self.input = nn.Parameter(torch.ones(4))
        self.register_buffer("max", torch.ones(4))
        self.register_buffer("count", torch.zeros(4), persistent=False)

    def forward(self, input: torch.Tensor, n: int, sum: Any = None, *, mode: str = "up") -> dict[str, Any]:
        self.count.add_(self.max)
        y = input * self.input + n + torch.tensor([1.0, 2.0, 3.0, 4.0])
        y[:1].add_(1)
        return {"y": y, "n": n, "none": sum, "rows": input.shape[0], "rest": [input, mode]}


def exported() -> torch.export.ExportedProgram:
    shapes = {"input": {0: torch.export.Dim("rows", max=64)}, "n": None, "sum": None, "mode": None}
    return torch.export.export(Model(), (torch.randn(3, 4), 5, None), {"mode": "up"}, dynamic_shapes=shapes)


def described(leaves: tuple[Leaf, ...]) -> list[tuple[str, Any]]:
    return [(leaf.name, leaf.value if leaf.node is None else leaf.node.name) for leaf in leaves]


def test_constants_among_the_inputs_are_no_placeholders() -> None:
    graph = from_exported_program(exported())
    assert described(graph.inputs) == [("input", "input"), ("n", 5), ("sum", None), ("mode", "up")]
    assert [leaf.is_frozen for leaf in graph.inputs] == [False, True, True, True]
    placeholders = {node for node in graph.graph.nodes if node.op == "placeholder"}
    assert placeholders == {*graph.weights, graph.inputs[0].node}


@pytest.mark.parametrize("convert", [from_exported_program, without_writes])
def test_the_graph_returns_what_the_model_returns(convert: Any) -> None:
    graph = convert(exported())
    found = described(graph.outputs)
    assert [name for name, _ in found] == ["y", "n", "none", "rows", "rest.0", "rest.1"]
    assert (*found[1:3], *found[4:]) == (("n", 5), ("none", None), ("rest.0", "input"), ("rest.1", "up"))
    assert [leaf.is_number for leaf in graph.outputs] == [False, False, False, True, False, False]
    returned = graph.graph.output_node().args[0]
    assert returned == tuple(leaf.value if leaf.node is None else leaf.node for leaf in graph.outputs)
    x = torch.randn(2, 4)
    values = {node: weight.tensor.clone() for node, weight in graph.weights.items()} | {graph.inputs[0].node: x}
    given = [values[node] for node in graph.graph.nodes if node.op == "placeholder"]
    got = torch.utils._pytree.tree_unflatten(graph.module(*given), graph.structure)
    expected = Model()(x, 5)
    torch.testing.assert_close(got["y"], expected["y"])
    assert got["rows"] == 2 and got["rest"][0] is x and (got["n"], got["none"], got["rest"][1]) == (5, None, "up")


def test_weights_have_the_names_and_the_memory_of_the_model() -> None:
    program = exported()
    graph = from_exported_program(program)
    found = {weight.name: weight for weight in graph.weights.values()}
    kinds = {name: weight.kind for name, weight in found.items() if weight.kind != "constant"}
    assert kinds == {"input": "parameter", "max": "buffer", "count": "buffer"}
    assert [weight.tensor.tolist() for weight in found.values() if weight.kind == "constant"] == [[1.0, 2.0, 3.0, 4.0]]
    assert found["input"].tensor is program.state_dict["input"]


@pytest.mark.slow
def test_updates_of_buffers_are_told_and_not_returned() -> None:
    assert from_exported_program(exported()).updated == ()  # they are in-place operators
    assert without_writes(exported()).updated == ("count",)


def test_ranges_conditions_and_places_of_sizes() -> None:
    graph = from_exported_program(exported())
    (symbol,) = graph.ranges
    assert graph.ranges[symbol][1] == 64 and graph.places == {symbol: "input.shape[0]"}

    class Even(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.view(-1, 2) if x.shape[0] % 2 == 0 else x

    shapes = ({0: torch.export.Dim.DYNAMIC},)
    graph = from_exported_program(torch.export.export(Even(), (torch.randn(4),), dynamic_shapes=shapes))
    (symbol,) = graph.ranges
    assert graph.ranges[symbol][1] is None
    assert (f"({symbol} % 2) == 0", (symbol,)) in [(each.expression, each.symbols) for each in graph.conditions]


def test_a_number_that_a_tensor_holds_has_the_range_of_an_int64() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return x.item()

    graph = from_exported_program(torch.export.export(Model(), (torch.tensor(3),)))
    assert list(graph.ranges.values()) == [(-(2**63), None)]
    assert graph.outputs[0].is_number


def test_the_program_stays_as_it_is() -> None:
    program = exported()
    before, nodes = str(program.graph), list(program.graph.nodes)
    graph = from_exported_program(program)
    assert str(program.graph) == before and list(program.graph.nodes) == nodes
    values = {node.name: node.meta.get("val") for node in nodes}
    kept = [node for node in graph.graph.nodes if node.op != "output"]
    assert kept and all(node.meta["val"] is values[node.name] for node in kept)
    assert all(node.meta.get("stack_trace") for node in kept if node.op == "call_function" and "add" in node.name)


def test_tokens_are_no_placeholders() -> None:
    class Saying(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            torch.ops.aten._print("")
            return x * 2

    program = torch.export.export(Saying(), (torch.ones(2),)).run_decompositions({})
    graph = from_exported_program(program)
    assert len(program.graph_signature.input_specs) == 2
    assert [node.name for node in graph.graph.nodes if node.op == "placeholder"] == ["x"]
    assert len(graph.graph.output_node().args[0]) == len(graph.outputs) == 1
