"""The routes `aten` and `fallthrough`: an operator becomes one node that stands for it, instead of being translated.

aten            the node of `aten_node`, which a kernel hands to libtorch
fallthrough     the node of `fallthrough_node`, for a kernel that the user brings
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import onnx_ir as ir
import torch
from torch.fx import Node

from opbridge.base.dtypes import onnx_dtype
from opbridge.base.torch_private import torch_operators
from opbridge.errors import OpbridgeError, TranslationError
from opbridge.graph.function_calls import call_of
from opbridge.graph.operators import functional_name
from opbridge.nodes import aten_node, fallthrough_node
from opbridge.nodes.aten_node import Input

if TYPE_CHECKING:
    from opbridge.onnx.builder import Builder
    from opbridge.onnx.tensor import Tensor

__all__ = ["ROUTES", "Values", "build", "carrying", "gives_tensors", "obstacle", "permissions", "permitting"]

ROUTES = ("aten", "fallthrough")

_MEANS = {"aten": "which needs libtorch beside the runtime", "fallthrough": "for which you bring the kernel"}
"""What taking a route that is not allowed by default means for the file."""

_NUMBERS: dict[type, str] = {torch.SymInt: "input_int", torch.SymFloat: "input_float", torch.SymBool: "input_bool"}


@dataclass(frozen=True)
class Values:
    """What the nodes of the captured graph stand for in the ONNX graph.

    Attributes:
        resolve: A node's value: a value of the graph, a torch tensor, a number, or a list of these.
        as_tensor: Such a tensor or number as a value of the graph.
        described: The ONNX type and shape of what torch says of a value.
    """

    resolve: Callable[[Node], Any]
    as_tensor: Callable[[Any], Tensor]
    described: Callable[[Any], tuple[ir.DataType | None, list[int | str] | None]]


def gives_tensors(node: Node) -> bool:
    """Whether a node is a call of torch's dispatcher that returns tensors, and nothing but tensors."""
    found = aten_node.leaves(node.meta.get("val"))
    is_operator = isinstance(node.target, torch._ops.OpOverload)
    return is_operator and bool(found) and all(isinstance(leaf, torch.Tensor) for leaf in found)


