"""Two ONNX models, node for node.

`describe` writes a model as lines of text in a canonical form; two models are the same when their lines are. A line
holds a node's domain, operator, inputs, attributes and number of outputs; nodes stand in the order in which they are
reached from the graph's outputs, inputs first, so that neither names nor the order in a file matter. What else is
forgiven, and why:

1. A Constant node, in any of its forms, and an initializer are one thing: a tensor, told by its dtype, shape and
   elements. Each use names the content, so that it does not matter how often one constant is stored.
2. Names, documentation, metadata, types of values inside the graph, and the producer say nothing about the nodes.
3. Optional inputs that are left out at the end of a node may be written as empty ones or not at all: ONNX gives both
   the same meaning, and the TorchScript exporter writes them.
4. Where the TorchScript exporter knows no sizes of an output, because its shape inference stops at operators of other
   domains, opbridge may know them; `differences` then shows neither's.
5. Inputs of the main graph that nothing uses are left out, and the others counted without them: opbridge keeps one
   graph input for each tensor that the model takes, the TorchScript exporter drops those without a use.

Everything else counts, also nodes that no output depends on, which domains are imported in which version, the dtypes
and shapes of the graph's inputs and outputs, and the functions that the model holds.
"""

from __future__ import annotations

import difflib
import hashlib
import itertools
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

__all__ = ["describe", "differences", "operators"]

_LONG = 64
"""Constants with more elements than this are named by a digest."""


def differences(ours: ir.Model, theirs: ir.Model) -> str:
    """What two models differ in, as a unified diff of their descriptions; empty where they are the same."""
    known = [value.shape for value in theirs.graph.outputs]
    old, new = describe(theirs), describe(ours, known)
    return "\n".join(difflib.unified_diff(old, new, "TorchScript exporter", "opbridge", lineterm="", n=99))


def describe(model: ir.Model, known: Sequence[ir.Shape | None] = ()) -> list[str]:
    """A model's nodes in canonical form, one line each.

    Args:
        model: The model.
        known: Shapes of outputs; what they leave open is left open in the description too.
    """
    used = {"", *(node.domain for node in model.graph.all_nodes())}
    for function in model.functions.values():
        used |= {node.domain for node in function.all_nodes()}
    lines = [f"import {_domain(name)} {model.opset_imports.get(name, 'missing')}" for name in sorted(used)]
    lines += _Describer().graph(model.graph, "main", known)
    for (domain, name, overload), function in sorted(model.functions.items()):
        kind = f"{_domain(domain)}::{name}{overload and '.' + overload}"
        lines.append(f"function {kind}({', '.join(function.attributes)})")
        imports = sorted(function.opset_imports.items())
        lines += _indented([f"import {_domain(name)} {version}" for name, version in imports])
        lines += _indented(_Describer().graph(function.graph, "function"))
    return lines


def operators(model: ir.Model) -> str:
    """The operators of a model in canonical order without their constants: "Shape Gather custom::Foo If[Add, Mul]"."""
    return " ".join(
        line.strip().partition(" = ")[2].partition("(")[0].replace("onnx::", "")
        for line in _Describer().graph(model.graph, "main")
        if " = " in line
    )


def _domain(name: str) -> str:
    return name or "onnx"


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]


