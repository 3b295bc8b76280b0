"""The arguments of a symbolic function, converted by the schema of the operator.

TorchScript passes all arguments as values of a graph, and identifies an operator by its base name alone. This module
converts constants back to Python values, and chooses the overload whose schema the arguments fit:

1. An overload has as many parameters as there are arguments; TorchScript writes out every default.
2. Each argument is of its parameter's kind. A number may stand for a tensor and the other way round, but an overload
   that needs no such conversion is preferred.
3. Of overloads that fit equally, the one of torch's own schema for the node is chosen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

__all__ = ["Constant", "Misfit", "RuntimeValue", "choose", "read"]

_LAYOUTS = ("torch.strided", "torch.sparse_coo", "torch.sparse_csr", "torch._mkldnn")
_FORMATS = ("torch.contiguous_format", "torch.preserve_format", "torch.channels_last", "torch.channels_last_3d")


class Misfit(Exception):
    """An argument is not of its parameter's kind."""


@dataclass(frozen=True)
class Constant:
    """A tensor or number that is a constant: its content, and its value in the graph."""

    tensor: torch.Tensor
    value: Any

    @property
    def is_number(self) -> bool:
        """Whether it may be a Python number: TorchScript keeps these as tensors without dimensions."""
        return self.tensor.dim() == 0 and self.tensor.dtype in (torch.int64, torch.float64, torch.bool)


@dataclass(frozen=True)
class RuntimeValue:
    """A tensor or number that is known only at run time.

    Attributes:
        value: Its value in the graph.
        dtype: Its dtype.
        rank: Its number of dimensions.
        sizes: Its sizes, None for dynamic ones. They are known only for weights and for the model's inputs; any other
            size in a trace is the example's.
    """

    value: Any
    dtype: torch.dtype | None
    rank: int | None
    sizes: tuple[int | None, ...] | None


def read(graph: Any, value: Any, original: Any) -> Any:
    """Reads an argument as None, a string, a Constant, a RuntimeValue or a list of these.

    Args:
        graph: The ONNX graph being built.
        value: The argument, a value of that graph.
        original: The same argument in the graph of the trace, whose types are the example's; or None.
    """
    node = value.node()
    if node.kind() == "prim::ListConstruct":
        inner = list(original.node().inputs()) if original is not None else []
        items = list(node.inputs())
        if len(inner) != len(items):
            inner = [None] * len(items)
        return [read(graph, item, each) for item, each in zip(items, inner, strict=True)]
    if node.kind() in ("onnx::Constant", "prim::Constant"):
        if node.kind() == "prim::Constant" and (node.mustBeNone() or not node.hasAttribute("value")):
            return None if node.mustBeNone() else _plain(value, value.toIValue())
        kind = node.kindOf("value")
        found = (
            node.t("value") if kind == "t" else value.toIValue() if node.kind() == "prim::Constant" else node.s("value")
        )
        return _plain(value, found)
    return _live(graph, value, original)


def _plain(value: Any, found: Any) -> Any:
    if found is None or isinstance(found, str):
        return found
    if isinstance(found, torch.Tensor):
        return Constant(found, value)
    if isinstance(found, (bool, int, float)):
        dtype = torch.bool if isinstance(found, bool) else torch.int64 if isinstance(found, int) else torch.float64
        return Constant(torch.tensor(found, dtype=dtype), value)
    if isinstance(found, (list, tuple)) and all(isinstance(item, (bool, int, float)) for item in found):
        dtype = torch.float64 if any(isinstance(item, float) for item in found) else None
        return Constant(torch.tensor(found, dtype=dtype), value)
    return str(found)


def _live(graph: Any, value: Any, original: Any) -> RuntimeValue:
    types = [each.type() for each in (original, value) if each is not None]
    tensors = [kind for kind in types if kind.kind() == "TensorType"]
    dtype = next((found for kind in tensors if (found := kind.dtype()) is not None), None)
    rank = next((found for kind in tensors if (found := kind.dim()) is not None), None)
    if original is not None and dtype is None and (number := _NUMBERS.get(types[0].kind())):
        dtype, rank = number, 0
    sizes = None
    if value.node().kind() == "prim::Param" and any(value is each for each in graph.inputs()):
        known = value.type().varyingSizes() if value.type().kind() == "TensorType" else None
        sizes = None if known is None else tuple(known)
    if not tensors and types[-1].kind() not in _NUMBERS:
        raise Misfit(f"its argument is a {types[-1]}, not a tensor")
    return RuntimeValue(value, dtype, rank, sizes)


_NUMBERS = {"IntType": torch.int64, "FloatType": torch.float64, "BoolType": torch.bool}


