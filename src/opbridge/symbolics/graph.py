"""One call of a symbolic function, on a `torch._C.Graph` of its own.

The function and torch.onnx.symbolic_helper expect values of a TorchScript graph. The arguments have the form that the
TorchScript exporter gives them:

    tensor                  a value with dtype and sizes, None for a size that is known only at run time;
                            onnx::Constant where it is a constant of the model
    int, float, bool        onnx::Constant with a tensor without dimensions (int64, float64, bool)
    list of these           onnx::Constant with a tensor of one dimension (floats: float32);
                            prim::ListConstruct where one of them is known only at run time
    dtype, layout, format   onnx::Constant with torch's number of it
    string                  onnx::Constant with the string
    None, device            prim::Constant of NoneType
    list of tensors         prim::ListConstruct

`copying` copies the nodes that it builds into the model.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import onnx_ir as ir
import torch

from opbridge.base.dtypes import torch_dtype
from opbridge.base.sources import of_function, raised_at
from opbridge.base.torch_private import torchscript_graph
from opbridge.errors import OpbridgeError, TranslationError
from opbridge.onnx.builder import Builder
from opbridge.onnx.tensor import Tensor
from opbridge.symbolics.copying import Copy
from opbridge.symbolics.emitting import as_torch
from opbridge.symbolics.schemas import check_call

__all__ = ["Call", "failing"]


_NOT_PARSED = ("v", "none")
"""The kinds of `@parse_args` that leave a value as it is."""

_graphs: weakref.WeakKeyDictionary[Builder, list[Any]] = weakref.WeakKeyDictionary()


class Call:
    """One call of a symbolic function.

    It is made and used in `opbridge.base.torch_private.torchscript_export.exporting_for`.

    Args:
        builder: Builds the nodes, at its opset.
        function: The symbolic function.
    """

    def __init__(self, builder: Builder, function: Callable[..., Any]) -> None:
        self.builder = builder
        self.function = function
        torchscript_graph.reset_shape_inference(builder.opset)
        self.context = torchscript_graph.new_context(builder.opset, check_call)
        self._inputs: dict[int, tuple[Tensor, Any]] = {}
        # A function may keep a value from one call to the next by mistake, and a value does not keep its graph alive.
        _graphs.setdefault(builder, []).append(self.context)

    def run_handler(self, arguments: Sequence[Any], keywords: Mapping[str, Any], node: Any) -> list[Tensor | None]:
        """Calls a symbolic function of `prim::PythonOp`.

        It may have any of the forms that releases of torch have used: `(g, *args, **kwargs)`, with the original node as
        `g.original_node`; `(g, n, *args, **kwargs)`, with the node as n; `(ctx, g, *args, **kwargs)`, with the node
        as `ctx.cur_node`.
        """
        self.context.original_node = node
        names = list(inspect.signature(self.function).parameters)
        if names[:1] == ["ctx"]:
            function = self.function
            ctx = SimpleNamespace(cur_node=node, onnx_block=self.context.block, env={}, params_dict={})
            self.function = functools.wraps(function)(lambda g, *args, **kwargs: function(ctx, g, *args, **kwargs))
        elif names[1:2] in (["n"], ["node"]):
            arguments = [node, *arguments]
        return self.run(arguments, keywords)

    def run(self, arguments: Sequence[Any], keywords: Mapping[str, Any] | None = None) -> list[Tensor | None]:
        """Calls the function and copies what it built into the model.

        Args:
            arguments: After `g`; values of the graph come from `value` and `constant`.
            keywords: By name.

        Returns:
            The results, one for each value that it returned; None for an unused output.

        Raises:
            TranslationError: It raised, or what it returned or built cannot be used. The message has its file and line.
        """
        with failing(self.function), torch.no_grad():
            returned = self.function(self.context, *self._parsed(arguments), **(keywords or {}))
            results = list(returned) if isinstance(returned, (list, tuple)) else [returned]
            for result in results:
                self._check(result)
            copy = Copy(
                self.builder,
                {value: tensor for tensor, value in self._inputs.values()},
                self.context.functions,
            )
            return copy.run(self.context.graph, results)

    def _parsed(self, arguments: Sequence[Any]) -> list[Any]:
        """The arguments, with constants where `@parse_args` asks for one and the model's weight or buffer is given."""
        given = list(arguments)
        tensors = {value: tensor for tensor, value in self._inputs.values()}
        names = list(inspect.signature(self.function).parameters)[1:]
        for place, kind in enumerate(torchscript_graph.parsed_kinds(self.function)[: len(given)]):
            if kind in _NOT_PARSED or not torchscript_graph.is_value(given[place]) or given[place] not in tensors:
                continue
            known = tensors[given[place]].const_value
            if known is None:
                name = names[place] if place < len(names) else str(place)
                raise TranslationError(
                    f"Its argument '{name}' is declared as a constant, '{kind}' in @parse_args, and the model computes "
                    "it from its inputs. Declare it as a value, 'v', and use it as an input of nodes."
                )
            given[place] = self.value(as_torch(known))
        return given

    def _check(self, result: Any) -> None:
        if result is None:
            return
        if not torchscript_graph.is_value(result):
            raise TranslationError(
                f"It returned a {type(result).__name__}. A symbolic function must return the values of g.op, one "
                "for each output of the operator."
            )
        if result.node().owningBlock() is not self.context.graph.block():
            raise TranslationError(
                "It returned a value of another graph. Build every node with the g of this call, and do not keep "
                "values between calls."
            )

    # Arguments

    def value(self, tensor: Tensor | torch.Tensor) -> Any:
        """The graph's value for a value of the model, or a constant for a tensor."""
        if isinstance(tensor, torch.Tensor):
            return self.context.op("Constant", value_t=tensor.detach())
        known = self._inputs.get(id(tensor))
        if known is None:
            value = self.context.graph.addInput()
            if isinstance(tensor.type, ir.TensorType) and tensor.shape is not None:
                _set_type(value, tensor.type.dtype, list(tensor.shape))
            known = self._inputs[id(tensor)] = tensor, value
        return known[1]

    def argument(self, given: Any, declared: str = "") -> Any:
        """An operator's argument in the form in which TorchScript passes it.

        Args:
            given: The argument; tensors are values of the model already.
            declared: Its type in the schema, such as "List[int]"; it gives the element type of an empty list.
        """
        if isinstance(given, (Tensor, torch.Tensor)):
            return self.value(given)
        if given is None or isinstance(given, torch.device):
            return torchscript_graph.none_value(self.context.graph)
        if isinstance(given, str):
            return self.context.op("Constant", value_s=given)
        if isinstance(given, (torch.dtype, torch.layout, torch.memory_format)):
            return self.context.op("Constant", value_t=torch.tensor(torchscript_graph.setting_code(given)))
        if isinstance(given, (list, tuple)):
            return self._list(given, declared)
        return self.context.op("Constant", value_t=_number(given))

    def _list(self, given: Sequence[Any], declared: str) -> Any:
        if not given and "Tensor" not in declared:
            dtype = torch.float32 if "float" in declared else torch.int64
            return self.context.op("Constant", value_t=torch.tensor([], dtype=dtype))
        if all(isinstance(item, (int, float)) for item in given):
            dtype = torch.float32 if any(isinstance(item, float) for item in given) else None
            return self.context.op("Constant", value_t=torch.tensor(given, dtype=dtype))
        items = [self.argument(item) for item in given]
        of_tensors = any(
            isinstance(item, torch.Tensor) or (isinstance(item, Tensor) and item.shape != ir.Shape([]))
            for item in given
        )
        return torchscript_graph.list_value(self.context.graph, items, of_tensors=of_tensors)

    def original_node(
        self, kind: str, arguments: Sequence[Any], outputs: Sequence[tuple[ir.DataType | None, Any]]
    ) -> None:
        """Sets `g.original_node` to a node of the operator, whose outputs have dtypes and sizes."""
        values = [each for each in arguments if torchscript_graph.is_value(each)]
        node = self.context.graph.create(kind, values, len(outputs))
        for output, (dtype, shape) in zip(node.outputs(), outputs, strict=True):
            if dtype is not None and shape is not None:
                _set_type(output, dtype, shape)
        self.context.original_node = node


