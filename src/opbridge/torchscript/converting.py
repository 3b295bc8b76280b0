"""The conversion of the exporter's graph to an ONNX model.

1. The graph's inputs are the model's tensor inputs, in order, then its weights, which keep their memory and names.
2. The nodes are copied unchanged, each with the operator, source line and module that it comes from.
3. The sizes that the trace gives intermediate values are the example's, and are left out. The sizes of the outputs are
   inferred from the finished model where possible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir
import torch
from onnx_ir.passes import common as passes

from opbridge.base.sources import innermost
from opbridge.base.torch_private import torchscript_export
from opbridge.errors import CaptureError
from opbridge.graph.values import as_tensor
from opbridge.nodes.operator_nodes import ROUTES as NODE_ROUTES
from opbridge.onnx.builder import Builder
from opbridge.onnx.tensor import Tensor
from opbridge.onnx.torch_tensor import TorchTensor
from opbridge.symbolics.copying import Copy
from opbridge.torchscript.recording import Recorder, Recording

__all__ = ["convert"]

_FLAT_PREFIX = "model."
"""The prefix of the names of weights in a trace, in which the model is a submodule of `interface.Flat`."""

# Constants of at most this many elements are deduplicated; larger ones become initializers.
_LARGEST_CONSTANT = 4096


class _LabellingCopy(Copy):
    """Copies nodes, with names and metadata of the operators that they come from."""

    def __init__(self, builder: Builder, values: Mapping[Any, Tensor], functions: Any, recorder: Recorder) -> None:
        super().__init__(builder, values, functions)
        self.recorder = recorder

    def _copy(self, node: Any) -> None:
        if node.kind() == "onnx::Placeholder":
            raise CaptureError(_describe_write(node))
        recording = self.recorder.recording_of(node)
        if recording is None:
            super()._copy(node)
            return
        with self.builder.labelled(*_label(recording)):
            super()._copy(node)

    def _number(self, data: torch.Tensor) -> Tensor:
        """A constant of the model. Equal small constants, of which a trace has many, are one."""
        content = TorchTensor(data)
        if content.size <= _LARGEST_CONSTANT and content.dtype != ir.DataType.BFLOAT16:
            made = self.builder.constant(content.numpy(), content.dtype)
        else:
            made = self.builder.initializer(f"{self.builder.prefix}/constant".lstrip("/"), content)
        self._constants[made] = data
        return made


def _describe_write(node: Any) -> str:
    """What a node with a body stands for, which the exporter has left: a write into a part of a tensor."""
    source = next(iter(innermost(node.sourceRange())), None)
    where = f" (at {source})" if source else ""
    return (
        "An in-place write to a part of this tensor, which is complex or of a form that PyTorch's exporter does "
        f"not convert, is not supported in a trace{where}. Use capture='export', or build the tensor with "
        "torch.cat."
    )


def _label(recording: Recording) -> tuple[str, dict[str, str]]:
    short = recording.operator.partition("::")[2].partition(".")[0]
    metadata = {"opbridge.operator": recording.operator}
    if recording.module:
        metadata["opbridge.module"] = recording.module
    if recording.source is not None:
        metadata["opbridge.source"] = str(recording.source)
    if recording.route in NODE_ROUTES or recording.failure:
        metadata["opbridge.route"] = recording.route  # the exporter leaves a node for a missing operator
    return (f"{recording.module}/{short}" if recording.module else short), metadata


def convert(
    graph: Any,
    weights: Mapping[str, torch.Tensor],
    functions: Mapping[tuple[str, str], Any],
    recorder: Recorder,
    inputs: Sequence[ir.Value],
    returned: Sequence[Any],
    output_names: Sequence[str],
    opset: int,
    custom_opsets: Mapping[str, int],
) -> ir.Model:
    """Builds the model.

    Args:
        graph: The `torch._C.Graph`.
        weights: The values of its last inputs, by name.
        functions: The onnxscript functions that it calls.
        recorder: The recordings of the operators that its nodes come from.
        inputs: Values with the names, dtypes and shapes of its inputs.
        returned: For each output a number that the model returns, or None for the next output of the graph.
        output_names: Names for the outputs.
        opset: Its opset.
        custom_opsets: The versions of domains other than ONNX's own.
    """
    builder = Builder(opset)
    for name in output_names:
        builder.reserve(name)
    values: dict[Any, Tensor] = {}
    model_inputs = []
    by_name = {value.debugName(): value for value in graph.inputs()}
    for number, like in enumerate(inputs):
        shape = None if like.shape is None else [size if isinstance(size, int) else size.value for size in like.shape]
        given = builder.value(builder.unique(str(like.name)), like.dtype, shape)
        model_inputs.append(given)
        value = by_name.pop(torchscript_export.input_name(number), None)
        if value is not None:  # the exporter removes unused inputs
            values[value] = given
    for name, value in by_name.items():
        data = TorchTensor(weights[name], name=name.removeprefix(_FLAT_PREFIX))
        values[value] = builder.initializer(name.removeprefix(_FLAT_PREFIX), data)
    builder.functions.update(recorder.functions)
    results = iter(_LabellingCopy(builder, values, functions, recorder).run(graph, list(graph.outputs())))
    ranks = iter(value.type().dim() if value.type().kind() == "TensorType" else None for value in graph.outputs())
    outputs: list[Tensor] = []
    shapes: list[ir.Shape | None] = []
    for number, name in zip(returned, output_names, strict=True):
        if number is None:
            output, rank = next(results), next(ranks)
            assert output is not None  # the module that is traced returns tensors
        else:
            data = TorchTensor(as_tensor(number))
            output, rank = builder.constant(data.numpy(), data.dtype), len(data.shape)
        if output.producer() is None or any(output is other for other in outputs):
            output = builder.node("Identity", [output], {}, [output.dtype])[0]
        output.name = name
        outputs.append(output)
        shapes.append(None if rank is None else ir.Shape([None] * rank))
    _forget_sizes(builder.nodes)
    for output, found in zip(outputs, shapes, strict=True):
        output.shape = found
    model = builder.model(model_inputs, outputs, custom_opsets)
    passes.RemoveUnusedNodesPass()(model)
    return model


def _forget_sizes(nodes: Sequence[ir.Node]) -> None:
    for node in nodes:
        for value in node.outputs:
            value.shape = None
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH:
                inner = attribute.as_graph()
                for value in inner.inputs:
                    value.shape = None
                if node.op_type == "Loop":  # ONNX Runtime asks for the shapes of the counter and of the condition
                    for value in inner.inputs[:2]:
                        value.shape = ir.Shape([])
                _forget_sizes(list(inner))