def obstacle(node: Node, route: str) -> str | None:
    """Why a node cannot take a route of this module, in a sentence; None where it can."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return "It is no operator of torch's dispatcher, which could be named in a node."
    if call_of(node) is not None:
        return "It is a torch.autograd.Function, which is nothing outside of Python."
    if not aten_node.leaves(node.meta.get("val")):
        return "It returns nothing, and a node without outputs has no part in an ONNX model."
    if not gives_tensors(node):
        return "It does not return tensors, which is all that a node's outputs can be."
    try:
        _encoded(node, route, _itself, lambda number: None)
    except OpbridgeError as error:
        return str(error)
    return None


def carrying(node: Node, allow: Sequence[str], after: str | None = None) -> str | None:
    """The first allowed route, after one that was tried, that needs nothing but the operator itself."""
    first = ROUTES.index(after) + 1 if after in ROUTES else 0
    return next(
        (each for each in ROUTES[first:] if each in allow and not obstacle(node, each)),
        None,
    )


def permissions(nodes: Sequence[Node], allow: Sequence[str]) -> tuple[str, ...]:
    """The routes that are not allowed and would carry these nodes."""
    return tuple(
        route for route in ROUTES if nodes and route not in allow and not any(obstacle(node, route) for node in nodes)
    )


def permitting(permissions: Sequence[str]) -> str:
    """The sentence that says which routes would do, were they allowed."""
    routes = ", or ".join(f"{route}, {_MEANS[route]}" for route in permissions)
    return f" Or allow the route {routes}." if routes else ""


def build(node: Node, route: str, builder: Builder, values: Values) -> Any:
    """Builds the node.

    Returns:
        Its outputs, in the structure in which the operator returns them.

    Raises:
        TranslationError: an argument or result that a node cannot hold.
    """

    def number(value: Any) -> Tensor:
        dtype = _number_dtype(node, value)
        if isinstance(value, ir.Value):
            return builder.emit("Cast", (value,), {"to": onnx_dtype(dtype)})
        return values.as_tensor(torch.tensor(value, dtype=dtype))

    encoded = _encoded(node, route, values.resolve, number)
    inputs = [_as_input(builder, values, value) for value in encoded.inputs]
    result = _read(node) if route == "aten" else node.meta["val"]
    described = [values.described(leaf) for leaf in aten_node.leaves(result)]
    if isinstance(encoded, aten_node.Encoded):
        domain, op_type, version = aten_node.DOMAIN, aten_node.OP_TYPE, aten_node.VERSION
    else:
        domain, op_type, version = encoded.domain, encoded.op_type, 1
    builder.domains.setdefault(domain, version)
    outputs = builder.node(
        op_type,
        inputs,
        encoded.attributes,
        [dtype for dtype, _ in described],
        [None if shape is None else ir.Shape(shape) for _, shape in described],
        domain=domain,
    )
    # What the plan calls its route, for those who read the file.
    builder.nodes[-1].metadata_props["opbridge.route"] = route
    return _structured(result, iter(outputs))


def _encoded(
    node: Node, route: str, resolve: Callable[[Node], Any], number: Callable[[Any], Any]
) -> aten_node.Encoded | fallthrough_node.Encoded:
    """What the node holds.

    Args:
        node: The node of the captured graph.
        route: The route.
        resolve: What an argument stands for.
        number: A number that stands in the place of a tensor, as one.
    """
    target = _functional(node.target)
    declared, _ = torch_operators.declared(target)
    types = {each.name: each.type.rstrip("?") for each in declared}
    names = [each.name for each in declared[: len(node.args)]]
    args = [
        _given(value, types[name], resolve, number) for name, value in zip(names, node.args[: len(names)], strict=True)
    ]
    args += node.args[len(names) :]
    kwargs = {name: _given(value, types.get(name, ""), resolve, number) for name, value in node.kwargs.items()}
    if route == "aten":
        return aten_node.encode(target, args, kwargs, _read(node))
    return fallthrough_node.encode(target, args, kwargs)


def _read(node: Node) -> Any:
    """What the node returns, with None for results that nothing reads: those need no output, and are not copied."""
    result = node.meta["val"]
    readers = [user for user in node.users if user.users or user.target is not operator.getitem]
    picked = [user.args[1] if user.target is operator.getitem else None for user in readers]
    if not isinstance(result, (list, tuple)) or not picked or any(each not in range(len(result)) for each in picked):
        return result
    return [each if place in picked else None for place, each in enumerate(result)]


def _functional(target: Any) -> torch._ops.OpOverload:
    """An operator that writes in place, in its functional form where there is one."""
    name = functional_name(torch_operators.operator_name(target) or "")
    found = None if name is None else torch_operators.operator_object(name)
    if found is None:
        return target
    alike = [each.name for each in found._schema.arguments] == [each.name for each in target._schema.arguments]
    return found if alike else target


def _itself(node: Node) -> Any:
    """What stands for a node before translation: the node, or the tensor that is kept in the graph."""
    if node.op != "get_attr":
        return node
    value: Any = node.graph.owning_module
    for name in str(node.target).split("."):
        value = getattr(value, name)
    return value


def _given(value: Any, type_: str, resolve: Callable[[Node], Any], number: Callable[[Any], Any]) -> Any:
    """An argument in the form that the encoders take."""
    if isinstance(value, (list, tuple)):
        return [_given(item, type_.removesuffix("[]").rstrip("?"), resolve, number) for item in value]
    if isinstance(value, Node):
        resolved = resolve(value)
        described = value.meta.get("val", resolved if isinstance(resolved, torch.Tensor) else None)
        return _placed(resolved, described, type_, number)
    if type_ == "Tensor" and isinstance(value, (int, float, complex)):
        return Input("complex_tensor" if isinstance(value, complex) else "tensor", number(value))
    return value


def _placed(value: Any, described: Any, type_: str, number: Callable[[Any], Any]) -> Any:
    """What a node of the graph stands for, as an argument."""
    if isinstance(value, (list, tuple)) and isinstance(described, (list, tuple)):
        item_type = type_.removesuffix("[]").rstrip("?")
        return [_placed(item, each, item_type, number) for item, each in zip(value, described, strict=True)]
    if isinstance(described, (list, tuple)):
        # Before translation a node stands for itself.
        item_type = type_.removesuffix("[]").rstrip("?")
        return [_placed(value, each, item_type, number) for each in described]
    if isinstance(described, torch.Tensor):
        return Input("complex_tensor" if described.is_complex() else "tensor", value)
    kind = _NUMBERS.get(type(described))
    if kind is None or isinstance(value, (int, float)):
        is_number = type_ == "Tensor" and isinstance(value, (int, float))
        return Input("tensor", number(value)) if is_number else value
    return Input("tensor", number(value)) if type_ == "Tensor" else Input(kind, value)


def _number_dtype(node: Node, number: Any) -> torch.dtype:
    """The dtype in which a number in the place of a tensor takes the part that it has in torch.

    1. Beside a tensor that has dimensions and is of its kind (integer, floating, complex) or a higher one, the number
       does not decide the type of the result, and nor does a tensor without dimensions: it keeps all its digits.
    2. Elsewhere it is given the type that torch computes in, which it then cannot change.
    """
    given = [each.meta.get("val") if isinstance(each, Node) else each for each in (*node.args, *node.kwargs.values())]
    given = [{torch.SymInt: 1, torch.SymFloat: 1.0, torch.SymBool: True}.get(type(each), each) for each in given]
    beside = [each for each in given if isinstance(each, torch.Tensor)]
    symbolic = isinstance(number, ir.Value)
    own = torch.float64 if symbolic and number.dtype != ir.DataType.INT64 else torch.int64
    if not symbolic:
        own = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}[type(number)]
    if any(each.dim() > 0 and _rank(each.dtype) >= _rank(own) for each in beside):
        return own
    common = torch_operators.computation_dtype(
        [each for each in given if isinstance(each, (torch.Tensor, int, float, complex))]
    )
    if common is None or _rank(common) < _rank(own):
        return own
    return common.to_real() if common.is_complex and not own.is_complex else common


def _rank(dtype: torch.dtype) -> int:
    return 3 if dtype.is_complex else 2 if dtype.is_floating_point else 0 if dtype == torch.bool else 1


def _as_input(builder: Builder, values: Values, value: Any) -> Tensor | None:
    if value is None:
        return None
    if not isinstance(value, list):
        if isinstance(value, ir.Value) and not isinstance(value.type, (ir.TensorType, type(None))):
            raise TranslationError("A sequence of tensors whose length is known only when it runs fits into no node.")
        return values.as_tensor(value)
    parts = [builder.emit("Reshape", (values.as_tensor(item), [1])) for item in value]
    return builder.emit("Concat", parts, {"axis": 0})


def _structured(result: Any, outputs: Any) -> Any:
    if isinstance(result, (list, tuple)):
        return [_structured(item, outputs) for item in result]
    return None if result is None else next(outputs)
