"""What the values of a float32 model reach, and what each of its nodes loses in 16 bits, in one run.

A copy of the model gets nodes that reduce every value of float32 to a few numbers, so that no more memory is needed
than for a run. Each node that computes is there twice: once on rounded inputs. The numbers of bodies come out of a Loop
or a Scan as a state, of which the largest of all iterations is kept, and out of an If as an output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from opbridge.precision.copies import Copy
from opbridge.precision.feeding import opened
from opbridge.precision.formats import Format, loss
from opbridge.precision.forms import CONTROL_FLOW, Form
from opbridge.precision.instruments import MOVING, Instruments, Place
from opbridge.precision.sharing import SharedWeights
from opbridge.precision.types import Floats, bodies

__all__ = ["Measured", "measure"]

_FLOAT = ir.DataType.FLOAT

_WITHOUT_TWIN = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Constant"}
    | {"Cast"}
    | MOVING
    | CONTROL_FLOW
)


@dataclass
class Measured:
    """What was measured.

    Attributes:
        largest: The largest finite magnitude of each value.
        losses: How far a rounded value is from the value, relative to its RMS.
        errors: How far what a node gives on rounded inputs is from what it gives, once rounded too, relative to its
            RMS; infinite where it overflows.
    """

    largest: dict[ir.Value, float]
    losses: dict[ir.Value, float]
    errors: dict[ir.Node, float]


def measure(
    model: ir.Model,
    to: Format,
    floats: Floats,
    form: Callable[[ir.Node], Form],
    feeds: Sequence[Mapping[str, Any]],
    weights: SharedWeights,
) -> Measured:
    """Runs a model on inputs, and says what its values reach.

    Args:
        model: The model, without functions.
        to: The format.
        floats: Its values of float32.
        form: The form of a node.
        feeds: The inputs.
        weights: Where its weights are found.

    Raises:
        OpbridgeError: The copy does not load, or does not run.
    """
    measuring = _Measuring(model, to, floats, form)
    found = np.zeros(len(measuring.subjects) * 2, np.float64)
    with opened(weights.model(measuring.copy.model)) as session:
        for each in feeds:
            (numbers,) = session.run([measuring.output], each)
            found = np.maximum(found, numbers)  # NaN stays
    result = measuring.result(found)
    for value in model.graph.inputs:
        for each in feeds:
            if value in floats and (given := each.get(value.name or "")) is not None:
                array = np.abs(given[np.isfinite(given)])
                result.largest[value] = max(result.largest.get(value, 0.0), float(array.max(initial=0.0)))
                result.losses[value] = max(result.losses.get(value, 0.0), loss(given, to)[0])
    return result


class _Measuring:
    """A copy of a model that gives one vector: for each subject its largest magnitude or difference, and its scale."""

    def __init__(self, model: ir.Model, to: Format, floats: Floats, form: Callable[[ir.Node], Form]) -> None:
        self.copy = Copy(model)
        self._twins_of = {twin: node for node, twin in self.copy.nodes.items()}
        self._originals = {twin: value for value, twin in self.copy.values.items()}
        self._floats, self._form = floats, form
        self._tools = Instruments(self.copy.model, to)
        self.subjects: list[tuple[str, Any]] = []
        graph = self.copy.model.graph
        vectors = self._graph(graph)
        vector = self._tools.vector(Place.end(graph), vectors or [self._none(0)])
        graph.outputs.clear()
        vector.shape = ir.Shape([None])
        graph.outputs.append(vector)
        self.output = vector.name

    def result(self, found: np.ndarray) -> Measured:
        """The numbers by what they are of."""
        result = Measured({}, {}, {})
        for at, (kind, subject) in enumerate(self.subjects):
            first, second = found[2 * at], found[2 * at + 1]
            if kind == "largest":
                result.largest[subject] = float(first)
                continue
            # Squares: of a difference, and of what it is relative to.
            relative = 0.0
            if np.isfinite(second):  # the square of a very large number is not
                relative = float(np.sqrt(first / second)) if second > 0 else 0.0
                relative = relative if np.isfinite(first) else float("inf")
            into = result.losses if kind == "loss" else result.errors
            into[subject] = max(into.get(subject, 0.0), relative)
        return result

    def _graph(self, graph: ir.Graph) -> list[ir.Value]:
        """Adds the numbers of a graph, in the order of `subjects`."""
        vectors: list[ir.Value] = []
        for node in list(graph):
            original = self._twins_of.get(node)
            if original is None:
                continue
            outputs_of = list(node.outputs)
            if node.domain in ("", "ai.onnx") and node.op_type in CONTROL_FLOW:
                outputs_of, inner = self._control_flow(node)
                vectors += inner
            form = self._form(original)
            outputs = [at for at, each in enumerate(original.outputs) if each in self._floats]
            for at in outputs:
                if node.op_type != "Constant" and original.outputs[at].name:
                    vectors.append(self._value(original.outputs[at], outputs_of[at]))
            if form.changes and node.op_type not in _WITHOUT_TWIN and outputs and any(form.inputs):
                vectors += self._twin(original, node, form)
        return vectors

    def _none(self, count: int) -> ir.Value:
        """A vector for so many subjects that were not met."""
        return self._tools.constant(np.zeros(2 * count, np.float32))

    # Numbers

    def _value(self, original: ir.Value, value: ir.Value) -> ir.Value:
        """The largest magnitude of a value, and how far it is from what it becomes."""
        at = Place.behind(value, self.copy.model.graph)
        plain = self._finite(at, value)
        largest = self._reduced(at, "ReduceMax", self._of_float(at, "Abs", plain))
        difference = self._of_float(at, "Sub", self._tools.round_at(at, plain), plain)
        self.subjects += [("largest", original), ("loss", original)]
        return self._tools.vector(at, [largest, largest, self._squares(at, difference), self._squares(at, plain)])

    def _twin(self, original: ir.Node, node: ir.Node, form: Form) -> list[ir.Value]:
        """How far the node is on rounded inputs from itself."""
        rounded = {at: self._tools.rounded(value) for at, value in enumerate(node.inputs) if form.inputs[at] and value}
        inputs = [rounded.get(at, value) for at, value in enumerate(node.inputs)]
        twin = ir.Node(
            node.domain,
            node.op_type,
            inputs,
            list(node.attributes.values()),
            num_outputs=len(node.outputs),
            name=self._tools.name(),
        )
        for own, other in zip(twin.outputs, node.outputs, strict=True):
            own.name = self._tools.name() if other.name else ""
            own.type = other.type
        assert node.graph is not None
        node.graph.insert_after(node, twin)
        vectors = []
        for at, is_half in enumerate(form.outputs):
            if not is_half or not node.outputs[at].name:
                continue
            want, have = node.outputs[at], twin.outputs[at]
            place = Place.behind(have, self.copy.model.graph)
            apart = self._of_float(place, "Sub", self._tools.round_at(place, have), want)
            zero = self._tools.constant(np.zeros((), np.float32))
            apart = self._tools.where(place, self._is_finite(place, want), apart, zero)
            self.subjects.append(("error", original))
            squares = self._squares(place, apart), self._squares(place, self._finite(place, want))
            vectors.append(self._tools.vector(place, squares))
        return vectors

    def _finite(self, at: Place, value: ir.Value) -> ir.Value:
        """The value, with 0 for what is not finite."""
        return self._tools.where(at, self._is_finite(at, value), value, self._tools.constant(np.zeros((), np.float32)))

    def _is_finite(self, at: Place, value: ir.Value) -> ir.Value:
        infinity = self._tools.constant(np.full((), np.inf, np.float32))
        return self._tools.emit(at, "Less", self._of_float(at, "Abs", value), infinity, dtype=ir.DataType.BOOL)

    def _squares(self, at: Place, value: ir.Value) -> ir.Value:
        return self._reduced(at, "ReduceMean", self._of_float(at, "Mul", value, value))

    def _reduced(self, at: Place, op_type: str, value: ir.Value) -> ir.Value:
        """A number of all elements, in a vector; and of one more that is 0, for a tensor without any."""
        flat = self._of_float(at, "Reshape", value, self._tools.constant(np.array([-1], np.int64)))
        more = self._tools.vector(at, [flat, self._tools.constant(np.zeros(1, np.float32))])
        return self._of_float(at, op_type, more)

    def _of_float(self, at: Place, op_type: str, *inputs: ir.Value) -> ir.Value:
        return self._tools.emit(at, op_type, *inputs, dtype=_FLOAT)

    # Bodies

    def _control_flow(self, node: ir.Node) -> tuple[list[ir.Value], list[ir.Value]]:
        """Brings the numbers of a node's bodies out of it: its outputs afterwards, and these numbers."""
        graphs_of = list(bodies(node))
        if node.op_type == "If":
            return self._branches(node, graphs_of)
        (body,) = graphs_of
        start = len(self.subjects)
        vectors = self._graph(body)
        count = len(self.subjects) - start
        if not count:
            return list(node.outputs), []
        end = Place.end(body)
        state = ir.Value(name=self._tools.name(), type=ir.TensorType(_FLOAT), shape=ir.Shape([2 * count]))
        own = self._tools.vector(end, vectors)
        kept = self._of_float(end, "Max", state, own)
        kept.shape = ir.Shape([2 * count])
        scanned = _attribute(node, "num_scan_inputs") if node.op_type == "Scan" else 0
        states = len(node.inputs) - scanned if node.op_type == "Scan" else len(node.inputs) - 2
        before = 2 if node.op_type == "Loop" else 0  # the number of the iteration and the condition
        body.inputs.insert(before + states, state)
        body.outputs.insert((1 if node.op_type == "Loop" else 0) + states, kept)
        given = list(node.inputs)
        given.insert(before + states, self._none(count))
        return _with(node, given, states, self._tools.name())

    def _branches(self, node: ir.Node, branches: Sequence[ir.Graph]) -> tuple[list[ir.Value], list[ir.Value]]:
        """The outputs of an If, and the numbers of both branches, of which one ran."""
        found = []
        for branch in branches:
            start = len(self.subjects)
            vectors = self._graph(branch)
            found.append((branch, vectors, len(self.subjects) - start))
        total = sum(count for _, _, count in found)
        if not total:
            return list(node.outputs), []
        for place, (branch, vectors, count) in enumerate(found):
            others = self._none(total - count)
            parts = [others, *vectors] if place else [*vectors, others]
            vector = self._tools.vector(Place.end(branch), parts)
            vector.shape = ir.Shape([2 * total])
            branch.outputs.append(vector)
        return _with(node, list(node.inputs), len(node.outputs), self._tools.name())


