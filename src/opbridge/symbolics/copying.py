"""Copies the nodes that a symbolic function built in a `torch._C.Graph` into the model.

1. Only the nodes that the results depend on are copied, in the graph's order.
2. `prim::Constant` becomes an absent input, and `prim::ListConstruct` a tensor of one dimension where its elements are
   numbers, a sequence where they are tensors.
3. An operator of ONNX's own domain is checked against its schema at the model's opset. Where its inputs
   have different types and must have one, constants are converted to the type of the others, and the others are cast to
   the type that torch promotes them to. TorchScript's exporter does the same, and symbolic functions rely on it.
4. Blocks become the graphs of If, Loop and Scan.
5. With a call of an onnxscript function, the function is added to the model. The domain of `aten::ATen` becomes
   `org.pytorch.aten`.
6. Everything else is copied unchanged.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir
import torch

from opbridge.base.dtypes import onnx_dtype, torch_dtype
from opbridge.errors import TranslationError
from opbridge.onnx import onnxscript_private
from opbridge.onnx.builder import Builder
from opbridge.onnx.tensor import Tensor
from opbridge.onnx.torch_tensor import TorchTensor
from opbridge.symbolics.attributes import SUFFIXES, attribute_kind, onnx_attribute
from opbridge.symbolics.schemas import Rules, check_call

__all__ = ["Copy"]

_Described = tuple[ir.DataType | None, ir.Shape | None]

_ATEN_DOMAIN = "org.pytorch.aten"
_BODIES = {"If": ("then_branch", "else_branch"), "Loop": ("body",), "Scan": ("body",)}


_CONSTANTS: dict[str, tuple[ir.DataType, list[int | None]]] = {
    "value_int": (ir.DataType.INT64, []),
    "value_ints": (ir.DataType.INT64, [None]),
    "value_float": (ir.DataType.FLOAT, []),
    "value_floats": (ir.DataType.FLOAT, [None]),
    "value_string": (ir.DataType.STRING, []),
    "value_strings": (ir.DataType.STRING, [None]),
}


class Copy:
    """The copy of one graph into a model.

    Args:
        builder: Builds the nodes.
        values: The model's values of the graph's inputs.
        functions: The onnxscript functions that the graph calls, by domain and name.
    """

    def __init__(
        self, builder: Builder, values: Mapping[Any, Tensor], functions: Mapping[tuple[str, str], Any]
    ) -> None:
        self.builder = builder
        self.values: dict[Any, Any] = dict(values)
        self.functions = functions
        self._constants: dict[Tensor, torch.Tensor] = {}

    def run(self, graph: Any, results: Sequence[Any]) -> list[Tensor | None]:
        """Copies the nodes that the results depend on, and returns the model's values of the results, None for None."""
        needed = _needed([result for result in results if result is not None])
        for node in graph.nodes():
            if node in needed:
                self._copy(node)
        return [None if result is None else self._tensor(self.values[result]) for result in results]

    def _copy(self, node: Any) -> None:
        domain, name = node.kind().split("::", 1)
        if domain == "prim":
            self.values[node.output()] = self._primitive(node, name)
            return
        if domain == "onnx" and name == "Constant":
            self.values[node.output()] = self._constant(node)
            return
        inputs = [self._input(value) for value in node.inputs()]
        attributes: dict[str, Any] = {key: onnx_attribute(node, key) for key in node.attributeNames()}
        bodies = list(node.blocks())
        if bodies:
            names = _body_names(name, bodies)
            graphs = (self._body(body, _given(name, inputs)) for body in bodies)
            attributes.update({key: ir.AttrGraph(key, graph) for key, graph in zip(names, graphs, strict=True)})
        if domain == "onnx":
            outputs = self._standard(node, name, inputs, attributes)
        else:
            outputs = self._foreign(
                node, _ATEN_DOMAIN if node.kind() == "aten::ATen" else domain, name, inputs, attributes
            )
        self.values.update(zip(node.outputs(), outputs, strict=True))

    # Constants and lists

    def _constant(self, node: Any) -> Tensor:
        (key,) = node.attributeNames()
        if attribute_kind(node, key) == "t":
            made = self._number(node.t(key))
        else:
            attribute = onnx_attribute(
                node, key, f"value_{SUFFIXES[attribute_kind(node, key)]}" if key == "value" else key
            )
            dtype, shape = _CONSTANTS.get(attribute.name, (None, None))
            made = self.builder.node(
                "Constant", [], {attribute.name: attribute}, [dtype], [ir.Shape(shape) if shape is not None else None]
            )[0]
        return made

    def _number(self, data: torch.Tensor) -> Tensor:
        """A tensor as a Constant node."""
        content = TorchTensor(data)
        made = self.builder.node(
            "Constant", [], {"value": ir.AttrTensor("value", content)}, [content.dtype], [ir.Shape(list(data.shape))]
        )[0]
        self._constants[made] = data
        return made

    def _primitive(self, node: Any, name: str) -> Any:
        if name == "Constant":
            value = node.output().toIValue()
            return None if value is None else self._tensor(value)
        if name in ("ListConstruct", "TupleConstruct"):
            return [self.values[value] for value in node.inputs()]
        raise TranslationError(f"It built prim::{name}, which is not an ONNX operator. Build ONNX operators with g.op.")

    def _input(self, value: Any) -> Tensor | None:
        stands_for = self.values[value]
        return None if stands_for is None else self._tensor(stands_for)

    def _tensor(self, value: Any) -> Tensor:
        if isinstance(value, Tensor):
            return value
        if isinstance(value, torch.Tensor):
            return self.builder.constant(value.numpy())
        if isinstance(value, list) and value and not all(_is_scalar(item) for item in value):
            items = [self._tensor(item) for item in value]
            element = ir.SequenceType(ir.TensorType(items[0].dtype or ir.DataType.FLOAT))
            return self.builder.node("SequenceConstruct", items, {}, [element])[0]
        if isinstance(value, list) and value:
            parts = [self.builder.emit("Reshape", (self._tensor(item), [1])) for item in value]
            return self.builder.emit("Concat", parts, {"axis": 0}) if len(parts) > 1 else parts[0]
        if value is None:
            raise TranslationError("It returned a value that represents None.")
        return self.builder.constant(value)

    # Operators

    def _standard(
        self, node: Any, name: str, inputs: list[Tensor | None], attributes: dict[str, Any]
    ) -> tuple[Tensor, ...]:
        kinds = {key: attribute_kind(node, key) for key in node.attributeNames()}
        rules = check_call(name, self.builder.opset, len(inputs), kinds)
        inputs = self._one_type(rules, inputs)
        outputs = list(node.outputs())
        known = _output_types(rules, inputs, attributes, len(outputs))
        described = [_described(output) for output in outputs]
        # ONNX's rules have precedence over torch's inference and setType.
        types = [rule or said for rule, (said, _) in zip(known, described, strict=True)]
        shapes = [shape for _, shape in described]
        return self.builder.node(name, inputs, attributes, types, shapes)

    def _foreign(
        self, node: Any, domain: str, name: str, inputs: list[Tensor | None], attributes: dict[str, Any]
    ) -> tuple[Tensor, ...]:
        version = 1
        function = self.functions.get((domain, name))
        if function is not None:
            version = function.opset.version
            for definition in onnxscript_private.function_definitions(function, self.builder.opset):
                self.builder.functions.setdefault(definition.identifier(), definition)
        self.builder.domains.setdefault(domain, version)
        described = [_described(output) for output in node.outputs()]
        return self.builder.node(
            name,
            inputs,
            attributes,
            [dtype for dtype, _ in described],
            [shape for _, shape in described],
            domain=domain,
        )

    def _one_type(self, rules: Rules, inputs: list[Tensor | None]) -> list[Tensor | None]:
        """Converts the inputs of each type variable to one type."""
        if len({tensor.dtype for tensor in inputs if tensor is not None}) < 2:
            return inputs
        groups: dict[str, list[int]] = {}
        for position, tensor in enumerate(inputs):
            _, variable, homogeneous = rules.input(position)
            if tensor is not None and tensor.dtype is not None and homogeneous and variable not in rules.only:
                # ONNX allows an exponent of another type; TorchScript's exporter converts a constant one.
                variable = "T" if rules.name == "Pow" and inputs[-1] in self._constants else variable
                groups.setdefault(variable, []).append(position)
        inputs = list(inputs)
        for positions in groups.values():
            given = [inputs[position] for position in positions]
            if len({tensor.dtype for tensor in given if tensor is not None}) < 2:
                continue
            wanted = _promoted([tensor for tensor in given if tensor not in self._constants] or given)
            for position in positions:
                inputs[position] = self._cast(inputs[position], wanted)
        return inputs

    def _cast(self, tensor: Tensor | None, dtype: ir.DataType) -> Tensor | None:
        if tensor is None or tensor.dtype == dtype:
            return tensor
        if tensor in self._constants:
            return self._number(self._constants[tensor].to(torch_dtype(dtype)))
        shape = tensor.shape
        return self.builder.node("Cast", [tensor], {"to": int(dtype)}, [dtype], [shape])[0]

    # Blocks

    def _body_input(self, dtype: ir.DataType | None, shape: ir.Shape | None) -> Tensor:
        name = self.builder.unique(f"{self.builder.prefix}/input".lstrip("/"))
        value = self.builder.value(name, dtype, None)
        value.shape = shape
        return value

    def _body(self, block: Any, given: Sequence[_Described]) -> ir.Graph:
        inputs = []
        for position, value in enumerate(block.inputs()):
            dtype, shape = _described(value)
            if dtype is None and position < len(given):
                dtype, shape = given[position]
            inputs.append(self._body_input(dtype, shape))
            self.values[value] = inputs[-1]

        def make() -> list[Tensor]:
            for node in block.nodes():
                self._copy(node)
            return [self._tensor(self.values[value]) for value in block.outputs()]

        return self.builder.body(f"{self.builder.prefix}/body".lstrip("/"), inputs, make)


