"""Calls a kernel through PyTorch, and as the only node of a model in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np
import onnx
import onnxruntime
from kernels.cases import Attributes, Case
from onnx import TensorProto, helper

__all__ = ["TOLERANCE", "assert_near", "onnx_model", "through_onnxruntime"]

# Of the largest number of a result, by element type: what rounding its inputs and its outputs costs.
TOLERANCE = {"float32": 1e-5, "float64": 1e-12, "float16": 5e-3, "bfloat16": 4e-2}
_ONNX = {
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
}


def assert_near(actual: Sequence[np.ndarray], case: Case, dtype: str) -> None:
    """Compares outputs with those of a case."""
    assert len(actual) == len(case.expected)
    for got, expected in zip(actual, case.expected, strict=True):
        assert got.shape == expected.shape, case
        largest = np.abs(expected[np.isfinite(expected)]).max(initial=1.0)
        np.testing.assert_allclose(got, expected, rtol=0, atol=TOLERANCE[dtype] * largest, err_msg=case.operator)


def onnx_model(
    operator: str,
    given: Sequence[bool],
    attributes: Attributes,
    outputs: int,
    dtype: str,
    integers: Collection[int] = (),
) -> bytes:
    """A model of one operator.

    Its inputs and outputs are float64 and are converted around it, but for those in integers, which are int64.
    """
    names = [f"x{i}" if there else "" for i, there in enumerate(given)]
    there = [name for i, name in enumerate(names) if name and i not in integers]
    results = [f"y{i}" for i in range(outputs)]
    nodes = [helper.make_node("Cast", [name], [f"{name}_"], to=_ONNX[dtype]) for name in there]
    inputs = [name and (name if i in integers else f"{name}_") for i, name in enumerate(names)]
    nodes.append(
        helper.make_node(operator, inputs, [f"{name}_" for name in results], domain="opbridge_ops", **attributes)
    )
    nodes += [helper.make_node("Cast", [f"{name}_"], [name], to=TensorProto.DOUBLE) for name in results]
    graph = helper.make_graph(
        nodes,
        "one_node",
        [
            helper.make_tensor_value_info(name, TensorProto.INT64 if i in integers else TensorProto.DOUBLE, None)
            for i, name in enumerate(names)
            if name
        ],
        [helper.make_tensor_value_info(name, TensorProto.DOUBLE, None) for name in results],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("opbridge_ops", 1)]
    model: onnx.ModelProto = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    return model.SerializeToString()


def through_onnxruntime(
    operator: str,
    inputs: Sequence[np.ndarray | None],
    attributes: Attributes,
    outputs: int,
    dtype: str,
    session: Callable[[bytes], onnxruntime.InferenceSession],
) -> list[np.ndarray]:
    """The outputs, as float64."""
    integers = [i for i, value in enumerate(inputs) if value is not None and value.dtype == np.int64]
    model = onnx_model(operator, [value is not None for value in inputs], attributes, outputs, dtype, integers)
    feeds = {f"x{i}": value for i, value in enumerate(inputs) if value is not None}
    return session(model).run(None, feeds)
