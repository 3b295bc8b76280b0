"""The routes `aten` and `fallthrough`: an operator is not translated, but becomes one node that names it.

aten            the node of `opbridge.nodes.aten_node`, whose kernel calls libtorch
fallthrough     the node of `opbridge.nodes.fallthrough_node`, for a kernel that the user provides
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

__all__ = [
    "ROUTES",
    "Values",
    "build",
    "first_possible",
    "gives_tensors",
    "permission_advice",
    "reason_impossible",
    "routes_to_allow",
]

ROUTES = ("aten", "fallthrough")

_CONSEQUENCES = {"aten": "which requires libtorch at run time", "fallthrough": "for which you provide the kernel"}
"""What a route that is not allowed by default requires of the runtime."""

_KIND_BY_TYPE: dict[type, str] = {torch.SymInt: "input_int", torch.SymFloat: "input_float", torch.SymBool: "input_bool"}


@dataclass(frozen=True)
class Values:
    """The translated values of the captured graph's nodes.

    Attributes:
        resolve: The value of a node: a value of the ONNX graph, a torch tensor, a number, or a list of these.
        as_tensor: Converts such a tensor or number into a value of the ONNX graph.
        described: The ONNX element type and the shape of a fake tensor or number (`node.meta["val"]`).
    """

    resolve: Callable[[Node], Any]
    as_tensor: Callable[[Any], Tensor]
    described: Callable[[Any], tuple[ir.DataType | None, list[int | str] | None]]


def gives_tensors(node: Node) -> bool:
    """Whether a node calls an operator of torch's dispatcher, all of whose results are tensors."""
    found = aten_node.leaves(node.meta.get("val"))
    is_operator = isinstance(node.target, torch._ops.OpOverload)
    return is_operator and bool(found) and all(isinstance(leaf, torch.Tensor) for leaf in found)


def reason_impossible(node: Node, route: str) -> str | None:
    """Why a node cannot take one of the routes `aten` and `fallthrough`, as a sentence; None where it can."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return "It is not an operator of PyTorch's dispatcher, so it cannot be named in a node."
    if call_of(node) is not None:
        return "It is a torch.autograd.Function, which exists only in Python."
    if not aten_node.leaves(node.meta.get("val")):
        return "It returns nothing, and ONNX does not support nodes without outputs."
    if not gives_tensors(node):
        return "It does not return tensors, but the outputs of a node must be tensors."
    if route == "aten" and torch_operators.runs_on_cuda_only(target):
        return "It has a kernel for CUDA devices only, but libtorch runs nodes on the CPU."
    try:
        _encoded(node, route, _untranslated, lambda number: None)
    except OpbridgeError as error:
        return str(error)
    return None


def first_possible(node: Node, allow: Sequence[str], after: str | None = None) -> str | None:
    """The first allowed route of `ROUTES` that a node can take.

    Args:
        node: The node of the captured graph.
        allow: The routes that are allowed.
        after: A route that was tried already; only later ones are considered.
    """
    first = ROUTES.index(after) + 1 if after in ROUTES else 0
    return next(
        (each for each in ROUTES[first:] if each in allow and not reason_impossible(node, each)),
        None,
    )


def routes_to_allow(nodes: Sequence[Node], allow: Sequence[str]) -> tuple[str, ...]:
    """The routes of `ROUTES` that are not allowed and that all of the nodes could take; none without nodes."""
    return tuple(
        route
        for route in ROUTES
        if nodes and route not in allow and not any(reason_impossible(node, route) for node in nodes)
    )


def permission_advice(permissions: Sequence[str]) -> str:
    """The sentence that proposes to allow routes; "" without any."""
    routes = ", or ".join(f"{route}, {_CONSEQUENCES[route]}" for route in permissions)
    return f" Or allow the route {routes}." if routes else ""


def build(node: Node, route: str, builder: Builder, values: Values) -> Any:
    """Builds the ONNX node of an operator.

    Args:
        node: The node of the captured graph.
        route: "aten" or "fallthrough".
        builder: The builder of the ONNX graph.
        values: The translated values of the captured graph's nodes.

    Returns:
        The outputs of the ONNX node, in the structure of the operator's result.

    Raises:
        TranslationError: The node format cannot represent an argument or a result.
    """

    def number(value: Any) -> Tensor:
        dtype = _number_dtype(node, value)
        if isinstance(value, ir.Value):
            return builder.emit("Cast", (value,), {"to": onnx_dtype(dtype)})
        return values.as_tensor(torch.tensor(value, dtype=dtype))

    encoded = _encoded(node, route, values.resolve, number)
    inputs = [_as_input(builder, values, value) for value in encoded.inputs]
    result = _used_results(node) if route == "aten" else node.meta["val"]
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
    # The route in the plan, for readers of the file.
    builder.nodes[-1].metadata_props["opbridge.route"] = route
    return _restructured(result, iter(outputs))


def _encoded(
    node: Node, route: str, resolve: Callable[[Node], Any], number: Callable[[Any], Any]
) -> aten_node.Encoded | fallthrough_node.Encoded:
    """The contents of the ONNX node.

    Args:
        node: The node of the captured graph.
        route: "aten" or "fallthrough".
        resolve: The value of an argument that is a node.
        number: Converts a number that is passed for a tensor argument into a tensor.
    """
    target = _functional_form(node.target)
    declared, _ = torch_operators.declared(target)
    types = {each.name: each.type.rstrip("?") for each in declared}
    names = [each.name for each in declared[: len(node.args)]]
    args = [
        _argument(value, types[name], resolve, number)
        for name, value in zip(names, node.args[: len(names)], strict=True)
    ]
    args += node.args[len(names) :]
    kwargs = {name: _argument(value, types.get(name, ""), resolve, number) for name, value in node.kwargs.items()}
    if route == "aten":
        return aten_node.encode(target, args, kwargs, _used_results(node))
    return fallthrough_node.encode(target, args, kwargs)


def _used_results(node: Node) -> Any:
    """The node's result, with None in the place of tensors that no node reads: these need no output."""
    result = node.meta["val"]
    readers = [user for user in node.users if user.users or user.target is not operator.getitem]
    picked = [user.args[1] if user.target is operator.getitem else None for user in readers]
    if not isinstance(result, (list, tuple)) or not picked or any(each not in range(len(result)) for each in picked):
        return result
    return [each if place in picked else None for place, each in enumerate(result)]


