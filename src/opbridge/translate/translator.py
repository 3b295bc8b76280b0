"""Capture and Plan become an onnx_ir.Model.

One walk over the captured graph, in order. Each node is built by its step of the plan; what it stands for is then a
value of the ONNX graph, or a constant that no node has asked for yet. In-place operators rebind the nodes that they
write to.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import onnx_ir as ir
import torch
from onnx_ir.passes import common as passes
from torch.fx import GraphModule, Node

from opbridge.base.dtypes import onnx_dtype
from opbridge.base.torch_private import capabilities, torch_sizes
from opbridge.errors import OpbridgeError, TranslationError
from opbridge.graph.node_sources import has_module_path, module_path_of, sources_of
from opbridge.graph.open_lists import METADATA, open_lists
from opbridge.graph.operators import operator_of
from opbridge.graph.written_results import result_at, results_of
from opbridge.nodes import operator_nodes
from opbridge.onnx.builder import Builder
from opbridge.onnx.tensor import Tensor
from opbridge.plan.data import Plan
from opbridge.plan.faults import Fault
from opbridge.plan.rows import Step
from opbridge.translate import boundary, control_flow, failures
from opbridge.translate.calls import call_symbolic, call_translation
from opbridge.translate.graph_names import GraphNames
from opbridge.translate.values import Values
from opbridge.translations.lib.conventions import Conventions, following
from opbridge.translations.shape import shape as shape_translations

if TYPE_CHECKING:
    from opbridge.capture import Capture

__all__ = ["Translated", "translate"]

_UNNAMED = GraphNames()


@dataclass
class Translated:
    """What translation gives.

    Attributes:
        model: The ONNX model; of use only when nothing failed.
        failures: The nodes that cannot be translated, with the reason.
        faults: The nodes whose translation failed as no translation of opbridge's or torchlib's may.
    """

    model: ir.Model
    failures: dict[Node, str] = field(default_factory=dict)
    faults: dict[Node, Fault] = field(default_factory=dict)


def translate(
    capture: Capture,
    plan: Plan,
    names: GraphNames = _UNNAMED,
    custom_opsets: Mapping[str, int] | None = None,
) -> Translated:
    """Builds the ONNX model that a plan describes.

    A translation that raises does not end the walk: its node is noted and the rest is built, so that all failures are
    reported together. TranslationError and NotImplementedError mean that the operator cannot be translated. Anything
    else is a fault of the translation, unless that is the user's.

    Args:
        capture: The capture that was planned.
        plan: Its plan, in which every operator has a route.
        names: Names for the graph's inputs and outputs.
        custom_opsets: The versions of domains other than ONNX's own.

    Raises:
        UsageError: more names than inputs or outputs, or a name given twice.
    """
    graph = capture.functional.graph
    builder = Builder(plan.opset)
    values = Values(builder, {**capture.dim_names, **capture.dim_sums})
    inputs = boundary.make_inputs(graph, values, names.inputs, capture.asked)
    of_outputs = boundary.output_names(graph, names.outputs, [str(value.name) for value in inputs.tensors], builder)
    walk = _Walk(plan, capture.functional.rebinds, values, inputs.values)
    with builder.translating(), following(_conventions()), torch.no_grad():
        results = walk.graph(graph.module)
        outputs = boundary.make_outputs(graph, values, results, of_outputs)
    model = builder.model(inputs.tensors, outputs, custom_opsets)
    if not walk.failures and not walk.faults:
        passes.RemoveUnusedNodesPass()(model)
    if capture.read_inputs:
        read = [inputs.leaves[index].name for index in capture.read_inputs if index in inputs.leaves]
        model.metadata_props["opbridge.read_inputs"] = json.dumps(read)
    if lists := open_lists(graph.structure):
        model.metadata_props[METADATA] = json.dumps(lists)
    return Translated(model, walk.failures, walk.faults)


def _conventions() -> Conventions:
    return Conventions(
        onnx_dtype(torch.get_default_dtype()),
        counts_fractions=capabilities.counts_fractions.present,
        saturates_float8_e4m3fn=capabilities.saturates_float8_e4m3fn.present,
    )


class _Walk:
    """One walk over a captured graph and the graphs inside it.

    Attributes:
        stands_for: What each node stands for: a value of the ONNX graph, a torch tensor, a number, a list of these.
        failures: The nodes that cannot be translated, with the reason.
        faults: The nodes whose translation failed unexpectedly.
    """

    def __init__(
        self,
        plan: Plan,
        rebinds: Mapping[Node, Mapping[Node, tuple[int, ...]]],
        values: Values,
        stands_for: dict[Node, Any],
    ) -> None:
        self.plan = plan
        self.rebinds = rebinds
        self.values = values
        self.builder = values.builder
        self.stands_for = stands_for
        self.failures: dict[Node, str] = {}
        self.faults: dict[Node, Fault] = {}
        self._depth = 0
        self._named = 1  # how deep the nodes are whose ONNX nodes say which node they are of
        self._naming: Callable[[str], str] = str  # what they say, by the name of the node
        self._raised_by: Step | None = None

    def graph(self, module: GraphModule, arguments: Sequence[Any] | None = None) -> Any:
        """Builds the nodes of a graph and returns its outputs; `arguments` are the values of its placeholders."""
        given = iter(arguments or ())
        for node in module.graph.nodes:
            if node.op == "placeholder":
                if arguments is not None:
                    self.stands_for[node] = next(given)
            elif node.op == "get_attr":
                self.stands_for[node] = _attribute_of(module, str(node.target))
            elif node.op == "call_function":
                self.call(node)
            elif node.op == "output":
                return self.resolve(node.args[0])
        raise AssertionError("a graph without an output")

    def call(self, node: Node) -> None:
        """Builds one node and notes what it stands for."""
        operator = operator_of(node)
        if operator == "_operator::getitem":
            container, index = self.resolve(node.args)
            is_sequence = isinstance(container, ir.Value)
            element = self.builder.emit("SequenceAt", (container, index)) if is_sequence else container[index]
            self.stands_for[node] = self.typed_value(node, element, node.meta.get("val"), set(), "")
            return
        number = torch_sizes.known_size(node.meta.get("val"))
        if type(number) is int:  # of sizes that conditions of the model make a number: an attribute takes it
            self.stands_for[node] = number
            return
        step = self.plan.steps.get(node)
        if step is None:
            # Assertions and the like: nothing of them is left.
            self.stands_for[node] = None
            return
        if step.evaluated:
            self.stands_for[node] = self.evaluated(node)
            return
        self._depth += 1
        try:
            with self._labelled(node, operator):
                self.stands_for[node] = self.build(node, operator, step)
        except Exception as error:
            # A node inside of a decomposition or of control flow fails with the node that it is a part of.
            self._raised_by = self._raised_by or step
            refused = isinstance(error, (TranslationError, NotImplementedError))
            if self._depth > 1 or (isinstance(error, OpbridgeError) and not refused):
                raise
            self._note(node, operator, step, error, refused)
            self.stands_for[node] = self.stand_in(node)
        finally:
            self._depth -= 1
        if node in self.rebinds:
            found, results = self.stands_for[node], results_of(node)
            for written, path in self.rebinds[node].items():
                self.stands_for[written] = result_at(found, path)
            if results.returned == 1 and len(results.values) > 1 and isinstance(found, list):
                self.stands_for[node] = found[0]

    def _subgraph(
        self, module: GraphModule, arguments: Sequence[Any], /, naming: Callable[[str], str] | None = None
    ) -> list[Any]:
        """Builds the nodes of a graph that an operator holds; see `opbridge.translate.control_flow.Walk`."""
        before = self._named, self._naming
        if naming is not None:
            self._named, self._naming = self._depth + 1, naming
        try:
            return [self.values.as_tensor(value) for value in _listed(self.graph(module, arguments))]
        finally:
            self._named, self._naming = before

    def _labelled(self, node: Node, operator: str) -> contextlib.AbstractContextManager[None]:
        if self._depth > 1 and not has_module_path(node):
            return contextlib.nullcontext()
        return self.builder.labelled(*_label(node, operator))

    def _note(self, node: Node, operator: str, step: Step, error: Exception, refused: bool) -> None:
        """Notes why a node was not built: it cannot be translated, or its translation is at fault."""
        raised_by, self._raised_by = self._raised_by or step, None
        if refused or failures.is_users(raised_by):
            self.failures[node] = failures.reason(step, raised_by, error)
        else:
            self.faults[node] = failures.fault(operator, step, raised_by, error)

    def evaluated(self, node: Node) -> Any:
        """The value of a node that depends on no input."""
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), self.as_constant)
        value = node.target(*args, **kwargs)
        if isinstance(value, torch.Tensor) and all(
            id(self.stands_for[each]) in self.values.literals for each in node.all_input_nodes
        ):
            self.values.literals.add(id(value))
        return value

    def as_constant(self, node: Node) -> Any:
        """What a node stands for, as torch's own tensor; of one known only when the model runs, its size and dtype."""
        value = self.stands_for[node]
        if isinstance(value, ir.Value):
            described = node.meta["val"]
            # A size that is not known here has no part in a result whose own size is known.
            return torch.empty((), dtype=described.dtype).expand(
                [n if isinstance(n, int) else 1 for n in described.shape]
            )
        return value

    def build(self, node: Node, operator: str, step: Step) -> Any:
        """The values of a node, built by its step."""
        mark = len(self.builder.nodes)
        args, kwargs = self.resolve(node.args), self.resolve(node.kwargs)
        if node.meta.get("open_rank"):
            x = self.values.as_tensor(args[0])
            built = shape_translations.squeeze_by_size(x, *args[1:])
        elif step.graph is not None:
            built = self.graph(step.graph, [self.stands_for[argument] for argument in node.all_input_nodes])
        elif operator.startswith("higher_order::"):
            convert = self.values.as_operand
            built = control_flow.translate(
                operator,
                self.builder,
                self._subgraph,
                [convert(argument) for argument in args],
                {name: convert(value) for name, value in kwargs.items()},
            )
        elif step.route in operator_nodes.ROUTES:
            values = operator_nodes.Values(self.stands_for.__getitem__, self.values.as_tensor, self.values.described)
            built = operator_nodes.build(node, step.route, self.builder, values)
        else:
            if step.translation is None:
                raise TranslationError("there is no translation for it.")
            call = call_symbolic if step.translation.form == "symbolic" else call_translation
            built = call(self.values, node, step.translation, args, kwargs)
        if node in self.rebinds:
            _require_results(node, built, self.rebinds[node].values())
        _require_computed(node, built)
        return self.typed(node, built, mark)

    def typed(self, node: Node, built: Any, mark: int) -> Any:
        """The values as torch describes them: of its dtype and shape, named after the node."""
        made = {id(output) for onnx_node in self.builder.nodes[mark:] for output in onnx_node.outputs}
        expected = self.expected(node)
        if node in self.rebinds and isinstance(expected, list) and not isinstance(built, (list, tuple)):
            expected = expected[0]  # the others are not read
        if isinstance(built, (list, tuple)) and isinstance(expected, (list, tuple)):
            return [
                self.typed_value(node, value, each, made, f":{index}")
                for index, (value, each) in enumerate(zip(built, expected, strict=False))
            ]
        if isinstance(built, (list, tuple)) and len(built) == 1:
            (built,) = built
        if isinstance(expected, (list, tuple)) and len(expected) == 1 and not _is_sequence(built):
            return [self.typed_value(node, built, expected[0], made, ":0")]
        return self.typed_value(node, built, expected, made, "")

    def typed_value(self, node: Node, value: Any, expected: Any, made: set[int], suffix: str) -> Any:
        """One value in the dtype and shape that torch gives it, named after the node if the node made it.

        Args:
            node: The node of the captured graph.
            value: What was built for it, or for one of its results.
            expected: What torch says of the result.
            made: The identities of the values that were built for the node.
            suffix: Which of several results it is, ":1".
        """
        if not isinstance(value, Tensor) or isinstance(value.type, ir.SequenceType):
            return value
        dtype, shape = self.values.described(expected)
        if dtype is not None and value.dtype is None:
            value.type = ir.TensorType(dtype)
        elif dtype is not None and value.dtype != dtype:
            value = self.builder.emit("Cast", (value,), {"to": dtype})
            made.add(id(value))
        if id(value) not in made:
            return value
        if shape is not None and not node.meta.get("open_rank"):
            value.shape = ir.Shape(shape)
        if self._depth == self._named:
            producer = value.producer()
            if self._depth == 1 and producer is not None and "opbridge.node" not in producer.metadata_props:
                value.name = self.builder.unique(f"{self.builder.prefix}{suffix}")
            if producer is not None:
                _append(producer.metadata_props, "opbridge.node", f"{self._naming(node.name)}{suffix}")
                _append(producer.metadata_props, "opbridge.output", value.name or "")
        return value

    def stand_in(self, node: Node) -> Any:
        """Values in the place of those that could not be built, so that the rest of the graph can be tried."""

        def make(value: Any) -> Any:
            if isinstance(value, (list, tuple)):
                return [make(item) for item in value]
            return (
                self.builder.value(self.builder.unique("failed"), *self.values.described(value))
                if value is not None
                else None
            )

        return make(self.expected(node))

    def expected(self, node: Node) -> Any:
        """What torch says of a node's results, and of what it writes to and does not return."""
        return results_of(node).value if node in self.rebinds else node.meta.get("val")

    def resolve(self, value: Any) -> Any:
        """An fx argument with its nodes replaced by what they stand for."""
        return torch.fx.node.map_arg(value, lambda node: self.stands_for[node])


