"""Nodes of other domains in a float16 model, which ONNX Runtime would compute in float32 on the CPU."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest
import torch
from helpers.matching import assert_matches

from opbridge.fit.custom_types import keep_types

AFTER = "(float16[2] x) => (float16[2] y) { a = Add (x, x) b = own.f (a) y = Add (b, b) }"
BESIDE_WEIGHT = "(float16[2] x, float16[2] w) => (float16[2] y) { a = Add (x, x) b = own.f (a, w) y = Add (b, b) }"
FIRST = "(float16[2] x) => (float16[2] y) { b = own.f (x) y = Add (b, b) }"
FLOAT = AFTER.replace("float16", "float")
FUSED = AFTER.replace("own.f", "com.microsoft.QuickGelu")


@pytest.mark.parametrize(
    ("text", "kept"),
    [(AFTER, True), (BESIDE_WEIGHT, False), (FIRST, False), (FLOAT, False), (FUSED, False)],
    ids=["after a node", "beside an input", "of an input", "float32", "of the runtime"],
)
def test_two_casts_stand_before_an_input(text, kept) -> None:
    imports = '"" : 21, "own" : 1, "com.microsoft" : 1'
    made = onnx.parser.parse_model(f"<ir_version: 10, opset_import: [{imports}]> g {text}")
    half = ir.TensorType(ir.DataType.FLOAT if text is FLOAT else ir.DataType.FLOAT16)
    model = ir.from_proto(made)
    for node in model.graph:
        node.outputs[0].type = half
    keep_types(model)
    wanted = ["Add", "Cast", "Cast", "f", "Add"] if kept else [node.op_type for node in ir.from_proto(made).graph]
    assert [node.op_type for node in model.graph] == wanted


@pytest.mark.slow
def test_a_node_that_pytorch_runs_keeps_its_types() -> None:
    assert_matches(
        lambda x: torch.cumsum(x * 2.0 + 1.0, 0) * 3.0 + 1.0,
        torch.randn(4, 3).half(),
        allow=("standard", "function", "kernel", "aten"),
        routes={"aten::cumsum": "aten"},
    )