def _functional_form(target: Any) -> torch._ops.OpOverload:
    """The functional form of an in-place operator where there is one with the same arguments; else the operator."""
    name = functional_name(torch_operators.operator_name(target) or "")
    found = None if name is None else torch_operators.operator_object(name)
    if found is None:
        return target
    names, functional_names = ([each.name for each in form._schema.arguments] for form in (target, found))
    return found if functional_names == names else target


def _untranslated(node: Node) -> Any:
    """The value of a node before translation: the node itself, or the tensor that a get_attr node reads."""
    if node.op != "get_attr":
        return node
    value: Any = node.graph.owning_module
    for name in str(node.target).split("."):
        value = getattr(value, name)
    return value


def _argument(value: Any, type_: str, resolve: Callable[[Node], Any], number: Callable[[Any], Any]) -> Any:
    """An argument in the form that the encoders take: each node is replaced by an `Input`."""
    if isinstance(value, (list, tuple)):
        return [_argument(item, type_.removesuffix("[]").rstrip("?"), resolve, number) for item in value]
    if isinstance(value, Node):
        resolved = resolve(value)
        described = value.meta.get("val", resolved if isinstance(resolved, torch.Tensor) else None)
        return _node_argument(resolved, described, type_, number)
    if type_ == "Tensor" and isinstance(value, (int, float, complex)):
        return Input("complex_tensor" if isinstance(value, complex) else "tensor", number(value))
    return value


def _node_argument(value: Any, described: Any, type_: str, number: Callable[[Any], Any]) -> Any:
    """The value of a node as an argument.

    Args:
        value: The node's value, or the node itself before translation.
        described: What torch knows of it: a fake tensor, a symbolic number, or a list of these.
        type_: The argument's type in the schema.
        number: As for `_encoded`.
    """
    if isinstance(value, (list, tuple)) and isinstance(described, (list, tuple)):
        item_type = type_.removesuffix("[]").rstrip("?")
        return [_node_argument(item, each, item_type, number) for item, each in zip(value, described, strict=True)]
    if isinstance(described, (list, tuple)):
        # Before translation the value of a list is its node.
        item_type = type_.removesuffix("[]").rstrip("?")
        return [_node_argument(value, each, item_type, number) for each in described]
    if isinstance(described, torch.Tensor):
        return Input("complex_tensor" if described.is_complex() else "tensor", value)
    kind = _KIND_BY_TYPE.get(type(described))
    if kind is None or isinstance(value, (int, float)):
        is_number = type_ == "Tensor" and isinstance(value, (int, float))
        return Input("tensor", number(value)) if is_number else value
    return Input("tensor", number(value)) if type_ == "Tensor" else Input(kind, value)


def _number_dtype(node: Node, number: Any) -> torch.dtype:
    """The dtype of the tensor of rank 0 that replaces a number, such that type promotion gives the same result.

    1. Beside a tensor of rank 1 or more whose category (bool, integer, floating, complex) is the number's or a higher
       one, neither a number nor a tensor of rank 0 affects the result's dtype: the number keeps its own, widest dtype.
    2. Otherwise the tensor has the dtype that torch computes in, which type promotion cannot change.
    """
    given = [each.meta.get("val") if isinstance(each, Node) else each for each in (*node.args, *node.kwargs.values())]
    given = [{torch.SymInt: 1, torch.SymFloat: 1.0, torch.SymBool: True}.get(type(each), each) for each in given]
    tensors = [each for each in given if isinstance(each, torch.Tensor)]
    symbolic = isinstance(number, ir.Value)
    own = torch.float64 if symbolic and number.dtype != ir.DataType.INT64 else torch.int64
    if not symbolic:
        own = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}[type(number)]
    if any(each.dim() > 0 and _category(each.dtype) >= _category(own) for each in tensors):
        return own
    common = torch_operators.computation_dtype(
        [each for each in given if isinstance(each, (torch.Tensor, int, float, complex))]
    )
    if common is None or _category(common) < _category(own):
        return own
    return common.to_real() if common.is_complex and not own.is_complex else common


def _category(dtype: torch.dtype) -> int:
    return 3 if dtype.is_complex else 2 if dtype.is_floating_point else 0 if dtype == torch.bool else 1


def _as_input(builder: Builder, values: Values, value: Any) -> Tensor | None:
    if value is None:
        return None
    if not isinstance(value, list):
        if isinstance(value, ir.Value) and not isinstance(value.type, (ir.TensorType, type(None))):
            raise TranslationError("A list of tensors of unknown length cannot be the output of a node.")
        return values.as_tensor(value)
    parts = [builder.emit("Reshape", (values.as_tensor(item), [1])) for item in value]
    return builder.emit("Concat", parts, {"axis": 0})


def _restructured(result: Any, outputs: Any) -> Any:
    if isinstance(result, (list, tuple)):
        return [_restructured(item, outputs) for item in result]
    return None if result is None else next(outputs)