def _require_results(node: Node, built: Any, paths: Iterable[tuple[int, ...]]) -> None:
    """Refuses what a translation has built where it lacks a result that is read: what the operator writes to.

    Raises:
        TranslationError: It does.
    """
    count = len(built) if isinstance(built, (list, tuple)) else 1
    if all(path == () or (isinstance(built, (list, tuple)) and path[0] < count) for path in paths):
        return
    schema = node.target._schema
    written = [each.name for each in schema.arguments if each.alias_info is not None and each.alias_info.is_write]
    raise TranslationError(
        f"its translation gives {count} of {len(results_of(node).values)} results. The operator writes to "
        f"{', '.join(written)}, which the model reads after it: give what it returns, and then the new value of each "
        "argument that it writes to and does not return."
    )


def _require_computed(node: Node, built: Any) -> None:
    """Refuses a result that is read, and that a translation does not compute: None in its place.

    Raises:
        TranslationError: It does not.
    """
    results = node.meta.get("val")
    if not isinstance(built, (list, tuple)) or not isinstance(results, (list, tuple)):
        return
    lacking = {
        place
        for place, (one, other) in enumerate(zip(built, results, strict=False))
        if one is None and other is not None
    }
    read = {user.args[1] for user in node.users if user.users and operator_of(user) == "_operator::getitem"}
    for place in sorted(lacking & read):
        raise TranslationError(f"its translation does not compute result {place}, which the model reads.")


def _label(node: Node, operator: str) -> tuple[str, dict[str, str]]:
    """What a node's ONNX nodes are named after, and the metadata that they carry."""
    module = module_path_of(node)
    short = operator.partition("::")[2].partition(".")[0]
    metadata = {"opbridge.operator": operator}
    if module:
        metadata["opbridge.module"] = module
    frames = sources_of(node)
    if frames:
        metadata["opbridge.source"] = str(frames[0])
    return (f"{module}/{short}" if module else short), metadata


def _append(metadata: dict[str, str], key: str, text: str) -> None:
    metadata[key] = f"{metadata[key]} {text}" if key in metadata else text


def _attribute_of(module: GraphModule, path: str) -> Any:
    value: Any = module
    for name in path.split("."):
        value = getattr(value, name)
    return value


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else [value]


def _is_sequence(value: Any) -> bool:
    return isinstance(value, ir.Value) and isinstance(value.type, ir.SequenceType)
