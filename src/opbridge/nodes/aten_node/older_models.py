"""Models with `aten` nodes of the older form, rewritten into the form that the kernel runs (see `format`).

The older form stores neither the operator's schema nor the types of the results. The schema is that of the installed
torch; the types are those in the model, or those of a call of the operator on fake tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_ir as ir
import torch
from onnx_ir.passes.common import ShapeInferencePass
from torch._subclasses.fake_tensor import FakeTensorMode

from opbridge.base.dtypes import torch_dtype
from opbridge.base.torch_private import torch_operators
from opbridge.errors import ModelFileError, TranslationError
from opbridge.nodes.aten_node.call import AtenCall
from opbridge.nodes.aten_node.decoding import decode
from opbridge.nodes.aten_node.encoding import encode
from opbridge.nodes.aten_node.format import DOMAIN, OP_TYPE, Input, leaves

__all__ = ["to_current_bytes", "to_current_form"]

_UNKNOWN_SIZE = 2
"""The size that fake tensors have in a dimension that is known only at run time."""


def to_current_bytes(model: str | bytes) -> bytes:
    """The content of an ONNX file with all its `aten` nodes in the current form.

    Args:
        model: The path of the file, or its content.

    Raises:
        ModelFileError: A node is malformed, or the types of its results cannot be determined.
    """
    from opbridge.onnx import reading, serialize

    loaded = reading.load(model)
    to_current_form(loaded)
    return serialize.to_bytes(loaded)


def to_current_form(model: ir.Model) -> bool:
    """Rewrites the `aten` nodes of the older form in place, and sets the types of the outputs of all `aten` nodes.

    Returns:
        Whether the model has `aten` nodes.

    Raises:
        ModelFileError: A node is malformed, or the types of its results cannot be determined.
    """
    graphs: list[Any] = [model.graph, *model.functions.values()]
    nodes = [node for graph in graphs for node in graph.all_nodes() if (node.domain, node.op_type) == (DOMAIN, OP_TYPE)]
    for node in nodes:
        if "arguments" not in node.attributes:
            if any(value is not None and value.dtype is None for value in node.inputs):
                # A node before this one may have been rewritten, so that types can be inferred that the file lacks.
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
        name: _map_inputs(value, lambda each: Input(each.kind, node.inputs[each.value]))
        for name, value in call.arguments.items()
    }
    try:
        encoded = encode(target, (), values, _example_result(node, target, call))
    except TranslationError as error:
        raise _unclear(node, str(error)) from error
    node.attributes.clear()
    node.attributes.update(encoded.attributes)
    node.resize_inputs(len(encoded.inputs))
    for index, value in enumerate(encoded.inputs):
        node.replace_input_with(index, value)


def _example_result(node: ir.Node, target: torch._ops.OpOverload, call: AtenCall) -> Any:
    """A result with the right dtypes: tensors of the dtypes in the model, or the operator's result on fake tensors."""
    known = [_dtype(value) for value in node.outputs]
    _, returned = torch_operators.declared(target)
    if all(dtype is not None for dtype in known) and all(each.type == "Tensor" for each in returned):
        found = [torch.empty(0, dtype=dtype) for dtype in known]
        if len(found) == len(returned):
            return found[0] if len(found) == 1 else tuple(found)
    with FakeTensorMode() as mode, torch.no_grad():
        arguments = {
            name: _map_inputs(value, lambda each: _example_input(node, each, mode))
            for name, value in call.arguments.items()
        }
        try:
            result = target(**arguments)
        except Exception as error:  # an operator may raise anything on sizes that are not the real ones
            raise _unclear(node, f"{type(error).__name__}: {error}") from error
    if len(leaves(result)) != len(node.outputs):
        count = len(leaves(result))
        raise _unclear(node, f"it has {len(node.outputs)} outputs, but the operator returns {count} values")
    return result


def _example_input(node: ir.Node, argument: Input, mode: FakeTensorMode) -> Any:
    """A fake tensor or a number in the place of an input.

    Raises:
        ModelFileError: The model does not give the input's type.
    """
    if argument.kind != "tensor":
        return 1  # a number that is known only at run time; most operators accept this value
    value = node.inputs[argument.value]
    dtype = _dtype(value)
    if dtype is None:
        raise _unclear(node, f"the type of its input '{value.name}' is unknown")
    sizes = [size if isinstance(size, int) else _UNKNOWN_SIZE for size in value.shape or ()]
    with mode:
        return torch.empty(sizes, dtype=dtype)


def _dtype(value: ir.Value) -> torch.dtype | None:
    return None if value.dtype is None else torch_dtype(value.dtype)


def _map_inputs(value: Any, change: Callable[[Input], Any]) -> Any:
    """A value, or nested lists of values, in which each `Input` is replaced by `change` of it."""
    if isinstance(value, list):
        return [_map_inputs(item, change) for item in value]
    return change(value) if isinstance(value, Input) else value


def _unclear(node: ir.Node, reason: str) -> ModelFileError:
    called = node.attributes["operator"].as_string()
    return ModelFileError(
        f"The node '{node.name}', which calls {called} in the form of an older exporter, has no known output "
        f"types: {reason.rstrip('.')}. Export the model again."
    )
