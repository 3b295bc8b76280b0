"""Models whose operators are `aten` nodes, run by ONNX's reference evaluator, which calls torch for each node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import torch
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

import opbridge
from helpers.matching import assert_matches
from helpers.running import tensors
from opbridge.nodes import aten_node

__all__ = ["assert_matches_as_aten_nodes", "loaded"]


class ATen(OpRun):
    """An aten node, called as its decoded form says."""

    op_domain = aten_node.DOMAIN

    def _run(self, *inputs: np.ndarray, **attributes: Any) -> tuple[np.ndarray, ...]:
        node = ir.serde.deserialize_model(_model_around(self.onnx_node)).graph[0]
        outputs = aten_node.decode(node).call([torch.from_numpy(np.array(each)) for each in inputs])
        return tuple(output.contiguous().numpy() for output in outputs)


def _model_around(node: onnx.NodeProto) -> onnx.ModelProto:
    """A model of one node, so that its inputs are the inputs of something."""
    inputs = [onnx.helper.make_tensor_value_info(name, 1, None) for name in dict.fromkeys(node.input) if name]
    outputs = [onnx.helper.make_tensor_value_info(name, 1, None) for name in node.output]
    return onnx.helper.make_model(onnx.helper.make_graph([node], "g", inputs, outputs))


def loaded(program: opbridge.Program) -> Callable[[Sequence[Any], Mapping[str, Any] | None], list[np.ndarray]]:
    """What runs a program in the reference evaluator."""
    names = [str(value.name) for value in program.model.graph.inputs]
    evaluator = ReferenceEvaluator(ir.to_proto(program.model), new_ops=[ATen])

    def run(args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> list[np.ndarray]:
        found: list[np.ndarray] = evaluator.run(None, dict(zip(names, tensors(args, kwargs), strict=True)))
        return found

    return run


def assert_matches_as_aten_nodes(model: Any, *args: Any, **options: Any) -> opbridge.Program:
    """`assert_matches` with every operator of ATen as an aten node, run by the reference evaluator.

    opbridge verifies the program too, unless `verify` says otherwise: its own way to take an aten node is another one.
    """
    return assert_matches(model, *args, load=loaded, **{"operator_export_type": "ONNX_ATEN", "verify": True, **options})
