"""Models with functions: each stays one in its new types, or becomes several where its calls differ in types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from precision.conftest import operators, ran

HEAD = '<ir_version: 10, opset_import: ["" : 19, "my" : 1]>\n'
F = """
<domain: "my", opset_import: ["" : 19]> F (a, b) => (o) {
    m = Mul (a, b)  one = Constant <value_float = 1.0> ()  o = Add (m, one)
}
"""

Cast = Callable[..., Any]


def functions(model: ir.Model) -> dict[str, list[str]]:
    """The operators in each function."""
    return {f"{each.name}:{each.overload}": [node.op_type for node in each] for each in model.functions.values()}


def test_a_function_that_is_called_twice(cast: Cast) -> None:
    found = cast(HEAD + "g (float[2] x, float[2] w) => (float[2] y) { a = my.F (x, w)  y = my.F (a, x) }" + F)
    assert [node.op_type for node in found.model.graph] == ["F", "F"]
    assert functions(found.model) == {"F:": ["Mul", "Constant", "Add"]}
    assert not any(node.metadata_props for node in found.model.graph)
    (y,) = ran(found.model, x=np.array([2, 3], np.float16), w=np.array([2, 3], np.float16))
    assert y.dtype == np.float16 and y.tolist() == [11, 31]


def test_calls_of_other_types_call_another_function(cast: Cast) -> None:
    text = HEAD + "g (float[2] x) => (float[2] y) { a = my.F (x, x)  b = Neg (a)  y = my.F (b, b) }" + F
    found = cast(text, keep=["Neg", "y"])
    names = functions(found.model)
    assert [*names] == ["F:", "F:2"] and all("Mul" in each for each in names.values())
    (y,) = ran(found.model, x=np.array([1, 2], np.float16))
    assert y.tolist() == [5, 26]


def test_functions_of_functions(cast: Cast) -> None:
    text = (
        HEAD
        + "g (float[2] x, float[2] w) => (float[2] y) { a = my.G (x, w)  y = my.F (a, x) }"
        + F
        + """<domain: "my", opset_import: ["" : 19, "my" : 1]> G (a, b) => (o) { p = my.F (a, b)  o = Tanh (p) }"""
    )
    found = cast(text)
    assert [node.op_type for node in found.model.graph] == ["G", "F"]
    assert functions(found.model) == {"F:": ["Mul", "Constant", "Add"], "G:": ["F", "Tanh"]}
    assert found.error < 1e-2


def test_bodies_read_parameters(cast: Cast) -> None:
    text = (
        HEAD
        + "g (float[2] x, bool c) => (float[2] y) { y = my.H (x, c) }"
        + """<domain: "my", opset_import: ["" : 19]> H (a, c) => (o) {
            s = Sin (a)
            o = If (c) <then_branch = t () => (float[2] p) { p = Mul (s, a) },
                        else_branch = e () => (float[2] q) { q = Neg (a) }>
        }"""
    )
    found = cast(text)
    assert functions(found.model) == {"H:": ["Sin", "If"]}
    assert ran(found.model, x=np.ones(2, np.float16), c=np.array(False))[0].tolist() == [-1, -1]


def test_a_call_in_a_body(cast: Cast) -> None:
    text = (
        HEAD
        + """g (float[2] x, bool c) => (float[2] y) {
            y = If (c) <then_branch = t () => (float[2] p) { p = my.F (x, x) },
                        else_branch = e () => (float[2] q) { q = Neg (x) }>
        }"""
        + F
    )
    found = cast(text)
    assert operators(found.model).count("F") == 1 and [*functions(found.model)] == ["F:"]


def test_attributes_of_a_call_are_in_its_function(cast: Cast) -> None:
    text = (
        HEAD
        + "g (float[2,3] x) => (float[2,3] y) { a = my.S <axis = 0> (x)  b = my.S <axis = 1> (x)  y = Add (a, b) }"
        + """<domain: "my", opset_import: ["" : 19]> S <axis> (a) => (o) { o = Softmax <axis: int = @axis> (a) }"""
    )
    found = cast(text)
    assert functions(found.model) == {"S:": ["Softmax"], "S:2": ["Softmax"]}
    x = np.eye(2, 3, dtype=np.float16)
    assert abs(float(ran(found.model, x=x)[0].sum()) - 5) < 0.01


def test_the_file_says_the_domain_of_the_functions(cast: Cast) -> None:
    found = cast(HEAD + "g (float[2] x) => (float[2] y) { y = my.F (x, x) }" + F)
    proto = onnx.ModelProto.FromString(found.to_bytes())
    assert {each.domain: each.version for each in proto.opset_import} == {"": 19, "my": 1}
    assert [each.name for each in proto.functions] == ["F"]