def _attribute(node: ir.Node, name: str) -> int:
    found = node.attributes.get(name)
    return 0 if found is None else int(found.value)


def _with(node: ir.Node, inputs: list[ir.Value | None], at: int, name: str) -> tuple[list[ir.Value], list[ir.Value]]:
    """Puts a node with other inputs and one more output in the place of a node.

    Args:
        node: The node.
        inputs: The inputs.
        at: Where the output goes.
        name: Its name.

    Returns:
        The outputs that the node had, in the new one; and the one more.
    """
    made = ir.Node(
        node.domain,
        node.op_type,
        inputs,
        [],
        num_outputs=len(node.outputs) + 1,
        name=node.name,
    )
    graph = node.graph
    assert graph is not None
    attributes = list(node.attributes.values())
    node.attributes.clear()
    for each in attributes:
        made.attributes[each.name] = each
    graph.insert_before(node, made)
    new = list(made.outputs)
    extra = new.pop(at)
    extra.name, extra.type = name, ir.TensorType(_FLOAT)
    for old, one in zip(node.outputs, new, strict=True):
        one.name, one.type, one.shape = old.name, old.type, old.shape
        old.replace_all_uses_with(one, replace_graph_outputs=True)
        old.name = None
    graph.remove(node, safe=True)
    return new, [extra]
