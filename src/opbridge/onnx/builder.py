"""Builds onnx_ir nodes while translations run.

A translation is an onnxscript-style function: it calls `op.Add(x, y)` and the like. onnxscript hands each of these
calls to the evaluator in force; `Builder` is such an evaluator. It turns the call into an `onnx_ir.Node`, or into
nothing at all where the result is already known (see `folding`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from opbridge.base.version import __version__
from opbridge.errors import TranslationError
from opbridge.onnx import downgrade, folding, onnxscript_private, opsets, shapes
from opbridge.onnx.python_values import as_array, as_attribute
from opbridge.onnx.tensor import FLOATS, Tensor
from opbridge.onnx.versions import ir_version

__all__ = ["Builder"]

_PLAIN = (int, float, complex, str, list, tuple, np.ndarray, np.generic)


class Builder:
    """Collects the nodes, constants and functions of one model.

    Attributes:
        opset: The version of the standard operator set that nodes are built for.
        prefix: What the nodes being built are named after.
        nodes: The nodes of the scope being built, in order.
        constants: The model's constants and weights, by name.
        functions: ONNX functions that have been called, by their identifier.
        domains: The domains used beside the standard one, with their versions.
    """

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.nodes: list[ir.Node] = []
        self.constants: dict[str, Tensor] = {}
        self.functions: dict[ir.OperatorIdentifier, ir.Function] = {}
        self.domains: dict[str, int] = {}
        self._by_value: dict[tuple, Tensor] = {}
        self._names: dict[str, int] = {}
        self.prefix = ""
        self._metadata: dict[str, str] = {}

    # Scopes

    @contextlib.contextmanager
    def translating(self) -> Iterator[None]:
        """onnxscript's operator calls build nodes here while this is in force."""
        with onnxscript_private.evaluating_with(self):
            yield

    @contextlib.contextmanager
    def subgraph(self) -> Iterator[list[ir.Node]]:
        """Nodes built meanwhile go to the list that this yields, the nodes of the body of an If, Loop or Scan."""
        outer, self.nodes = self.nodes, []
        try:
            yield self.nodes
        finally:
            self.nodes = outer

    @contextlib.contextmanager
    def labelled(self, prefix: str, metadata: Mapping[str, str]) -> Iterator[None]:
        """Nodes built meanwhile are named after `prefix` and carry `metadata`."""
        outer = self.prefix, self._metadata
        self.prefix, self._metadata = prefix, dict(metadata)
        try:
            yield
        finally:
            self.prefix, self._metadata = outer

    def unique(self, name: str) -> str:
        """`name`, or `name_1`, `name_2`, ... where it is taken: the same from run to run."""
        count = self._names.get(name)
        if count is None:
            self._names[name] = 0
            return name
        self._names[name] = count + 1
        return self.unique(f"{name}_{count + 1}")

    def reserve(self, name: str) -> None:
        """Keeps a name for a value that is given it later: `unique` gives it to no other."""
        self._names.setdefault(name, 0)

    # Values

    def value(self, name: str, dtype: ir.DataType | None, shape: Sequence[int | str | None] | None) -> Tensor:
        """A value of the graph that no node has made yet."""
        return Tensor(
            self,
            name=name,
            shape=None if shape is None else ir.Shape(shape),
            type=None if dtype is None else ir.TensorType(dtype),
        )

    def initializer(self, name: str, data: ir.TensorProtocol) -> Tensor:
        """A constant of the model with a name of its own, such as a parameter."""
        tensor = self.value(self.unique(name), data.dtype, [int(size) for size in data.shape])  # type: ignore[arg-type]
        tensor.const_value = data
        self.constants[tensor.name] = tensor  # type: ignore[index]
        return tensor

    def constant(self, value: Any, dtype: ir.DataType | None = None) -> Tensor:
        """A small constant; equal constants are one value.

        Args:
            value: A Python number, a (nested) list of numbers, or a numpy array.
            dtype: Its type; by default that of the array, or INT64, FLOAT or BOOL after the Python type.

        Raises:
            TranslationError: a number with a fraction is asked for as an integer type.
        """
        array = as_array(value, dtype)
        resolved = dtype if dtype is not None else ir.DataType.from_numpy(array.dtype)
        key = (resolved, array.shape, array.tobytes())
        found = self._by_value.get(key)
        if found is None:
            found = self.initializer("constant", ir.Tensor(array, dtype=resolved))
            self._by_value[key] = found
        return found

    # What onnxscript calls

    def eval_op(self, op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Builds the call of an operator: its output, or a tuple of them where there are several."""
        outputs = self.call(op.name, args, kwargs, domain=op.opset.domain, version=op.opset.version)
        return outputs[0] if len(outputs) == 1 else outputs

    def eval_function(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Calls an onnxscript function: torchlib's are traced, a user's become an ONNX function and a call to it."""
        if onnxscript_private.is_torchlib(function) or getattr(function, "traceable", False):
            return function.function(*args, **kwargs)
        for definition in onnxscript_private.function_definitions(function, self.opset):
            self.functions.setdefault(definition.identifier(), definition)
        inputs, attributes = onnxscript_private.split_arguments(function, args, kwargs)
        domain = function.function_ir.domain
        self.domains.setdefault(domain, function.opset.version)
        outputs = self._node(
            domain,
            function.name,
            [None if value is None else self._as_tensor(value) for value in inputs],
            attributes,
            [None] * len(function.function_ir.outputs),
        )
        return outputs[0] if len(outputs) == 1 else outputs

    # Building

    def emit(self, op_type: str, inputs: Sequence[Any], attributes: Mapping[str, Any] | None = None) -> Tensor:
        """Builds one standard operator with one output and returns that output."""
        return self.call(op_type, inputs, attributes or {})[0]

    def call(
        self,
        op_type: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        *,
        domain: str = "",
        version: int | None = None,
    ) -> tuple[Tensor, ...]:
        """Builds one operator by its schema; Python numbers among the inputs become constants of the fitting type.

        Args:
            op_type: The operator's name.
            args: Inputs in the schema's order; what is left over after the inputs are attributes, as in onnxscript.
            kwargs: Attributes, or inputs by name. None leaves one out.
            domain: The operator's domain; "" is the standard one.
            version: The version of the domain that the caller wrote the call for; by default the model's, or the one
                that opbridge is written for, where that is newer.

        Raises:
            TranslationError: the operator is newer than the model's opset, or its inputs differ in type.
        """
        if domain != "":
            return self._custom_call(op_type, args, kwargs, domain, version or 1)
        written_for = version or max(self.opset, opsets.WRITTEN_FOR)
        schema = opsets.schema_for(op_type, self.opset, written_for=written_for)
        inputs, attributes = (schema.older or schema).bind(args, kwargs)
        if schema.revise is not None:
            inputs, attributes = schema.revise(self, inputs, attributes)
        if op_type == "CastLike" and isinstance(inputs[0], float) and inputs[1].dtype in FLOATS:
            # Straight to the type asked for: by way of float32 the number would lose half of a double's digits.
            return (self.constant(inputs[0], inputs[1].dtype),)
        tensors, types = self._convert_inputs(schema, inputs)
        folded = folding.simplify(self, op_type, tensors, attributes)
        if folded is not None:
            return folded
        if schema.since > self.opset:
            return downgrade.build(self, schema, tensors, attributes)
        dtypes = schema.output_dtypes(types, attributes, tensors)
        return self._node("", op_type, tensors, attributes, dtypes)

    def _custom_call(
        self, op_type: str, args: Sequence[Any], kwargs: Mapping[str, Any], domain: str, version: int
    ) -> tuple[Tensor, ...]:
        self.domains[domain] = max(version, self.domains.get(domain, 1))
        inputs = [None if value is None else self._as_tensor(value) for value in args]
        attributes = {name: value for name, value in kwargs.items() if value is not None}
        first = next((tensor.dtype for tensor in inputs if tensor is not None), None)
        return self._node(domain, op_type, inputs, attributes, [first])

    def _convert_inputs(
        self, schema: opsets.Schema, inputs: Sequence[Any]
    ) -> tuple[list[Tensor | None], dict[str, ir.DataType]]:
        """Python numbers become constants; the types that the schema's type variables stand for are found."""
        types: dict[str, ir.DataType] = {}
        for position, value in enumerate(inputs):
            if isinstance(value, ir.Value) and value.dtype is not None:
                variable = schema.type_variable(position)
                known = types.setdefault(variable, value.dtype)
                if known != value.dtype and schema.homogeneous(position):
                    raise TranslationError(
                        f"{schema.name} requires these inputs to have the same type, but they are {known.name} and "
                        f"{value.dtype.name}. Cast one of them in the translation."
                    )
        tensors: list[Tensor | None] = []
        for position, value in enumerate(inputs):
            if value is None or isinstance(value, ir.Value):
                tensors.append(value)  # type: ignore[arg-type]
                continue
            dtype = types.get(schema.type_variable(position)) or schema.only_dtype(position)
            tensor = self._as_tensor(value, dtype)
            types.setdefault(schema.type_variable(position), tensor.dtype)  # type: ignore[arg-type]
            tensors.append(tensor)
        return tensors, types

    def _as_tensor(self, value: Any, dtype: ir.DataType | None = None) -> Tensor:
        if isinstance(value, ir.Value):
            return value  # type: ignore[return-value]
        # What most values are comes first: the check of a protocol's members takes longer than building a node.
        if not isinstance(value, _PLAIN) and isinstance(value, ir.TensorProtocol):
            return self.constant(value.numpy(), value.dtype)
        if isinstance(value, (list, tuple)) and any(isinstance(item, ir.Value) for item in value):
            if any(isinstance(item, ir.Value) and isinstance(item.type, ir.SequenceType) for item in value):
                raise TranslationError("A sequence cannot be an element of a list of values.")
            return self._stack(value, dtype)
        return self.constant(value, dtype)

    def _stack(self, items: Sequence[Any], dtype: ir.DataType | None) -> Tensor:
        """A list of scalars, some known only when the model runs, as one tensor of shape (len(items),)."""
        dtype = dtype or next(item.dtype for item in items if isinstance(item, ir.Value))
        parts: list[Tensor] = []
        for item in items:
            if isinstance(item, ir.Value):
                part = item if item.dtype == dtype else self.emit("Cast", (item,), {"to": dtype})
                parts.append(self.emit("Reshape", (part, [1])))
            else:
                parts.append(self.constant([item], dtype))
        return parts[0] if len(parts) == 1 else self.emit("Concat", parts, {"axis": 0})

    def _node(
        self,
        domain: str,
        op_type: str,
        inputs: Sequence[Tensor | None],
        attributes: Mapping[str, Any],
        dtypes: Sequence[ir.DataType | ir.TypeProtocol | None],
    ) -> tuple[Tensor, ...]:
        stem = f"{self.prefix}/{op_type}" if self.prefix else op_type
        name = self.unique(stem)
        outputs = []
        for index, dtype in enumerate(dtypes):
            output = self.value(name if len(dtypes) == 1 else f"{name}:{index}", None, None)
            if dtype is not None:
                output.type = ir.TensorType(dtype) if isinstance(dtype, ir.DataType) else dtype
            outputs.append(output)
        trimmed = list(inputs)
        while trimmed and trimmed[-1] is None:
            trimmed.pop()
        node = ir.Node(
            domain,
            op_type,
            inputs=trimmed,
            attributes=[as_attribute(key, value) for key, value in attributes.items()],
            outputs=outputs,
            name=name,
            metadata_props=dict(self._metadata),
        )
        self.nodes.append(node)
        return tuple(outputs)

    def node(
        self,
        op_type: str,
        inputs: Sequence[Tensor | None],
        attributes: Mapping[str, Any],
        dtypes: Sequence[ir.DataType | ir.TypeProtocol | None],
        shapes: Sequence[ir.Shape | None] = (),
        *,
        domain: str = "",
    ) -> tuple[Tensor, ...]:
        """Builds an operator as it is given, with outputs of these types: no checks, no folding."""
        outputs = self._node(domain, op_type, inputs, attributes, dtypes)
        for output, shape in zip(outputs, shapes, strict=False):
            output.shape = shape
        return outputs

    def body(self, name: str, inputs: Sequence[Tensor], make: Callable[[], Sequence[Tensor]]) -> ir.Graph:
        """The graph of an If, Loop or Scan.

        Args:
            name: The graph's name.
            inputs: Its inputs; values of the graph around it may be read too.
            make: Builds the nodes and returns the outputs. An output that is not made inside goes through Identity,
                since ONNX wants the outputs of a body to be its own.
        """
        with self.subgraph() as nodes:
            outputs: list[Tensor] = []
            for output in make():
                own = any(output is made for node in nodes for made in node.outputs)
                if not own or any(output is other for other in outputs):
                    # Not through `emit`, which would take an Identity away again.
                    output = self._node("", "Identity", [output], {}, [output.dtype])[0]
                outputs.append(output)
        return ir.Graph(inputs, outputs, nodes=nodes, name=self.unique(name))

    def loop(self, count: int | Tensor, value: Tensor, turn: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """A Loop that a value passes through a number of times; it keeps its type and shape.

        Args:
            count: The number of turns, as an int or a scalar.
            value: The value before the first turn.
            turn: Builds one turn, from its number, a scalar, and the value.
        """
        number = self.value(self.unique("iteration"), ir.DataType.INT64, [])
        going = self.value(self.unique("go_on"), ir.DataType.BOOL, [])
        inside = self.value(self.unique("carried"), value.dtype, shapes.sizes(value))
        body = self.body("body", [number, going, inside], lambda: [going, turn(number, inside)])
        turns = self.constant(count, ir.DataType.INT64) if isinstance(count, int) else count
        return self.node("Loop", [turns, None, value], {"body": body}, [value.dtype], [value.shape])[0]

    def graph(
        self,
        inputs: Sequence[ir.Value],
        outputs: Sequence[ir.Value],
        *,
        name: str = "model",
        custom_opsets: Mapping[str, int] | None = None,
    ) -> ir.Graph:
        """The graph of all that was built.

        Args:
            inputs: Its inputs.
            outputs: Its outputs.
            name: Its name.
            custom_opsets: Domains beside those that were used, with their versions.
        """
        return ir.Graph(
            inputs,
            outputs,
            nodes=self.nodes,
            initializers=list(self.constants.values()),
            opset_imports={"": self.opset, **self.domains, **(custom_opsets or {})},
            name=name,
        )

    def model(
        self, inputs: Sequence[ir.Value], outputs: Sequence[ir.Value], custom_opsets: Mapping[str, int] | None = None
    ) -> ir.Model:
        """The model of all that was built; the arguments are those of `graph`."""
        functions = list(self.functions.values())
        graph = self.graph(inputs, outputs, custom_opsets=custom_opsets)
        return ir.Model(
            graph,
            ir_version=ir_version(self.opset, functions=bool(functions)),
            producer_name="opbridge",
            producer_version=__version__,
            functions=functions,
        )