def _needed(results: Sequence[Any]) -> set[Any]:
    """The nodes that values depend on, also through the blocks of nodes."""
    needed: set[Any] = set()
    waiting = [result.node() for result in results]
    while waiting:
        node = waiting.pop()
        if node in needed:
            continue
        needed.add(node)
        waiting.extend(value.node() for value in node.inputs())
        for block in node.blocks():
            waiting.extend(value.node() for value in block.outputs())
            waiting.extend(block.nodes())
    return needed


def _given(name: str, inputs: Sequence[Tensor | None]) -> list[_Described]:
    """The types and shapes of the inputs of a body, for values of its block that have none."""
    carried: list[_Described] = [(None if each is None else each.dtype, None) for each in inputs]
    if name != "Loop":
        return carried
    return [(ir.DataType.INT64, ir.Shape([])), (ir.DataType.BOOL, ir.Shape([])), *carried[2:]]


def _body_names(name: str, bodies: Sequence[Any]) -> Sequence[str]:
    names = _BODIES.get(name, ())
    if len(names) != len(bodies):
        raise TranslationError(
            f"It built {name} with {len(bodies)} blocks, but ONNX requires {len(names)} graphs for it. Add the "
            "blocks with node.addBlock(); for If, the then branch comes first."
        )
    return names


