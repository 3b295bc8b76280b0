"""What torch.export gives, an ExportedProgram, as a CapturedGraph. Later stages know the latter only."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, InputSpec, OutputKind
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from opbridge.base.torch_private import torch_program_shapes, torch_tracing
from opbridge.base.torch_private.torch_functionalized import FunctionalizedCall, functionalized_call
from opbridge.capture.refused_writes import write_to_view
from opbridge.errors import UsageError
from opbridge.graph.captured_graph import CapturedGraph, Leaf, SizeCondition, Weight

__all__ = ["from_exported_program", "inputs_of_program", "narrow_ranges", "without_writes"]

_WEIGHTS = {InputKind.PARAMETER: "parameter", InputKind.BUFFER: "buffer", InputKind.CONSTANT_TENSOR: "constant"}
_RETURNED = (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)
_INFINITE = 1 << 48
"""From this value on, a bound of torch's ranges is none."""


def from_exported_program(program: ExportedProgram) -> CapturedGraph:
    """An exported program as a captured graph.

    The program stays as it is: its graph is copied. The nodes of the copy have the names, values and stack traces of
    the program's. Inputs that are constants are no placeholders of it, and it returns what the user's model returns,
    without the tensors that the model writes to.

    Args:
        program: What torch.export gave, also after `run_decompositions`.
    """
    copied = _Copy(program)
    outputs = copied.outputs()
    return CapturedGraph(
        module=copied.module(outputs),
        inputs=tuple(copied.inputs),
        outputs=tuple(outputs),
        weights=copied.weights,
        structure=program.call_spec.out_spec,
        ranges={str(symbol): _bounds(found) for symbol, found in program.range_constraints.items()},
        conditions=tuple(SizeCondition(*found) for found in torch_program_shapes.shape_guards(program)),
        places=torch_program_shapes.shape_sources(program),
        updated=tuple(sorted({*program.graph_signature.buffers_to_mutate.values()})),
    )


def without_writes(program: ExportedProgram) -> CapturedGraph:
    """The graph of a program without in-place operators, views of what is written to, and autocast."""
    return from_exported_program(torch_tracing.without_writes(program))


def narrow_ranges(program: ExportedProgram, graph: CapturedGraph) -> None:
    """Narrows the ranges of a program to those of the captured graph that was made from it."""
    for symbol, (low, high) in graph.ranges.items():
        torch_program_shapes.narrow_range(program, symbol, low, high)


def named_sizes(program: ExportedProgram, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any] | None:
    """The dynamic dimensions of a program's inputs, by the names of its symbols; None where it has none."""
    user = set(program.graph_signature.user_inputs)
    nodes = [node for node in program.graph.nodes if node.op == "placeholder" and node.name in user]

    def names(value: Any) -> dict[int, str] | None:
        sizes = value.shape if isinstance(value, torch.Tensor) else ()
        return {axis: str(size) for axis, size in enumerate(sizes) if isinstance(size, torch.SymInt)} or None

    leaves, structure = pytree.tree_flatten((args, dict(kwargs)))
    found = [names(node.meta.get("val")) for node in nodes]
    if len(found) != len(leaves) or not any(found):
        return None
    of_args, of_kwargs = pytree.tree_unflatten(found, structure)
    parameters = inspect.signature(program.module().forward).parameters
    return {**dict(zip(parameters, of_args, strict=False)), **of_kwargs}