def _set_type(value: Any, dtype: ir.DataType, shape: Sequence[Any]) -> None:
    sizes = [size if isinstance(size, int) else None for size in shape]
    torchscript_graph.set_tensor_type(value, torch_dtype(dtype), sizes)


def _number(given: Any) -> torch.Tensor:
    if isinstance(given, bool):
        return torch.tensor(given)
    if isinstance(given, int):
        return torch.tensor(given, dtype=torch.int64)
    if isinstance(given, float):
        return torch.tensor(given, dtype=torch.float64)
    raise TranslationError(f"Arguments of type {type(given).__name__} are not supported in symbolic functions.")


@contextlib.contextmanager
def failing(function: Callable[..., Any]) -> Iterator[None]:
    """Turns any error of a symbolic function into a TranslationError with the user's file and line."""
    try:
        yield
    except OpbridgeError as error:
        line = raised_at(error)
        where = f" at {line}" if line is not None else ""
        raise TranslationError(f"The symbolic function {of_function(function)}{where}: {error}") from error
    except Exception as error:
        place = str(raised_at(error) or of_function(function))
        kind = "" if isinstance(error, (RuntimeError, TypeError, ValueError)) else f"{type(error).__name__}: "
        text = " ".join(str(error).split()) or type(error).__name__
        if "owningGraph()" in text:
            text = "It used a value of another graph. Do not keep values between calls"
        shown = f" Its parameters are {inspect.signature(function)}." if isinstance(error, TypeError) else ""
        raise TranslationError(
            f"The symbolic function {of_function(function)} raised at {place}: {kind}{text.rstrip('.')}.{shown}"
        ) from error