def choose(overloads: Iterable[tuple[str, Any]], arguments: Sequence[Any], named: str) -> tuple[str, Any, list[Any]]:
    """The overload that arguments fit best.

    Args:
        overloads: Names and `torch.FunctionSchema`s.
        arguments: From `read`.
        named: torch's own schema for the node, as text.

    Returns:
        The overload's name and schema, and its arguments: Python values, `Constant`s and `RuntimeValue`s.

    Raises:
        Misfit: none fits; why not.
    """
    fitting: list[tuple[float, str, Any, list[Any]]] = []
    reasons = []
    for name, schema in overloads:
        parameters = [each for each in schema.arguments if not each.is_out]
        if len(parameters) != len(arguments):
            reasons.append(f"{name} has {len(parameters)} parameters, but {len(arguments)} arguments were given")
            continue
        cost = 0.0 if named.startswith(f"{name}(") else 0.5
        try:
            converted = []
            for parameter, argument in zip(parameters, arguments, strict=True):
                each, price = _convert(str(parameter.real_type), argument)
                converted.append(each)
                cost += price
        except Misfit as misfit:
            reasons.append(f"{name}: '{parameter.name}' {misfit}")
            continue
        fitting.append((cost, name, schema, converted))
    if not fitting:
        others = f" (and {len(reasons) - 1} more overloads do not match)" if len(reasons) > 1 else ""
        raise Misfit(f"{reasons[0]}{others}" if reasons else "none of its overloads has a translation at this opset")
    _, name, schema, converted = min(fitting, key=lambda each: each[0])
    return name, schema, converted


def _convert(kind: str, argument: Any) -> tuple[Any, float]:
    """Converts an argument for a parameter of a kind; returns it with a cost, which is 0 for an exact fit."""
    inner = re.fullmatch(r"Optional\[(.*)\]", kind)
    if inner:
        return (None, 0.0) if argument is None else _convert(inner[1], argument)
    if argument is None:
        raise Misfit("is None")
    if kind == "Tensor":
        return _tensor(argument)
    listed = re.fullmatch(r"List\[(.*)\]", kind)
    if listed:
        return _list(listed[1], argument)
    if kind in ("str", "Device", "Generator"):
        if isinstance(argument, str):
            return argument, 0.0
        raise Misfit("is not a string")
    return _number(kind, argument)


def _tensor(argument: Any) -> tuple[Any, float]:
    if isinstance(argument, Constant):
        return argument, 1.0 if argument.is_number else 0.0
    if isinstance(argument, RuntimeValue):
        return argument, 0.0
    raise Misfit("is not a tensor")


def _number(kind: str, argument: Any) -> tuple[Any, float]:
    if isinstance(argument, RuntimeValue):
        if argument.rank not in (0, None) or kind not in ("int", "SymInt", "number", "float"):
            raise Misfit("is not a number")
        # A tensor without dimensions, which fits a parameter that is a tensor better.
        return argument, 2.0
    if not isinstance(argument, Constant) or argument.tensor.numel() != 1:
        raise Misfit("is not a number")
    number = argument.tensor.item()
    if kind in ("int", "SymInt", "ScalarType", "Layout", "MemoryFormat") and isinstance(number, float):
        raise Misfit("is not an integer")
    if kind == "ScalarType":
        return _DTYPES[int(number)], 0.0
    if kind == "Layout":
        return _LAYOUTS[int(number)], 0.0
    if kind == "MemoryFormat":
        return _FORMATS[int(number)], 0.0
    if kind == "bool":
        return bool(number), 0.0 if argument.tensor.dtype == torch.bool else 0.5
    if kind == "float":
        return float(number), 0.0
    if kind in ("int", "SymInt"):
        return int(number), 0.0
    return number, 0.0


def _list(kind: str, argument: Any) -> tuple[Any, float]:
    if isinstance(argument, Constant) and "Tensor" not in kind:
        items = argument.tensor.reshape(-1).tolist()
        if kind in ("int", "SymInt") and any(isinstance(item, float) for item in items):
            raise Misfit("holds fractions")
        # A single number may stand for a list, but fits a parameter that is a number better.
        return [float(item) for item in items] if kind == "float" else items, 0.0 if argument.tensor.dim() else 1.0
    if (
        isinstance(argument, RuntimeValue)
        and "Tensor" not in kind
        and argument.rank == 1
        and argument.dtype == torch.int64
    ):
        return argument, 0.5
    if not isinstance(argument, list):
        raise Misfit("is not a list")
    converted = [_convert(kind, item) for item in argument]
    return [item for item, _ in converted], sum(cost for _, cost in converted)


# By torch's own number of a dtype; the quantized ones are left out.
_DTYPES = {
    0: torch.uint8,
    1: torch.int8,
    2: torch.int16,
    3: torch.int32,
    4: torch.int64,
    5: torch.float16,
    6: torch.float32,
    7: torch.float64,
    8: torch.complex32,
    9: torch.complex64,
    10: torch.complex128,
    11: torch.bool,
    15: torch.bfloat16,
}
