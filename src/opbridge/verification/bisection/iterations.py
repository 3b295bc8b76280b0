"""The first iteration of a Loop or a Scan in which two sides differ, and the model of its body.

Both sides run the node for some of its iterations, a Loop with a smaller trip count and a Scan on a part of what it
goes over: 2 log2(n) runs of each find the first number of iterations after which they differ. The last of these
iterations then runs alone, by its body, on the values that the expected side carries into it. Beside PyTorch, that side
is a loop of the captured graph: see `captured_loops`.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import onnx
import torch

from opbridge.onnx import subgraphs
from opbridge.onnx.subgraphs import GraphIndex, described, inputs_of
from opbridge.verification.bisection.cases import Case
from opbridge.verification.bisection.entering import Held
from opbridge.verification.bisection.files import FileSide
from opbridge.verification.bisection.judging import Judge
from opbridge.verification.bisection.types import typed
from opbridge.verification.bisection.unending import MOST_ITERATIONS

__all__ = ["Counted", "Loop", "Repeated", "Scan", "first_difference", "first_iteration", "holder_of", "loop_within"]

_TRIP_COUNT = "opbridge_trip_count"
Tensors = Mapping[str, torch.Tensor]


class Counted(Protocol):
    """What can be run for some of its iterations."""

    @property
    def most(self) -> int:
        """How many iterations it has at most."""
        ...

    def after(self, count: int) -> dict[str, torch.Tensor]:
        """Its outputs, in order, after so many iterations, or fewer where it ends before."""
        ...


def first_iteration(case: Case, judge: Judge) -> Held | None:
    """The first iteration in which two sides differ; None where their parts are no Loop or Scan, or differ as a whole.

    Raises:
        OpbridgeError: A run fails.
    """
    sides = [
        _repeated(side, part, inputs) for side, part, inputs in zip(case.sides, case.parts, case.inputs, strict=True)
    ]
    left, right = sides
    if left is None or right is None or type(left) is not type(right) or left.form != right.form:
        return None
    number = first_difference(left, right, judge)
    if number is None:
        return None
    carried = list(left.after(number, carried_only=True).values())
    steps = [each.body(number, carried) for each in (left, right)]
    results = [each.side.compute(*step) for each, step in zip((left, right), steps, strict=True)]
    for one, other in zip(*(list(each.items()) for each in results), strict=True):
        if not judge.compare(one[0], one[1], other[1]).ok:
            (first, feeds), (second, others) = steps
            return Held((first, second), (feeds, others), (one[0], other[0]), holder_of(left, number))
    return None


def holder_of(loop: Repeated, number: int) -> str:
    """The node that holds the operators of an iteration, in words."""
    return f"{described(loop.node)}, iteration {number}"


def first_difference(left: Counted, right: Counted, judge: Judge) -> int | None:
    """The first iteration after which two loops differ; None where none is found.

    Raises:
        OpbridgeError: A run fails.
    """

    def differ(count: int) -> bool:
        pairs = zip(left.after(count).items(), right.after(count).values(), strict=True)
        return not all(judge.compare(name, one, other).ok for (name, one), other in pairs)

    limit = min(left.most, right.most, MOST_ITERATIONS)
    same, other = 0, 1
    while other < limit and not differ(other):
        same, other = other, 2 * other
    if other >= limit:
        other = limit
        if limit < 1 or not differ(limit):
            return None
    while same + 1 < other:
        middle = (same + other) // 2
        same, other = (same, middle) if differ(middle) else (middle, other)
    return same


class Repeated(abc.ABC):
    """A part of a file that is one Loop or Scan.

    Args:
        side: The file.
        part: The part.
        inputs: Its inputs.

    Attributes:
        most: How many iterations it has at most.
        form: What both sides have in common if the values that they carry belong together.
    """

    most: int

    def __init__(self, side: FileSide, part: onnx.ModelProto, inputs: Tensors) -> None:
        self.side, self.part, self.inputs = side, part, inputs
        self.node = part.graph.node[0]
        self.graph = next(each.g for each in self.node.attribute if each.name == "body")
        self.form: tuple[int, ...] = (len(self.graph.input), len(self.graph.output))

    @property
    @abc.abstractmethod
    def carried(self) -> int:
        """How many values one iteration hands to the next."""

    def after(self, count: int, *, carried_only: bool = False) -> dict[str, torch.Tensor]:
        """The outputs of the node after so many iterations, or those of them that are carried."""
        model = onnx.ModelProto()
        model.CopyFrom(self.part)
        (node,) = model.graph.node
        wanted = self.carried if carried_only else len(node.output)
        for at, name in enumerate(node.output):
            node.output[at] = name or f"opbridge_output_{at}"
        del model.graph.output[:], model.graph.value_info[:]
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.output[:wanted])
        return self.side.compute(model, self._shortened(model, count))

    def body(self, number: int, carried: Sequence[torch.Tensor]) -> tuple[onnx.ModelProto, dict[str, torch.Tensor]]:
        """The body as a model, and its inputs in an iteration."""
        model = onnx.ModelProto()
        model.CopyFrom(self.part)
        graph = model.graph
        del graph.node[:], graph.output[:], graph.value_info[:]
        for field in ("node", "initializer", "sparse_initializer", "value_info", "output", "input"):
            getattr(graph, field).extend(getattr(self.graph, field))
        given = zip([each.name for each in self.graph.input], self._given(number, carried), strict=True)
        feeds = {name: self.inputs[name] for name in inputs_of(self.part)} | dict(given)
        typed(model, feeds, {})
        for each in graph.output:
            each.ClearField("type")
        return model, feeds

    @abc.abstractmethod
    def _shortened(self, model: onnx.ModelProto, count: int) -> Tensors:
        """Has a copy of the part run for so many iterations; gives its inputs."""

    @abc.abstractmethod
    def _given(self, number: int, carried: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The inputs of the body in an iteration."""


