"""The capture as it is printed."""

from __future__ import annotations

import json

import pytest
import torch

from opbridge import pipeline


class Branching(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 2, bias=False)

    def forward(self, x, sizes):
        y = self.linear(x).to(dtype=torch.float16)
        y = torch.cond(sizes["first"].sum() > 0, lambda t: t.sin(), lambda t: t.cos(), (y,))
        return {"y": y, "top": torch.topk(y, 1)[0]}


def listed():
    return pipeline.raw(
        Branching(), (torch.randn(3, 4), {"first": torch.ones(2)}), dynamic_shapes={"x": {0: "batch"}, "sizes": None}
    )


@pytest.mark.slow
def test_every_node_with_what_it_gives_and_its_line():
    raw = listed()
    lines = {line.name: line for line in raw.lines}
    linear = lines["linear"]
    assert linear.text() == "linear = aten::linear(x, p_linear_weight)"
    assert linear.result == "float32[batch, 2]"
    first = Branching.forward.__code__.co_firstlineno
    assert linear.source.endswith(f"test_listing.py:{first + 1}")
    assert linear.code == "y = self.linear(x).to(dtype=torch.float16)"
    assert lines["p_linear_weight"].text() == "weight p_linear_weight = linear.weight"
    assert lines["x"].text() == "input x"
    (to,) = (line for line in raw.lines if line.operator.startswith("aten::to."))
    assert to.arguments == "linear, float16"
    (topk,) = (line for line in raw.lines if line.operator == "aten::topk")
    assert topk.result == "(float16[batch, 1], int64[batch, 1])"
    assert raw.lines[-1].text().startswith("return (")


def test_the_graphs_of_control_flow_are_indented():
    raw = listed()
    inner = [line for line in raw.lines if line.depth == 1 and line.kind == "operator"]
    assert [line.operator for line in inner] == ["aten::sin", "aten::cos"]
    assert inner[0].text().startswith("  sin = aten::sin(")
    assert sum(line.kind == "graph" for line in raw.lines) == 2


@pytest.mark.slow
def test_as_text_and_as_data():
    raw = listed()
    text = str(raw).splitlines()
    assert len(text) == len(raw.lines) + 1 + len(raw.notes)
    assert text[len(raw.lines)] == raw.summary()
    data = json.loads(json.dumps(raw.to_json()))
    assert data["ok"] is True
    assert [node["name"] for node in data["nodes"]] == [line.name for line in raw.lines]


def test_sizes_that_are_values():
    class Sizes(torch.nn.Module):
        def forward(self, x):
            return x.reshape(x.shape[0] * 2, -1)

    raw = pipeline.raw(Sizes(), torch.randn(3, 4), dynamic_shapes={"x": {0: "n"}})
    assert "int n" in [line.result for line in raw.lines]
    assert "int 2*n" in [line.result for line in raw.lines]


def normalised(x):
    y = x * 2
    if x.sum() > 0:
        y = torch.nn.functional.layer_norm(y, [4])
    return y - 1


def test_constants_in_the_sides_of_a_decision():
    raw = pipeline.raw(normalised, (torch.ones(3, 4),), dynamic_shapes={"x": {0: "batch"}})
    assert any(line.operator == "aten::layer_norm" and line.depth for line in raw.lines)
    assert all(line.result for line in raw.lines if line.kind == "weight")