class _Describer:
    """Writes a graph and the graphs inside it; values are numbered through, over all of them."""

    def __init__(self) -> None:
        self.names: dict[ir.Value, str] = {}
        self.lines: dict[ir.Graph, list[str]] = {}
        self.count = 0

    def graph(self, graph: ir.Graph, title: str, known: Sequence[ir.Shape | None] = ()) -> list[str]:
        lines = self.lines[graph] = []
        typed = title == "main"
        inputs = [value for value in graph.inputs if not typed or value.uses() or value.is_graph_output()]
        for index, value in enumerate(inputs):
            self.names[value] = f"{title}.{index}"
            lines.append(f"input {title}.{index}{_type(value) if typed else ''}")
        outputs = [self.value(value) for value in graph.outputs]
        unreached = [node for node in graph if node.outputs[0] not in self.names and not _is_constant(node)]
        for node in unreached:
            if node.outputs[0] not in self.names:
                self.node(node)
        for value, name, shape in itertools.zip_longest(graph.outputs, outputs, known[: len(outputs)]):
            lines.append(f"output {name}{_type(value, shape) if typed else ''}")
        if unreached:
            lines.append(f"{len(unreached)} nodes that no output depends on")
        return lines

    def value(self, value: ir.Value | None) -> str:
        if value is None:
            return "-"
        if value not in self.names:
            producer = value.producer()
            if producer is None:
                self.names[value] = _initializer(value)
            elif _is_constant(producer):
                self.names[value] = _constant(producer)
            else:
                self.node(producer)
        return self.names[value]

    def node(self, node: ir.Node) -> None:
        inputs = [self.value(value) for value in node.inputs]
        while inputs and inputs[-1] == "-":
            inputs.pop()
        attributes, blocks = [], []
        for name, attribute in sorted(node.attributes.items()):
            if attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
                graphs = [attribute.value] if attribute.type == ir.AttributeType.GRAPH else list(attribute.value)
                for graph in graphs:
                    blocks += [f"  {name}:", *_indented(self.graph(graph, name))]
            else:
                attributes.append(f"{name}={_attribute(attribute)}")
        self.count += 1
        several = len(node.outputs) > 1
        for index, value in enumerate(node.outputs):
            self.names[value] = f"%{self.count}.{index}" if several else f"%{self.count}"
        outputs = f"%{self.count} [{len(node.outputs)} outputs]" if several else f"%{self.count}"
        kind = f"{_domain(node.domain)}::{node.op_type}{node.overload and '.' + node.overload}"
        line = f"{outputs} = {kind}({', '.join(inputs)})"
        assert isinstance(node.graph, ir.Graph)
        self.lines[node.graph] += [line + (f" {{{', '.join(attributes)}}}" if attributes else ""), *blocks]


def _type(value: ir.Value, known: ir.Shape | None = None) -> str:
    shape = None if value.shape is None else [dim if isinstance(dim, int) else "?" for dim in value.shape]
    if shape is not None and known is not None and len(known) == len(shape):
        shape = [dim if isinstance(other, int) else "?" for dim, other in zip(shape, known, strict=True)]
    return f": {value.dtype} {shape}"


def _is_constant(node: ir.Node) -> bool:
    return node.domain == "" and node.op_type == "Constant"


def _initializer(value: ir.Value) -> str:
    if value.const_value is None:
        raise AssertionError(f"{value.name} has no producer, and is neither an input nor a constant")
    return _tensor(value.const_value)


def _constant(node: ir.Node) -> str:
    """A Constant node's tensor; its numbers and lists of numbers stand for the tensors that ONNX says they are."""
    (attribute,) = node.attributes.values()
    if attribute.ref_attr_name:
        return f"the attribute {attribute.ref_attr_name}"
    if attribute.type == ir.AttributeType.TENSOR:
        return _tensor(attribute.value)
    if attribute.type in (ir.AttributeType.FLOAT, ir.AttributeType.FLOATS):
        return _tensor(ir.tensor(np.array(attribute.value, np.float32)))
    if attribute.type in (ir.AttributeType.INT, ir.AttributeType.INTS):
        return _tensor(ir.tensor(np.array(attribute.value, np.int64)))
    return f"<{_attribute(attribute)}>"


def _attribute(attribute: ir.Attr) -> str:
    if attribute.ref_attr_name:
        return f"the attribute {attribute.ref_attr_name}"
    if attribute.type == ir.AttributeType.TENSOR:
        return _tensor(attribute.value)
    if attribute.type == ir.AttributeType.TENSORS:
        return f"[{', '.join(_tensor(tensor) for tensor in attribute.value)}]"
    if attribute.type in (ir.AttributeType.FLOAT, ir.AttributeType.FLOATS):
        # A file holds them in single precision, whatever number was given.
        return f"{attribute.type.name} {np.array(attribute.value, np.float32).tolist()}"
    value = list(attribute.value) if isinstance(attribute.value, tuple) else attribute.value
    return f"{attribute.type.name} {value!r}"


def _tensor(tensor: ir.TensorProtocol) -> str:
    shape = list(tensor.shape.numpy())
    if tensor.dtype == ir.DataType.STRING:
        return f"<STRING {shape} {tensor.numpy().tolist()}>"
    if tensor.size > _LONG:
        return f"<{tensor.dtype.name} {shape} {hashlib.sha256(tensor.tobytes()).hexdigest()[:16]}>"
    return f"<{tensor.dtype.name} {shape} {tensor.numpy().reshape(-1).tolist()}>"