def inputs_of_program(
    program: ExportedProgram, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The example inputs of an ExportedProgram: the given ones, or else those that it was exported with.

    Raises:
        UsageError: Inputs that do not fit, no inputs at all, or dynamic shapes, which the program already has.
    """
    if dynamic_shapes is not None:
        raise UsageError(
            "dynamic_shapes is not supported together with an ExportedProgram, which defines its own. Pass "
            "dynamic_shapes to torch.export.export, or pass the model itself to opbridge."
        )
    if not args and not kwargs:
        if program.example_inputs is None:
            raise UsageError("The ExportedProgram contains no example inputs. Pass them as args and kwargs.")
        args, kwargs = program.example_inputs
    given, wanted = len(pytree.tree_leaves((args, kwargs))), len(program.graph_signature.user_inputs)
    if given != wanted:
        raise UsageError(
            f"The ExportedProgram has {wanted} inputs, but {given} were given. Pass inputs with the same "
            "structure as those it was exported with."
        )
    return args, kwargs


class _Copy:
    """The copy of a program's graph.

    Attributes:
        inputs: The leaves of the model's inputs.
        weights: The placeholders of its parameters, buffers and constants.
    """

    def __init__(self, program: ExportedProgram) -> None:
        self.inputs: list[Leaf] = []
        self.weights: dict[Node, Weight] = {}
        self._program = program
        self._graph = Graph()
        self._attributes: dict[str, Any] = {}
        self._copies: dict[Node, Any] = {}
        specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
        for node in program.graph.nodes:
            if node.op == "placeholder":
                self._copies[node] = self._placeholder(node, specs[node.name])
            elif node.op == "get_attr":
                path = str(node.target)
                self._attributes[path] = operator.attrgetter(path)(program.graph_module)
                self._copies[node] = self._copied(node)
            elif (call := functionalized_call(node)) is not None:
                self._copies[node] = self._called(node, call)
            elif node.target is operator.getitem and isinstance(self._copies[node.args[0]], (list, tuple)):
                self._copies[node] = self._copies[node.args[0]][node.args[1]]
            elif node.op != "output":
                self._copies[node] = self._copied(node)

    def outputs(self) -> list[Leaf]:
        """The leaves of what the model returns."""
        output = self._program.graph.output_node()
        paths = iter(torch_tracing.output_paths(self._program.call_spec.out_spec))
        outputs: list[Leaf] = []
        for value, spec in zip(output.args[0], self._program.graph_signature.output_specs, strict=True):
            if spec.kind not in _RETURNED:
                continue
            if isinstance(spec.arg, ConstantArgument):
                outputs.append(Leaf(next(paths), None, spec.arg.value))
                continue
            node = self._copies[value] if isinstance(value, Node) else value
            outputs.append(Leaf(next(paths), node) if isinstance(node, Node) else Leaf(next(paths), None, node))
        return outputs

    def module(self, outputs: list[Leaf]) -> GraphModule:
        """The copy as a module that returns these outputs."""
        original = self._program.graph.output_node()
        returned = self._graph.output(tuple(leaf.value if leaf.node is None else leaf.node for leaf in outputs))
        returned.meta = {key: value for key, value in original.meta.items() if key != "val"}
        return torch_tracing.lazy_graph_module(self._attributes, self._graph)

    def _placeholder(self, node: Node, spec: InputSpec) -> Any:
        """What stands for a placeholder: a placeholder, or a constant where it is none."""
        held = self._held(spec)
        if spec.kind == InputKind.USER_INPUT:
            if isinstance(spec.arg, ConstantArgument):
                self.inputs.append(Leaf(node.name, None, spec.arg.value))
                return spec.arg.value
            copied = self._copied(node)
            self.inputs.append(Leaf(node.name, copied))
            return copied
        if spec.kind in _WEIGHTS and isinstance(held, torch.Tensor):
            copied = self._copied(node)
            self.weights[copied] = Weight(spec.target or "", held, _WEIGHTS[spec.kind])
            return copied
        if held is None:  # a token, which orders calls with effects
            return None
        self._attributes[node.name] = held  # an object of a class that is registered with TorchScript
        attribute = self._graph.create_node("get_attr", node.name)
        attribute.name, attribute.meta = node.name, dict(node.meta)
        return attribute

    def _held(self, spec: InputSpec) -> Any:
        """What the program holds for an input that the user does not give."""
        found = self._program.state_dict.get(spec.target or "")
        return self._program.constants.get(spec.target or "") if found is None else found

    def _called(self, node: Node, call: FunctionalizedCall) -> list[Any]:
        """The results of a functionalised call, as nodes: the operator writes to copies of what it is given.

        Raises:
            CaptureError: It writes to a view.
        """
        if call.writes_to_views:
            raise write_to_view(call.operator.name(), node)
        values = node.meta["val"]

        def added(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], value: Any) -> Node:
            made = self._graph.call_function(target, args, kwargs)
            made.meta = {**node.meta, "val": value}
            return made

        def copied(base: Any, value: Any) -> Any:
            if isinstance(base, (list, tuple)):
                return [copied(each, described) for each, described in zip(base, value, strict=True)]
            return added(torch.ops.aten.clone.default, (self._copies[base],), {}, value)

        def copy_of(index: Any) -> Any:
            if isinstance(index, list):
                return [copy_of(each) for each in index]
            return None if index is None else copies[index]

        copies = [copied(*each) for each in zip(call.bases, values[call.returned :], strict=True)]
        given = map_arg(call.given, lambda each: self._copies[each]) | {
            key: copy_of(of) for key, of in call.written.items()
        }
        args = _positional(call.operator, given)
        returned = call.operator._schema.returns
        if len(returned) < 2:
            return [added(call.operator, args, given, values[0]), *copies]
        value = values[: len(returned)]
        result = added(call.operator, args, given, value)
        return [*(added(operator.getitem, (result, at), {}, each) for at, each in enumerate(value)), *copies]

    def _copied(self, node: Node) -> Node:
        copied = self._graph.node_copy(node, lambda argument: self._copies[argument])
        if copied.name != node.name:  # names of Python's own functions are changed: "input", "max"
            copied.name = node.name
        return copied


def _positional(op: torch._ops.OpOverload, given: dict[str, Any]) -> tuple[Any, ...]:
    """Takes the positional arguments of an operator from arguments that are given by name."""
    positional = [each for each in op._schema.arguments if not each.kwarg_only]
    count = max((at + 1 for at, each in enumerate(positional) if each.name in given), default=0)
    return tuple(given.pop(each.name, each.default_value) for each in positional[:count])


def _bounds(found: Any) -> tuple[int, int | None]:
    """A range of torch's; a number that a tensor holds is an int64."""
    low, high = _bound(found.lower), _bound(found.upper)
    return torch.iinfo(torch.int64).min if low is None else low, high


def _bound(value: Any) -> int | None:
    """A bound of a range in torch; None where it is infinite."""
    try:
        bound = int(value)
    except (TypeError, ValueError, OverflowError, AttributeError):
        return None
    return None if abs(bound) >= _INFINITE else bound
