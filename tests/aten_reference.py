"""Models with `aten` nodes, run by ONNX's reference evaluator and torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from torch.utils import _pytree

import opbridge
from opbridge.nodes import aten_node

__all__ = ["assert_matches", "run"]


class ATen(OpRun):
    """An aten node, called as its decoded form says."""

    op_domain = aten_node.DOMAIN

    def _run(self, *inputs: np.ndarray, **attributes: Any) -> tuple[np.ndarray, ...]:
        node = ir.serde.deserialize_model(_model_around(self.onnx_node)).graph[0]
        outputs = aten_node.decode(node).call([torch.from_numpy(np.array(each)) for each in inputs])
        return tuple(output.contiguous().numpy() for output in outputs)


def _model_around(node: Any) -> Any:
    """A model of one node, so that its inputs are the inputs of something."""
    import onnx

    inputs = [onnx.helper.make_tensor_value_info(name, 1, None) for name in dict.fromkeys(node.input) if name]
    outputs = [onnx.helper.make_tensor_value_info(name, 1, None) for name in node.output]
    return onnx.helper.make_model(onnx.helper.make_graph([node], "g", inputs, outputs))


def run(program: opbridge.Program, args: Sequence[Any]) -> list[np.ndarray]:
    """The outputs of a program."""
    leaves = [leaf for leaf in _pytree.tree_leaves(tuple(args)) if isinstance(leaf, torch.Tensor)]
    feeds = {str(value.name): _numpy(leaf) for value, leaf in zip(program.model.graph.inputs, leaves, strict=True)}
    return ReferenceEvaluator(ir.to_proto(program.model), new_ops=[ATen]).run(None, feeds)


def assert_matches(model: Any, *args: Any, others: Sequence[Sequence[Any]] = (), **export: Any) -> opbridge.Program:
    """Exports with every operator of ATen as an aten node, and compares with eager PyTorch.

    Args:
        model: What to export.
        *args: The example inputs.
        others: Further inputs to compare on.
        **export: Further arguments of `opbridge.export`.

    Returns:
        The program.
    """
    program = opbridge.export(model, args, **{"operator_export_type": "ONNX_ATEN", **export})
    for inputs in (args, *others):
        copies = _pytree.tree_map(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, tuple(inputs))
        with torch.no_grad():
            wanted = [leaf for leaf in _pytree.tree_leaves(model(*copies)) if leaf is not None]
        got = run(program, inputs)
        assert len(got) == len(wanted)
        for actual, want in zip(got, wanted, strict=True):
            torch.testing.assert_close(
                torch.from_numpy(np.array(actual)), torch.from_numpy(_numpy(want)), equal_nan=True
            )
    return program


def _numpy(tensor: torch.Tensor) -> np.ndarray:
    tensor = tensor.detach()
    return (torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor).contiguous().numpy()
