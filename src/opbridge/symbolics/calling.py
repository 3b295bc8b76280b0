"""Builds one operator of the capture, or one call of a torch.autograd.Function, by a symbolic function."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir
import torch
from torch.fx import Node

from opbridge.base.dtypes import torch_dtype
from opbridge.base.sources import of_function
from opbridge.base.torch_private import torchscript_export
from opbridge.errors import TranslationError
from opbridge.graph.function_calls import FunctionCall
from opbridge.onnx.builder import Builder
from opbridge.onnx.tensor import Tensor
from opbridge.symbolics.equivalents import arguments_in_trace, name_in_trace
from opbridge.symbolics.graph import Call
from opbridge.translations.registry import Translation

__all__ = ["build_function", "build_operator"]


def build_operator(
    builder: Builder,
    entry: Translation,
    node: Node,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    outputs: Sequence[tuple[ir.DataType | None, Any]],
    used: Sequence[bool],
) -> list[Tensor | None]:
    """The nodes of one operator, built by the symbolic function that is registered for it.

    Args:
        builder: Builds the nodes.
        entry: The symbolic function.
        node: The capture's node.
        args: Its positional arguments, tensors as values of the model.
        kwargs: Its keyword arguments.
        outputs: The type and shape of each of its outputs, as torch has them.
        used: Which of the outputs are used; the others may be None.

    Raises:
        TranslationError: see `Call.run`; or it builds other outputs than the operator has.
    """
    with torchscript_export.exporting_for(builder.opset):
        results = _call_operator(builder, entry, node, args, kwargs, outputs)
    return _checked(entry.function, results, outputs, used, "the operator")


def _call_operator(
    builder: Builder,
    entry: Translation,
    node: Node,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    outputs: Sequence[tuple[ir.DataType | None, Any]],
) -> list[Tensor | None]:
    call = Call(builder, entry.function)
    schema: Any = node.target._schema
    in_order, types = _in_order(schema, args, kwargs), [str(argument.type) for argument in schema.arguments]
    name = schema.name + (f".{schema.overload_name}" if schema.overload_name else "")
    if entry.operator == name_in_trace(name):
        in_order = arguments_in_trace(name, in_order)
        types = [""] * len(in_order)
    given = [call.argument(value, declared) for value, declared in zip(in_order, types, strict=True)]
    call.original_node(entry.operator, given, outputs)
    # TorchScript passes the length of a list to functions with this parameter.
    counted = isinstance(node.meta.get("val"), list) and "_outputs" in inspect.signature(entry.function).parameters
    return call.run(given, {"_outputs": len(outputs)} if counted else {})


def build_function(
    builder: Builder,
    call: FunctionCall,
    values: Sequence[Tensor | torch.Tensor],
    sizes: Sequence[Any],
    outputs: Sequence[tuple[ir.DataType | None, Any]],
    used: Sequence[bool],
) -> list[Tensor | None]:
    """The nodes of one call of a torch.autograd.Function, built by its `symbolic` or by the handler of its kind.

    Args:
        builder: Builds the nodes.
        call: The call.
        values: Its tensors.
        sizes: Its symbolic sizes, as numbers or as int64 values of the model.
        outputs: The type and shape of each tensor that it returns.
        used: Which of the outputs are used; the others may be None.

    Raises:
        TranslationError: see `Call.run`; or it builds other outputs than `forward` gives.
    """
    function = call.handler or call.cls.symbolic
    with torchscript_export.exporting_for(builder.opset):
        made = Call(builder, function)
        numbers = [made.value(size) if isinstance(size, Tensor) else size for size in sizes]
        arguments = call.arguments([made.value(value) for value in values], numbers)
        if call.handler is None:
            results = made.run(arguments)
        else:
            results = made.run_handler(arguments, call.keywords(), call.traced[0] if call.traced is not None else None)
    return _checked(function, results, outputs, used, "forward")


def _in_order(schema: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """All arguments in the order of the operator's schema; omitted ones have their defaults."""
    given = list(args)
    for argument in schema.arguments[len(args) :]:
        given.append(kwargs.get(argument.name, argument.default_value if argument.has_default_value() else None))
    return given


def _checked(
    function: Any,
    results: list[Tensor | None],
    outputs: Sequence[tuple[ir.DataType | None, Any]],
    used: Sequence[bool],
    whose: str,
) -> list[Tensor | None]:
    """Checks the number, types and shapes of the results, and returns them."""
    place = of_function(function)
    if len(results) != len(outputs):
        raise TranslationError(
            f"The symbolic function {place}: It returned {len(results)} values, but {whose} has {len(outputs)} "
            "outputs. Return a tuple with one value for each output, in order."
        )
    for position, (result, (dtype, shape)) in enumerate(zip(results, outputs, strict=True)):
        which = f"output {position}" if len(outputs) > 1 else "its output"
        if result is None and used[position]:
            raise TranslationError(
                f"The symbolic function {place}: It returned None for {which}. Return the value of g.op; None is "
                "valid only for outputs that the model does not use."
            )
        if result is None or not isinstance(result.type, ir.TensorType) or dtype is None:
            continue
        if result.dtype != dtype:
            raise TranslationError(
                f"The symbolic function {place}: It returns {which} with type {_name(result.dtype)}, but {whose} "
                f"has type {_name(dtype)}. Cast it: g.op('Cast', value, to_i={int(dtype)})."
            )
        if result.shape is not None and shape is not None and not _agree(list(result.shape), shape):
            raise TranslationError(
                f"The symbolic function {place}: It returns {which} with shape {_shown(list(result.shape))}, but "
                f"{whose} has shape {_shown(shape)}. Correct the symbolic function."
            )
    return results


def _agree(left: Sequence[Any], right: Sequence[Any]) -> bool:
    """Whether two shapes can be equal, as far as they are known."""
    if len(left) != len(right):
        return False
    return all(a == b for a, b in zip(left, right, strict=True) if isinstance(a, int) and isinstance(b, int))


def _shown(shape: Sequence[Any]) -> str:
    return f"[{', '.join(str(size) if isinstance(size, (int, str)) else '?' for size in shape)}]"


def _name(dtype: ir.DataType | None) -> str:
    return str(torch_dtype(dtype)).removeprefix("torch.") if dtype is not None else "unknown"
