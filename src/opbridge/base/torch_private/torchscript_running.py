"""Runs functions of TorchScript operator by operator in Python, so that modes see them and sizes may be symbolic.

Checked on torch 2.13.0, 2.14.1 and 2.15.0.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from opbridge.base.torch_private import torch_operators

__all__ = ["running_in_python", "signature_of"]


def signature_of(function: Any) -> list[tuple[str, bool, Any]]:
    """The parameters of a function or method, without `self`: (name, whether it has a default, default)."""
    arguments = function.schema.arguments
    if isinstance(function, torch._C.ScriptMethod):
        arguments = arguments[1:]
    return [(each.name, each.has_default_value(), each.default_value) for each in arguments]


@contextlib.contextmanager
def running_in_python(state: Callable[[torch.Tensor], torch.Tensor]) -> Iterator[None]:
    """Within this context, functions and methods of TorchScript are run by Python.

    Args:
        state: What stands for a tensor of a module of TorchScript's.
    """
    script: Any = torch._C
    kept = script.ScriptMethod.__call__, script.ScriptFunction.__call__
    running = _Running(state)

    def call_method(method: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            graph = method.graph
        except RuntimeError:  # a method in C++, such as those of packed weights
            return kept[0](method, *args, **kwargs)
        # The graph's first input is the module, and only the method itself knows it.
        return running.call(graph, method.schema, (method.owner, *args), kwargs)

    def call_function(function: Any, *args: Any, **kwargs: Any) -> Any:
        return running.call(function.graph, function.schema, args, kwargs)

    script.ScriptMethod.__call__, script.ScriptFunction.__call__ = call_method, call_function
    try:
        yield
    finally:
        script.ScriptMethod.__call__, script.ScriptFunction.__call__ = kept


class _Running:
    """Runs graphs of TorchScript's.

    Attributes that methods set last as long as this object.
    """

    def __init__(self, state: Callable[[torch.Tensor], torch.Tensor]) -> None:
        self._state = state
        self._set: dict[tuple[int, str], Any] = {}
        self._owners: list[Any] = []  # kept, so that no other object gets their numbers

    def call(self, graph: Any, schema: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """What a function returns.

        Raises:
            NotImplementedError: TorchScript has an instruction that is not known here.
            TypeError: The arguments do not fit.
        """
        given = list(args)
        for argument in schema.arguments[len(given) :]:
            if argument.name not in kwargs and not argument.has_default_value():
                raise TypeError(f"{schema.name}() is missing the argument '{argument.name}'.")
            given.append(kwargs.get(argument.name, argument.default_value))
        inlined = graph.copy()
        torch._C._jit_pass_inline(inlined)
        values = {value.debugName(): item for value, item in zip(inlined.inputs(), given, strict=True)}
        returned = self._block(inlined, values)
        return returned[0] if len(returned) == 1 else tuple(returned)

    def _block(self, block: Any, values: dict[str, Any]) -> list[Any]:
        """Runs the nodes of a graph or block, and gives its outputs."""
        for node in block.nodes():
            results = self._node(node, values)
            for output, result in zip(node.outputs(), results, strict=True):
                values[output.debugName()] = result
        return [values[output.debugName()] for output in block.outputs()]

    def _node(self, node: Any, values: dict[str, Any]) -> Sequence[Any]:
        kind = node.kind()
        if kind == "prim::Constant":
            return [node.output().toIValue()]
        inputs = [values[each.debugName()] for each in node.inputs()]
        if kind == "prim::If":
            blocks = list(node.blocks())
            return self._block(blocks[0] if inputs[0] else blocks[1], values)
        if kind == "prim::Loop":
            return self._loop(node, inputs, values)
        if kind == "prim::GetAttr":
            return [self._attribute(inputs[0], node.s("name"))]
        if kind == "prim::SetAttr":
            self._owners.append(inputs[0])
            self._set[_identity(inputs[0]), node.s("name")] = inputs[1]
            return []
        if kind == "prim::CallMethod":
            method = inputs[0]._get_method(node.s("name"))
            return [self.call(method.graph, method.schema, inputs, {})]
        if kind == "prim::TupleUnpack" or kind == "prim::ListUnpack":
            return list(inputs[0])
        if kind == "prim::RaiseException":
            raise RuntimeError(str(inputs[0]))
        instruction = _INSTRUCTIONS.get(kind)
        if instruction is not None:
            return [instruction(*inputs)]
        if not any(isinstance(each, torch.Tensor) for each in inputs):
            plain = _PLAIN.get(kind.partition("::")[2])
            if plain is not None:
                returned = plain(*inputs)
                return [returned] if node.outputsSize() else []
        returned = _call_operator(node, inputs)
        return [returned] if node.outputsSize() == 1 else list(returned or ())

    def _loop(self, node: Any, inputs: list[Any], values: dict[str, Any]) -> list[Any]:
        most, goes_on, *carried = inputs
        (body,) = node.blocks()
        count = 0
        while goes_on and count < most:
            for name, item in zip(body.inputs(), [count, *carried], strict=True):
                values[name.debugName()] = item
            goes_on, *carried = self._block(body, values)
            count += 1
        return carried

    def _attribute(self, owner: Any, name: str) -> Any:
        known = self._set.get((_identity(owner), name), _ABSENT)
        if known is not _ABSENT:
            return known
        value = owner.getattr(name) if isinstance(owner, torch._C.ScriptObject) else getattr(owner, name)
        return self._state(value) if isinstance(value, torch.Tensor) else value


_ABSENT = object()


def _identity(owner: Any) -> int:
    """A number for an object of TorchScript's, for which Python has a new object each time."""
    return hash(owner)


