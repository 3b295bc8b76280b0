"""Casts around nodes that a runtime has no kernels for."""

from __future__ import annotations

from collections.abc import Mapping

import onnx
import onnx_ir as ir
import pytest

from opbridge.onnx.wider_types import Kernels, widen

_D = ir.DataType


def _model(text: str, opset: int = 21) -> ir.Model:
    made = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]> g {text}')
    return ir.from_proto(onnx.shape_inference.infer_shapes(made))


def _kernels(*taken: str, casts: Mapping[str, str] | None = None, opset: int = 21) -> Kernels:
    """A runtime whose kernels take some types."""

    def lacks(op_type: str, opset: int, types: dict[str, str], /) -> bool:
        return op_type != "Cast" and not all(each in taken for each in types.values())

    return Kernels("runtime 1.0", opset, opset, lacks, casts or {})


def _operators(model: ir.Model) -> list[str]:
    return [node.op_type for node in model.graph]


ADD = "(bfloat16[2] a, bfloat16[2] b) => (bfloat16[2] c) { c = Add (a, b) }"
NUMBERS = "() => (float16[3] c) { c = RandomNormal <shape = [3], dtype = 10> () }"
TWO = "(bfloat16[2] a, int8[2] i) => (bfloat16[2] c, int8[2] k) { c = Neg (a) k = Neg (i) }"


def test_a_node_without_a_kernel_computes_in_a_wider_type() -> None:
    model = _model(ADD)
    found = widen(model, _kernels("tensor(float)"))
    assert (_operators(model), found.problems, found.nodes) == (["Cast", "Cast", "Add", "Cast"], {}, {_D.BFLOAT16: 1})
    assert model.graph.outputs[0].dtype == _D.BFLOAT16
    onnx.checker.check_model(ir.to_proto(model), full_check=True)


def test_a_node_that_the_runtime_casts_stays() -> None:
    model = _model(ADD.replace("bfloat16", "float16"))
    found = widen(model, _kernels("tensor(float)", casts={"tensor(float16)": "tensor(float)"}))
    assert (_operators(model), found.nodes) == (["Add"], {})


def test_a_node_without_an_input_of_the_type_is_not_cast_by_the_runtime() -> None:
    model = _model(NUMBERS)
    found = widen(model, _kernels("tensor(float)", casts={"tensor(float16)": "tensor(float)"}))
    assert list(found.problems) == ["RandomNormal"]


def test_types_are_left_to_the_runtime_that_runs_the_model_in_the_end() -> None:
    model = _model(ADD)
    found = widen(model, _kernels("tensor(float)"), left=lambda node: {_D.BFLOAT16})
    assert (_operators(model), found.nodes) == (["Add"], {})


def test_a_type_that_the_schema_does_not_allow_is_left_to_nobody() -> None:
    text = "(bfloat16[1, 1, 4, 4] x) => (bfloat16[1, 1, 4, 4] y) { y = MaxPool <kernel_shape = [1, 1]> (x) }"
    model = _model(text)
    widen(model, _kernels("tensor(float)"), left=lambda node: {_D.BFLOAT16})
    assert _operators(model) == ["Cast", "MaxPool", "Cast"]
    newer = _model(text, 22)
    widen(newer, _kernels("tensor(float)", opset=22), left=lambda node: {_D.BFLOAT16})
    assert _operators(newer) == ["MaxPool"]


@pytest.mark.parametrize(
    ("left", "wanted"),
    [(set(), {_D.BFLOAT16: 1, _D.INT8: 1}), ({_D.INT8}, {_D.BFLOAT16: 1}), ({_D.BFLOAT16}, {_D.INT8: 1})],
)
def test_each_type_is_left_by_itself(left, wanted) -> None:
    found = widen(_model(TWO), _kernels("tensor(float)", "tensor(int32)"), left=lambda node: left)
    assert found.nodes == wanted


def test_nodes_are_asked_for_before_the_first_is_widened() -> None:
    model, asked = _model(TWO), []

    def left(node: ir.Node) -> set[ir.DataType]:
        asked.append(list(_operators(model)) if not asked else [])
        return set()

    widen(model, _kernels("tensor(float)", "tensor(int32)"), left=left)
    assert asked == [["Neg", "Neg"], []]


def test_a_node_that_no_wider_type_helps_is_reported() -> None:
    found = widen(_model(ADD), _kernels("tensor(double)"))
    assert found.problems == {"Add": "runtime 1.0 has no kernel for Add of bfloat16."}
