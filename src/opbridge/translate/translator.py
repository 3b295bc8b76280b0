"""Capture and Plan become an onnx_ir.Model.

One walk over the captured graph, in order. Each node is built by its step of the plan; what it stands for is then a
value of the ONNX graph, or a constant that no node has asked for yet. In-place operators rebind the nodes that they
write to.
"""

from __future__ import annotations

import itertools
import json
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import onnx_ir as ir
import torch
from onnx_ir.passes import common as passes
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind, SymIntArgument
from torch.fx import GraphModule, Node

from opbridge.base.dtypes import onnx_dtype
from opbridge.base.sources import innermost
from opbridge.base.torch_private import torch_sizes, torch_tracing
from opbridge.errors import TranslationError, UsageError
from opbridge.graph.function_calls import call_of
from opbridge.graph.interface import lifted_tensors
from opbridge.graph.operators import operator_of
from opbridge.graph.promotion import computation_dtype
from opbridge.graph.values import is_complex
from opbridge.nodes import operator_nodes
from opbridge.onnx import onnxscript_private
from opbridge.onnx.builder import Builder
from opbridge.onnx.tensor import Tensor
from opbridge.onnx.torch_tensor import TorchTensor
from opbridge.onnx.versions import ir_version
from opbridge.plan.data import Plan, Step
from opbridge.translate import control_flow
from opbridge.translations import signature

if TYPE_CHECKING:
    from opbridge.capture import Capture
    from opbridge.translations.registry import Translation

__all__ = ["Translated", "translate"]

_SMALL = 4096
"""Constants of at most this many elements are numbers of the graph; larger ones are weights with a name."""

# Beside complex tensors these stay what they are.
_KEEPING_THEIR_TYPE = frozenset({"condition", "mask", "indices"})


@dataclass
class Translated:
    """What translation gives.

    Attributes:
        model: The ONNX model; of use only when nothing failed.
        failures: The nodes whose translation raised, with the reason.
    """

    model: ir.Model
    failures: dict[Node, str] = field(default_factory=dict)


def translate(
    capture: Capture,
    plan: Plan,
    *,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    custom_opsets: Mapping[str, int] | None = None,
) -> Translated:
    """Builds the ONNX model that a plan describes.

    A translation that raises does not end the walk: its node is noted in `failures` and the rest is built, so that all
    failures are told together.

    Args:
        capture: The capture that was planned.
        plan: Its plan, in which every operator has a route.
        input_names: Names for the graph's inputs, in order; fewer than there are leave the rest as they are.
        output_names: The same for its outputs.
        custom_opsets: The versions of domains other than ONNX's own.

    Raises:
        UsageError: more names than inputs or outputs, or a name given twice.
    """
    translator = _Translator(plan, capture)
    built = translator.run(input_names, output_names, dict(custom_opsets or {}))
    if capture.read_inputs:
        names = [translator.leaves[index].name for index in capture.read_inputs if index in translator.leaves]
        built.model.metadata_props["opbridge.read_inputs"] = json.dumps(names)
    return built