def _call_operator(node: Any, inputs: list[Any]) -> Any:
    """Calls an operator of torch's, as eager PyTorch would with these arguments."""
    schema = torch._C.parse_schema(node.schema())
    namespace, _, name = schema.name.partition("::")
    overload = schema.overload_name
    packet = getattr(getattr(torch.ops, namespace), name, None)
    if packet is None:
        raise NotImplementedError(f"TorchScript's {schema.name} is not known.")
    if overload == "Scalar" and name.rstrip("_") in _TAKING_NUMBERS_AS_TENSORS:
        overload = "Tensor"
    target = getattr(packet, overload or "default")
    args, kwargs = [], {}
    for argument, declared, value in zip(
        target._schema.arguments, torch_operators.declared(target)[0], inputs, strict=True
    ):
        value = torch_operators.setting(declared.type, value)
        if argument.kwarg_only:
            kwargs[argument.name] = value
        else:
            args.append(value)
    return target(*args, **kwargs)


_TAKING_NUMBERS_AS_TENSORS = frozenset({"add", "sub", "mul", "div"})


def _dict(*items: Any) -> dict[Any, Any]:
    return dict(zip(items[::2], items[1::2], strict=True))


def _format(text: str, *values: Any) -> str:
    return text.format(*values)


def _set_item(container: Any, key: Any, value: Any) -> Any:
    container[key] = value
    return container


def _append(values: list[Any], value: Any) -> list[Any]:
    values.append(value)
    return values


def _slice(values: Any, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
    return values[start:end:step]


def _range_length(low: int, high: int, step: int) -> int:
    return len(range(low, high, step))


def _list(*items: Any) -> list[Any]:
    return list(items)


# What has no operator of the same name that Python can call, whatever it is called with.
_INSTRUCTIONS: dict[str, Callable[..., Any]] = {
    "prim::ListConstruct": _list,
    "prim::TupleConstruct": lambda *items: items,
    "prim::TupleIndex": operator.getitem,
    "prim::DictConstruct": _dict,
    "prim::NumToTensor": lambda number: torch.tensor(number),
    "prim::Uninitialized": lambda: None,
    "prim::unchecked_cast": lambda value: value,
    "prim::unchecked_unwrap_optional": lambda value: value,
    "prim::device": lambda tensor: tensor.device,
    "prim::dtype": lambda tensor: tensor.dtype,
    "prim::layout": lambda tensor: tensor.layout,
    "prim::is_cuda": lambda tensor: tensor.is_cuda,
    "prim::requires_grad": lambda tensor: tensor.requires_grad,
    "prim::shape": lambda tensor: list(tensor.shape),
    "prim::min": min,
    "prim::max": max,
    "prim::Print": print,
    "aten::size": lambda tensor, *dim: tensor.shape[dim[0]] if dim else list(tensor.shape),
    "aten::dim": lambda tensor: tensor.dim(),
    "aten::numel": lambda tensor: tensor.numel(),
    "aten::len": len,
    "aten::Int": int,
    "aten::Float": float,
    "aten::Bool": bool,
    "aten::IntImplicit": int,
    "aten::FloatImplicit": float,
    "aten::ScalarImplicit": lambda tensor: tensor.item(),
    "aten::item": lambda tensor: tensor.item(),
    "aten::__is__": operator.is_,
    "aten::__isnot__": operator.is_not,
    "aten::__not__": operator.not_,
    "aten::__getitem__": operator.getitem,
    "aten::__contains__": operator.contains,
    "aten::_set_item": _set_item,
    "aten::append": _append,
    "aten::format": _format,
    "aten::__range_length": _range_length,
    "aten::__derive_index": lambda index, start, step: start + index * step,
    "aten::warn": lambda *values: None,
    "aten::list": list,
    "aten::keys": lambda values: list(values.keys()),
    "aten::values": lambda values: list(values.values()),
    "aten::items": lambda values: list(values.items()),
    "aten::is_floating_point": lambda tensor: tensor.is_floating_point(),
}

# Operators of numbers, strings and lists.
_PLAIN: dict[str, Callable[..., Any]] = {
    "add": lambda a, b, alpha=1: a + b if alpha == 1 else a + alpha * b,
    "add_": lambda a, b: operator.iadd(a, b),
    "sub": lambda a, b, alpha=1: a - alpha * b,
    "mul": operator.mul,
    "div": operator.truediv,
    "floordiv": operator.floordiv,
    "remainder": operator.mod,
    "pow": operator.pow,
    "neg": operator.neg,
    "abs": abs,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "__and__": operator.and_,
    "__or__": operator.or_,
    "__xor__": operator.xor,
    "slice": _slice,
    "floor": lambda value: int(value // 1),
    "ceil": lambda value: int(-(-value // 1)),
    "sqrt": lambda value: torch.sym_sqrt(value),
}
