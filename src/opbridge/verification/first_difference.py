"""The search for the operator that makes a model and its ONNX file differ.

The captured graph is walked node by node, and PyTorch computes each operator on the values that the runtime had for its
inputs. A difference that is in the inputs, or that the operator only amplifies, is therefore not attributed to it: the
search finds an operator whose inputs agree and whose output does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import onnx_ir as ir
import torch
from torch.utils import _pytree as pytree

from opbridge.base.dtypes import onnx_dtype
from opbridge.base.wording import listed
from opbridge.graph.captured_graph import CapturedGraph
from opbridge.onnx.layouts import weight_in_layout, weight_name
from opbridge.onnx.torch_tensor import TorchTensor
from opbridge.verification.compare import compare
from opbridge.verification.difference import Search
from opbridge.verification.intermediate import RuntimeValues, Unusable, counterparts, feeds_of, order_of
from opbridge.verification.taken_branches import along_taken_branches
from opbridge.verification.walk import Walk

if TYPE_CHECKING:
    from opbridge.capture import Capture
    from opbridge.runtimes.onnxruntime import Limits

__all__ = ["first_difference"]


def first_difference(
    model: ir.Model,
    capture: Capture,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    outputs: Mapping[int, torch.Tensor] | None = None,
    check_weights: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    isolated: bool | Limits = False,
) -> Search:
    """Finds the first operator that differs.

    1. The weights of the file have to be those of the model. If they are not, no operator is named.
    2. The runtime computes the value of every node with the metadata `opbridge.node`. Its graph optimisations are off,
       as they remove values. If the outputs agree then, an optimisation causes the difference, and none is named.
    3. The captured graph is walked in order. PyTorch computes each node on the runtime's values for its inputs.
    4. Of the nodes that a wrong output depends on, the first whose result differs is returned. If there is none, it is
       the one whose result has the largest difference relative to what is allowed.
    5. A decision is taken as the inputs take it, and its branch walked in its place.
    6. Random operators, and those that leave memory as it was, are compared in shape and dtype, and the nodes after
       them get the runtime's values.
    7. Positions of equal elements may be in any order where PyTorch leaves it open (`opbridge.verification.ties`).

    Args:
        model: The ONNX model. It is not changed.
        capture: The capture that the model was made from.
        args: The positional inputs on which the two differ.
        kwargs: The keyword inputs.
        outputs: PyTorch's values of the graph's outputs that differ, by position; None: all outputs.
        check_weights: Whether the weights of the file are compared with the capture's.
        rtol: As for `opbridge.verification.compare.compare`.
        atol: As for `opbridge.verification.compare.compare`.
        isolated: Whether the file runs in a process of its own, or with which limits. The search then ends before an
            operator that might end this process on values of the file.

    Returns:
        The operator, or why there is none to name.
    """
    leaves = pytree.tree_leaves((args, dict(kwargs)))
    try:
        model, functional = along_taken_branches(model, capture.functional, leaves, lambda node: True)
        captured = functional.graph
        values = counterparts(model.graph, captured)
        feeds = feeds_of(model, captured, leaves)
        if check_weights and (differing := _differing_weights(model, captured)):
            return Search(None, 0, f"weights of the file differ from those of the model: {listed(differing, 5)}")
        runtime = RuntimeValues(model, feeds, order_of(captured, values, capture, leaves), isolated)
        if outputs and _agree_unoptimised(runtime, model, outputs, rtol, atol):
            reason = (
                "with ONNX Runtime's graph optimizations disabled the outputs agree, so one of them changes the result"
            )
            return Search(None, 0, f"{reason} (SessionOptions.graph_optimization_level)")
        return Walk(functional, runtime, values, outputs, rtol, atol).run(leaves)
    except Unusable as error:
        return Search(None, 0, str(error))


def _agree_unoptimised(
    runtime: RuntimeValues,
    model: ir.Model,
    outputs: Mapping[int, torch.Tensor],
    rtol: float | None,
    atol: float | None,
) -> bool:
    """Whether the outputs agree when the runtime's graph optimisations are off."""
    names = [str(model.graph.outputs[position].name) for position in outputs]
    actual_values = runtime.compute(names)
    return all(
        compare(name, expected, actual, rtol=rtol, atol=atol).ok
        for name, expected, actual in zip(names, outputs.values(), actual_values, strict=True)
    )


def _differing_weights(model: ir.Model, captured: CapturedGraph) -> list[str]:
    """The parameters and buffers that differ from their initializers of the same dtype and shape, quoted.

    An initializer holds the weight of its name, or the one that its metadata name in another layout.
    """
    tensors = {weight.name: weight.tensor for weight in captured.weights.values()}
    differing = []
    for name, initializer in model.graph.initializers.items():
        stored = initializer.const_value
        if stored is None:
            continue
        weight = weight_name(stored) or name
        tensor = weight_in_layout(tensors[weight], stored) if weight in tensors else None
        if tensor is None or stored.dtype != onnx_dtype(tensor.dtype) or list(stored.shape) != list(tensor.shape):
            continue
        if bytes(stored.tobytes()) != TorchTensor(tensor).tobytes():
            differing.append(repr(weight))
    return list(dict.fromkeys(differing))