class _Translator:
    def __init__(self, plan: Plan, capture: Capture) -> None:
        self.plan = plan
        self.program = capture.functional.program
        self.rebinds = capture.functional.rebinds
        dim_names = capture.dim_names
        self.builder = Builder(plan.opset)
        self.values: dict[Node, Any] = {}
        self.failures: dict[Node, str] = {}
        self.leaves: dict[int | None, Tensor] = {}
        self._dim_names = dict(dim_names)
        self._symbol = re.compile("|".join(rf"\b{re.escape(name)}\b" for name in dim_names) or r"(?!)")
        self._weight_names: dict[int, str] = {}
        self._initializers: dict[int, tuple[torch.Tensor, Tensor]] = {}
        self._depth = 0
        self._literals: set[int] = set()

    # The whole model

    def run(
        self, input_names: Sequence[str] | None, output_names: Sequence[str] | None, custom_opsets: dict[str, int]
    ) -> Translated:
        inputs = self.inputs(input_names)
        with self.builder.translating(), torch.no_grad():
            results = self.walk(self.program.graph_module)
            outputs = self.outputs(results, inputs, output_names)
        graph = ir.Graph(
            inputs,
            outputs,
            nodes=self.builder.nodes,
            initializers=list(self.builder.constants.values()),
            opset_imports={"": self.plan.opset, **self.builder.domains, **custom_opsets},
            name="model",
        )
        model = ir.Model(
            graph,
            ir_version=ir_version(self.plan.opset, functions=bool(self.builder.functions)),
            functions=list(self.builder.functions.values()),
        )
        if not self.failures:
            passes.RemoveUnusedNodesPass()(model)
        return Translated(model, self.failures)

    def inputs(self, names: Sequence[str] | None) -> list[Tensor]:
        """The graph's inputs: the model's tensor inputs, one for one, used or not."""
        lifted = lifted_tensors(self.program)
        placeholders = {node.name: node for node in self.program.graph.nodes if node.op == "placeholder"}
        given = []
        leaves = itertools.count()
        places = []
        for spec in self.program.graph_signature.input_specs:
            leaf = next(leaves) if spec.kind == InputKind.USER_INPUT else None
            node = placeholders[spec.arg.name]
            if node.name in lifted:
                name, tensor = lifted[node.name]
                self._weight_names.setdefault(id(tensor), name)
                if spec.kind == InputKind.CONSTANT_TENSOR:
                    self._literals.add(id(tensor))
                self.values[node] = tensor
            elif isinstance(spec.arg, ConstantArgument):
                self.values[node] = spec.arg.value
            elif spec.kind == InputKind.USER_INPUT:
                given.append(node)
                places.append(leaf)
        chosen = _names(names, [node.name for node in given], "input")
        tensors_given = []
        for node, name in zip(given, chosen, strict=True):
            value = self.builder.value(self.builder.unique(name), *self.described(node.meta["val"]))
            self.values[node] = value
            tensors_given.append(value)
        self.leaves = dict(zip(places, tensors_given, strict=True))
        return tensors_given

    def outputs(self, results: Any, inputs: Sequence[Tensor], names: Sequence[str] | None) -> list[Tensor]:
        """The graph's outputs: the model's tensor outputs in order, each a value of its own."""
        paths = torch_tracing.output_paths(self.program)
        users = [
            (value, spec)
            for value, spec in zip(results, self.program.graph_signature.output_specs, strict=True)
            if spec.kind in (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)
        ]
        kept = [
            (value, path, isinstance(spec.arg, SymIntArgument))
            for (value, spec), path in zip(users, paths, strict=True)
            if isinstance(value, (ir.Value, torch.Tensor)) or isinstance(spec.arg, SymIntArgument)
        ]
        chosen = _names(names, [path for _, path, _ in kept], "output")
        outputs: list[Tensor] = []
        for (value, _, _), name in zip(kept, chosen, strict=True):
            output = self.as_tensor(value)
            free = output.producer() is not None and not any(output is other for other in outputs)
            if not free:
                output = self.builder.node("Identity", [output], {}, [output.dtype], shapes=[output.shape])[0]
            _rename(output, self.builder.unique(name))
            outputs.append(output)
        return outputs

    # One graph

    def walk(self, module: GraphModule, arguments: Sequence[Any] | None = None) -> Any:
        """Builds the nodes of a graph and returns its outputs; `arguments` are the values of its placeholders."""
        given = iter(arguments or ())
        for node in module.graph.nodes:
            if node.op == "placeholder":
                if arguments is not None:
                    self.values[node] = next(given)
            elif node.op == "get_attr":
                self.values[node] = _attribute_of(module, str(node.target))
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
            self.values[node] = self.settle(node, element, node.meta.get("val"), set(), "")
            return
        step = self.plan.steps.get(node)
        if step is None:
            # Assertions and the like: nothing of them is left.
            self.values[node] = None
            return
        if step.evaluated:
            self.values[node] = self.evaluated(node)
            return
        self._depth += 1
        try:
            if self._depth == 1 or "nn_module_stack" in node.meta:
                prefix, metadata = _label(node, operator)
                with self.builder.labelled(prefix, metadata):
                    self.values[node] = self.build(node, operator, step)
            else:
                self.values[node] = self.build(node, operator, step)
        except (
            TranslationError,
            NotImplementedError,
            TypeError,
            ValueError,
            AttributeError,
            IndexError,
            KeyError,
        ) as error:
            if self._depth > 1:
                raise
            self.failures[node] = _failure(step, error)
            self.values[node] = self.stand_in(node)
        finally:
            self._depth -= 1
        for written in self.rebinds.get(node, ()):
            self.values[written] = self.values[node]

    def evaluated(self, node: Node) -> Any:
        """The value of a node that depends on no input."""
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), self.as_constant)
        value = node.target(*args, **kwargs)
        if isinstance(value, torch.Tensor) and all(
            id(self.values[each]) in self._literals for each in node.all_input_nodes
        ):
            self._literals.add(id(value))
        return value

    def as_constant(self, node: Node) -> Any:
        """What a node stands for, as torch's own tensor; of one known only when the model runs, its size and dtype."""
        value = self.values[node]
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
        if step.graph is not None:
            built = self.walk(step.graph, [self.values[argument] for argument in node.all_input_nodes])
        elif operator.startswith("higher_order::"):
            convert = self.as_operand
            built = control_flow.translate(
                operator,
                self.builder,
                lambda graph, given: [self.as_tensor(value) for value in _listed(self.walk(graph, given))],
                [convert(argument) for argument in args],
                {name: convert(value) for name, value in kwargs.items()},
            )
        elif step.route in operator_nodes.ROUTES:
            values = operator_nodes.Values(self.values.__getitem__, self.as_tensor, self.described)
            built = operator_nodes.build(node, step.route, self.builder, values)
        else:
            if step.translation is None:
                raise TranslationError("the plan has no translation for it.")
            by_symbolic = step.translation.form == "symbolic"
            built = (self.symbolic if by_symbolic else self.translated)(node, step.translation, args, kwargs)
        return self.settled(node, built, mark)

    def translated(self, node: Node, entry: Translation, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What a translation builds."""
        promoted = computation_dtype(node)
        minus_one_for_none = entry.origin == "torchlib"

        def convert(name: str, value: Any, argument: Any) -> Any:
            if value is None and name == "dtype" and minus_one_for_none:
                return -1
            if promoted is not None and promoted.is_complex:
                if isinstance(value, (list, tuple)) and isinstance(argument, (list, tuple)):
                    return [convert(name, item, each) for item, each in zip(value, argument, strict=True)]
                if name in _KEEPING_THEIR_TYPE:
                    return self.as_argument(value, None)
                if isinstance(value, (torch.Tensor, Tensor)):
                    is_pair = isinstance(argument, Node) and is_complex(argument)
                    return self.as_pair(self.as_tensor(value), promoted, is_pair)
            return self.as_argument(value, promoted)

        schema = getattr(node.target, "_schema", None)
        declared = [argument.name for argument in schema.arguments] if schema is not None else []
        unnamed = [""] * (len(args) - len(declared))
        positional = [
            convert(name, value, argument)
            for name, value, argument in zip([*declared[: len(args)], *unnamed], args, node.args, strict=True)
        ]
        keywords = {name: convert(name, value, node.kwargs[name]) for name, value in kwargs.items()}
        names, takes_more, takes_named = onnxscript_private.parameters(entry.function)
        if not takes_named:
            keywords = {
                name: value for name, value in keywords.items() if name in names or name not in signature.HOLDING
            }
        if not takes_more and len(positional) > len(names):
            extra = declared[len(names) : len(positional)]
            if all(name in signature.HOLDING for name in extra):
                positional = positional[: len(names)]
        return entry.function(*positional, **keywords)

    def symbolic(self, node: Node, entry: Translation, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What a symbolic function builds."""
        from opbridge.symbolics import calling

        expected = node.meta.get("val")
        outputs = [self.described(value) for value in _listed(expected)]
        call = call_of(node)
        if call is not None:
            values = [self.for_symbolic(value) for value in args[0]]
            return calling.build_function(self.builder, call, values, args[1], outputs, _used(node))
        args, kwargs = torch.fx.node.map_aggregate((args, kwargs), self.for_symbolic)
        return calling.build_operator(self.builder, entry, node, args, kwargs, outputs, _used(node))

    def for_symbolic(self, value: Any) -> Any:
        """A tensor as a value of the graph, unless the model's code spells it out: symbolic functions may read that."""
        return self.as_tensor(value) if isinstance(value, torch.Tensor) and id(value) not in self._literals else value

    def settled(self, node: Node, built: Any, mark: int) -> Any:
        """The values as torch describes them: of its dtype and shape, named after the node."""
        made = {id(output) for onnx_node in self.builder.nodes[mark:] for output in onnx_node.outputs}
        expected = node.meta.get("val")
        if isinstance(built, (list, tuple)) and isinstance(expected, (list, tuple)):
            return [
                self.settle(node, value, each, made, f":{index}")
                for index, (value, each) in enumerate(zip(built, expected, strict=False))
            ]
        if isinstance(built, (list, tuple)) and len(built) == 1:
            (built,) = built
        if isinstance(expected, (list, tuple)) and len(expected) == 1 and not _is_sequence(built):
            return [self.settle(node, built, expected[0], made, ":0")]
        return self.settle(node, built, expected, made, "")

    def settle(self, node: Node, value: Any, expected: Any, made: set[int], suffix: str) -> Any:
        if not isinstance(value, Tensor) or isinstance(value.type, ir.SequenceType):
            return value
        dtype, shape = self.described(expected)
        if dtype is not None and value.dtype is None:
            value.type = ir.TensorType(dtype)
        elif dtype is not None and value.dtype != dtype:
            value = self.builder.emit("Cast", (value,), {"to": dtype})
            made.add(id(value))
        if id(value) not in made:
            return value
        if shape is not None:
            value.shape = ir.Shape(shape)
        if self._depth == 1:
            producer = value.producer()
            if producer is not None and "opbridge.node" not in producer.metadata_props:
                value.name = self.builder.unique(f"{self.builder.prefix}{suffix}")
            if producer is not None:
                _append(producer.metadata_props, "opbridge.node", f"{node.name}{suffix}")
                _append(producer.metadata_props, "opbridge.output", value.name or "")
        return value

    def stand_in(self, node: Node) -> Any:
        """Values in the place of those that could not be built, so that the rest of the graph can be tried."""

        def make(value: Any) -> Any:
            if isinstance(value, (list, tuple)):
                return [make(item) for item in value]
            return (
                self.builder.value(self.builder.unique("failed"), *self.described(value)) if value is not None else None
            )

        return make(node.meta.get("val"))

    # Values

    def resolve(self, value: Any) -> Any:
        """An fx argument with its nodes replaced by what they stand for."""
        return torch.fx.node.map_arg(value, lambda node: self.values[node])

    def as_argument(self, value: Any, promoted: torch.dtype | None) -> Any:
        """An argument in the form that translations take it."""
        if isinstance(value, torch.Tensor):
            value = self.as_tensor(value)
        if isinstance(value, Tensor):
            if promoted is None or not isinstance(value.type, ir.TensorType):
                return value
            converted = self.builder.emit("Cast", (value,), {"to": onnx_dtype(promoted)})
            converted.shape = value.shape
            return converted
        if isinstance(value, (list, tuple)):
            return [self.as_argument(item, promoted) for item in value]
        if isinstance(value, torch.dtype):
            return int(onnx_dtype(value))
        if isinstance(value, (torch.device, torch.layout, torch.memory_format)):
            return str(value)
        return value

    def as_pair(self, value: Tensor, dtype: torch.dtype, is_pair: bool) -> Tensor:
        """A value in a complex dtype: real and imaginary part in a trailing dimension of 2."""
        shape = list(value.shape) if value.shape is not None else []
        value = self.builder.emit("Cast", (value,), {"to": onnx_dtype(dtype.to_real())})
        if not is_pair:
            column = self.builder.emit("Unsqueeze", (value, [-1]))
            value = self.builder.emit("Pad", (column, [0] * (2 * len(shape) + 1) + [1]))
            shape.append(2)
        value.shape = ir.Shape(shape)
        return value

    def as_operand(self, value: Any) -> Any:
        """An argument of a higher-order operator: tensors as values of the graph, graphs as they are."""
        if isinstance(value, (list, tuple)):
            return [self.as_operand(item) for item in value]
        if isinstance(value, torch.Tensor) or (isinstance(value, (int, float)) and not isinstance(value, bool)):
            return self.as_tensor(value)
        return value

    def as_tensor(self, value: Any) -> Tensor:
        """A value of the graph; constants become initializers the first time that they are asked for."""
        if isinstance(value, ir.Value):
            return value  # type: ignore[return-value]
        if not isinstance(value, torch.Tensor):
            return self.builder.constant(value)
        known = self._initializers.get(id(value))
        if known is None:
            known = value, self.initializer(value)
            self._initializers[id(value)] = known
        return known[1]

    def initializer(self, tensor: torch.Tensor) -> Tensor:
        name = self._weight_names.get(id(tensor))
        data = TorchTensor(tensor, name=name)
        if name is None and tensor.numel() <= _SMALL and not tensor.is_complex() and tensor.dtype != torch.bfloat16:
            return self.builder.constant(data.numpy(), data.dtype)
        return self.builder.initializer(name or f"{self.builder.prefix}/constant".lstrip("/"), data)

    def described(self, value: Any) -> tuple[ir.DataType | None, list[int | str] | None]:
        """The ONNX type and shape of a value, from what torch says of it."""
        if isinstance(value, torch.Tensor):
            shape = [self.dim(size) for size in value.shape]
            if value.is_complex():
                return onnx_dtype(value.dtype.to_real()), [*shape, 2]
            return onnx_dtype(value.dtype), shape
        if isinstance(value, (torch.SymBool, bool)):
            return ir.DataType.BOOL, []
        if isinstance(value, (torch.SymInt, int)):
            return ir.DataType.INT64, []
        if isinstance(value, (torch.SymFloat, float)):
            return None, []
        return None, None

    def dim(self, size: Any) -> int | str:
        size = torch_sizes.settled_size(size)
        if isinstance(size, int):
            return size
        return self._symbol.sub(lambda found: self._dim_names[found[0]], str(size))


def _used(node: Node) -> list[bool]:
    """Which of a node's outputs are read."""
    expected = node.meta.get("val")
    if not isinstance(expected, (list, tuple)):
        return [True]
    picked = {user.args[1] for user in node.users if user.target is operator.getitem and user.users}
    whole = any(user.target is not operator.getitem for user in node.users)
    return [whole or index in picked for index in range(len(expected))]


def _names(given: Sequence[str] | None, defaults: Sequence[str], what: str) -> list[str]:
    given = list(given or ())
    if len(given) > len(defaults):
        raise UsageError(
            f"{what}_names holds {len(given)} names, and the model has {len(defaults)} {what}s "
            f"({', '.join(defaults) or 'none'}). Leave the last {len(given) - len(defaults)} out."
        )
    if len(set(given)) != len(given):
        raise UsageError(f"{what}_names holds a name twice: {', '.join(given)}.")
    return [*given, *defaults[len(given) :]]


def _label(node: Node, operator: str) -> tuple[str, dict[str, str]]:
    """What a node's ONNX nodes are named after, and the metadata that they carry."""
    stack = node.meta.get("nn_module_stack") or {}
    module = next(reversed(stack.values()), ("",))[0] if stack else ""
    short = operator.partition("::")[2].partition(".")[0]
    metadata = {"opbridge.operator": operator}
    if module:
        metadata["opbridge.module"] = module
    frames = innermost(node.meta.get("stack_trace"))
    if frames:
        metadata["opbridge.source"] = str(frames[0])
    return (f"{module}/{short}" if module else short), metadata


def _rename(value: Tensor, name: str) -> None:
    """Renames a value, in the metadata of the node that makes it too."""
    producer = value.producer()
    if producer is not None and "opbridge.output" in producer.metadata_props:
        names = producer.metadata_props["opbridge.output"].split(" ")
        renamed = (name if each == value.name else each for each in names)
        producer.metadata_props["opbridge.output"] = " ".join(renamed)
    value.name = name


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


def _failure(step: Step, error: BaseException) -> str:
    """Why an operator could not be built; a symbolic function's own words name it already."""
    text = _first_line(error)
    own = step.translation is not None and step.translation.form == "symbolic"
    return text if own else f"Its {_origin(step)} failed: {text}"


def _origin(step: Step) -> str:
    if step.translation is not None:
        return step.translation.describe()
    if step.graph is None and step.route in operator_nodes.ROUTES:
        return f"{step.route} node"
    return "decomposition" if step.graph is not None else "control flow"


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{text[0] if text else type(error).__name__}"