class Loop(Repeated):
    """A Loop, of which `M` may be smaller than it is."""

    def __init__(self, side: FileSide, part: onnx.ModelProto, inputs: Tensors) -> None:
        super().__init__(side, part, inputs)
        count = side.given(part, inputs, self.node.input[0])
        self.most = MOST_ITERATIONS if count is None else int(count.reshape(-1)[0])

    @property
    def carried(self) -> int:
        return len(self.graph.input) - 2

    def _shortened(self, model: onnx.ModelProto, count: int) -> Tensors:
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(count, np.int64), _TRIP_COUNT))
        model.graph.node[0].input[0] = _TRIP_COUNT
        return self.inputs

    def _given(self, number: int, carried: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return [torch.tensor(number), torch.tensor(True), *carried]


class Scan(Repeated):
    """A Scan, which may go over a part of its inputs."""

    def __init__(self, side: FileSide, part: onnx.ModelProto, inputs: Tensors) -> None:
        super().__init__(side, part, inputs)
        given = {each.name: each for each in self.node.attribute}
        self._count = int(given["num_scan_inputs"].i)
        self._axes = list(given["scan_input_axes"].ints) if "scan_input_axes" in given else [0] * self._count
        backward = given.get("scan_input_directions")
        self._backward = list(backward.ints) if backward is not None else [0] * self._count
        self._names = list(self.node.input[self.carried :])
        self.form += (self._count, *self._axes, *self._backward)
        self.most = inputs[self._names[0]].shape[self._axes[0]]

    @property
    def carried(self) -> int:
        return len(self.graph.input) - self._count

    def _shortened(self, model: onnx.ModelProto, count: int) -> Tensors:
        found = dict(self.inputs)
        for name, axis, is_backward in zip(self._names, self._axes, self._backward, strict=True):
            whole = self.inputs[name]
            found[name] = whole.narrow(axis, whole.shape[axis] - count if is_backward else 0, count).contiguous()
        typed(model, found, {})
        return found

    def _given(self, number: int, carried: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        elements = []
        for name, axis, is_backward in zip(self._names, self._axes, self._backward, strict=True):
            place = self.inputs[name].shape[axis] - 1 - number if is_backward else number
            elements.append(self.inputs[name].select(axis, place).contiguous())
        return [*carried, *elements]


def _repeated(side: FileSide, part: onnx.ModelProto, inputs: Tensors) -> Repeated | None:
    """A part that is one Loop or Scan; None for any other."""
    if len(part.graph.node) != 1 or part.graph.node[0].domain not in ("", "ai.onnx"):
        return None
    node = part.graph.node[0]
    if node.op_type == "Loop":
        return Loop(side, part, inputs)
    is_given = node.op_type == "Scan" and set(_scanned(node)) <= set(inputs) and not _is_of_opset_8(part)
    return Scan(side, part, inputs) if is_given else None


def loop_within(side: FileSide, part: onnx.ModelProto, inputs: Tensors) -> Repeated | None:
    """The one Loop or Scan of a part that may have other nodes, before it or behind it; None where there is none.

    Args:
        side: The file.
        part: The part.
        inputs: Its inputs.

    Raises:
        OpbridgeError: What the node reads cannot be computed.
    """
    index = GraphIndex(part, side.label)
    places = [
        at for at, node in enumerate(index.nodes) if node.op_type in ("Loop", "Scan") and node.domain in ("", "ai.onnx")
    ]
    if len(places) != 1:
        return None
    read = [name for name in index.reads[places[0]] if name not in index.constants]
    before = side.part(part)
    before.feeds = dict(inputs)
    try:
        given = before.fetch(read)
    finally:
        side.runs += before.runs
    outputs = [name for name in index.nodes[places[0]].output if name]
    model = subgraphs.part(index, outputs, read, nodes=places)
    typed(model, given, {})
    return _repeated(side, model, given)


def _scanned(node: onnx.NodeProto) -> list[str]:
    count = next(each.i for each in node.attribute if each.name == "num_scan_inputs")
    return list(node.input[len(node.input) - count :])


def _is_of_opset_8(part: onnx.ModelProto) -> bool:
    """Whether Scan is that of opset 8, which has a batch."""
    return any(each.domain in ("", "ai.onnx") and each.version < 9 for each in part.opset_import)
