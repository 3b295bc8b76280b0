"""Aten nodes of older exporters, rewritten into the form that the kernel runs (see `aten_node`), with typed outputs.

They say neither the operator's schema nor their results' types: the torch at hand gives the schema, and the model, or a
call of the operator on tensors without data, the types.
"""

from __future__ import annotations

from typing import Any

import onnx
import onnx_ir as ir
import torch
from onnx_ir.passes.common import ShapeInferencePass
from torch._subclasses.fake_tensor import FakeTensorMode

from opbridge.base.dtypes import torch_dtype
from opbridge.base.torch_private import torch_operators
from opbridge.errors import ModelFileError, TranslationError
from opbridge.nodes.aten_node import DOMAIN, OP_TYPE, AtenCall, Input, decode, encode, leaves

__all__ = ["rewrite", "rewritten"]

_UNKNOWN_SIZE = 2
"""Stands for a dimension that is known only when the model runs."""


def rewritten(model: str | bytes) -> bytes:
    """A file's content with all its aten nodes in the form that the kernel runs.

    Raises:
        ModelFileError: a node is malformed, or what it returns cannot be told.
    """
    from opbridge.onnx import serialize

    loaded = ir.load(model) if isinstance(model, str) else ir.from_proto(onnx.ModelProto.FromString(model))
    rewrite(loaded)
    return serialize.to_bytes(loaded)


def rewrite(model: ir.Model) -> bool:
    """Rewrites the aten nodes of a model that are of the older form, and types the outputs of all.

    Returns:
        Whether there are any.

    Raises:
        ModelFileError: a node is malformed, or what it returns cannot be told.
    """
    graphs: list[Any] = [model.graph, *model.functions.values()]
    nodes = [node for graph in graphs for node in graph.all_nodes() if (node.domain, node.op_type) == (DOMAIN, OP_TYPE)]
    for node in nodes:
        if "arguments" not in node.attributes:
            if any(value is not None and value.dtype is None for value in node.inputs):
                # Nodes before this one may have been rewritten, so that more is known than the file says.
                ShapeInferencePass(check_type=False, strict_mode=False, data_prop=False)(model)
            _rewrite(node)
        kinds = node.attributes["output_types"].as_ints()
        for value, kind in zip(node.outputs, kinds, strict=False):
            value.type = value.type or ir.TensorType(ir.DataType(kind))
    return bool(nodes)


def _rewrite(node: ir.Node) -> None:
    call = decode(node)
    target = torch_operators.operator_object(call.operator)
    values = {
        name: _with(value, lambda each: Input(each.kind, node.inputs[each.value]))
        for name, value in call.arguments.items()
    }
    try:
        made = encode(target, (), values, _result(node, target, call))
    except TranslationError as error:
        raise _unclear(node, str(error)) from error
    node.attributes.clear()
    node.attributes.update(made.attributes)
    node.resize_inputs(len(made.inputs))
    for index, value in enumerate(made.inputs):
        node.replace_input_with(index, value)


def _result(node: ir.Node, target: torch._ops.OpOverload, call: AtenCall) -> Any:
    """What stands for the results: tensors of the dtypes that the model says, or that the operator gives."""
    known = [_dtype(value) for value in node.outputs]
    _, returned = torch_operators.declared(target)
    if all(dtype is not None for dtype in known) and all(each.type == "Tensor" for each in returned):
        found = [torch.empty(0, dtype=dtype) for dtype in known]
        if len(found) == len(returned):
            return found[0] if len(found) == 1 else tuple(found)
    with FakeTensorMode() as mode, torch.no_grad():
        arguments = {
            name: _with(value, lambda each: _given(node, each, mode)) for name, value in call.arguments.items()
        }
        try:
            result = target(**arguments)
        except Exception as error:  # whatever an operator raises on sizes that stand for others
            raise _unclear(node, f"{type(error).__name__}: {error}") from error
    if len(leaves(result)) != len(node.outputs):
        count = len(leaves(result))
        raise _unclear(node, f"it has {len(node.outputs)} outputs, and the operator returns {count} values")
    return result


def _given(node: ir.Node, argument: Input, mode: FakeTensorMode) -> Any:
    if argument.kind != "tensor":
        return 1  # a number that only the model knows: most operators take this one
    value = node.inputs[argument.value]
    dtype = _dtype(value)
    if dtype is None:
        raise _unclear(node, f"the model does not say of which type its input '{value.name}' is")
    sizes = [size if isinstance(size, int) else _UNKNOWN_SIZE for size in value.shape or ()]
    with mode:
        return torch.empty(sizes, dtype=dtype)


def _dtype(value: ir.Value) -> torch.dtype | None:
    return None if value.dtype is None else torch_dtype(value.dtype)


def _with(value: Any, change: Any) -> Any:
    """A value in which each `Input` is another."""
    if isinstance(value, list):
        return [_with(item, change) for item in value]
    return change(value) if isinstance(value, Input) else value


def _unclear(node: ir.Node, reason: str) -> ModelFileError:
    called = node.attributes["operator"].as_string()
    return ModelFileError(
        f"The node '{node.name}', which calls {called} in the form of an older exporter, does not say what it returns: "
        f"{reason.rstrip('.')}. Export the model again."
    )