def _is_scalar(item: Any) -> bool:
    return isinstance(item, Tensor) and item.shape is not None and len(item.shape) == 0


def _output_types(
    rules: Rules, inputs: Sequence[Tensor | None], attributes: Mapping[str, Any], count: int
) -> list[ir.DataType | None]:
    """The types of the outputs, where ONNX derives them from an input's or allows only one."""
    if rules.name == "Cast":
        return [ir.DataType(attributes["to"].as_int())]
    types = dict(rules.only)
    for position, tensor in enumerate(inputs):
        if tensor is not None and tensor.dtype is not None and isinstance(tensor.type, ir.TensorType):
            types.setdefault(rules.input(position)[1], tensor.dtype)
    return [types.get(rules.output(position)) for position in range(count)]


def _described(value: Any) -> tuple[ir.DataType | None, ir.Shape | None]:
    """The type and shape that torch has for a value, by inference or by the user's setType."""
    kind = value.type()
    if kind.kind() != "TensorType":
        return None, None
    try:
        dtype = kind.dtype()
    except RuntimeError:  # a string
        return ir.DataType.STRING, None
    sizes = kind.varyingSizes()
    return (
        None if dtype is None else onnx_dtype(dtype),
        None if sizes is None else ir.Shape(sizes),
    )


def _promoted(given: Sequence[Tensor | None]) -> ir.DataType:
    """The type that torch promotes values to."""
    dtypes = [torch_dtype(tensor.dtype) for tensor in given if tensor is not None and tensor.dtype is not None]
    return onnx_dtype(functools.reduce(torch.promote_types, dtypes))
