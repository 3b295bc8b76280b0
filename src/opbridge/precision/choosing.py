"""The nodes that stay in float32, decided before anything is compared.

Rules, in this order; the first one that holds is the reason:
    1. The user names the node, its operator, or a pattern that either matches.
    2. The operator has no form in the format, or is not ONNX's own.
    3. A constant that the node reads is beyond the format. The bounds of a Clip may be, since the largest number of the
       format bounds as well. Or the constant is lost in it and keeps a number from 0: the division by it stays too.
    4. A value that the node reads or gives was beyond the format when the model ran. On random inputs a factor of four
       is left for others.
    5. A normalisation or a norm reads values whose squares are beyond the format.
    6. The node's own result, from rounded inputs, is not finite.
       Where nothing could be measured, operators that accumulate or grow stay instead, and those with lost constants.
    7. The results become integers: numbers of elements, positions.
    8. It only moves elements from nodes that stay to nodes that stay.

Nodes whose own error is large may not matter for the outputs. They stay only where the outputs are not within the
tolerance: `keep_inexact`.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np
import onnx_ir as ir

from opbridge.errors import UsageError
from opbridge.precision.formats import Format, loss
from opbridge.precision.forms import CONTROL_FLOW, Form, has_kernel, is_function
from opbridge.precision.instruments import MOVING
from opbridge.precision.measuring import Measured
from opbridge.precision.report import Kept
from opbridge.precision.rewriting import LARGE, constant_of
from opbridge.precision.tensors import from_numbers
from opbridge.precision.types import Floats, graphs

__all__ = ["MARGIN", "Chooser"]

MARGIN = 4.0
"""What is left for other inputs than random ones."""

_LOST = 0.01

_HELD = 0.004
"""What rounding alone loses of numbers that a format holds, relative to their RMS: half of that in bfloat16."""

_SQUARING = frozenset(
    {"GroupNormalization", "InstanceNormalization", "LayerNormalization", "LpNormalization", "RMSNormalization"}
    | {"MeanVarianceNormalization", "ReduceL2", "ReduceSumSquare", "LpPool", "GlobalLpPool"}
)

# What is often beyond float16, or far off in it.
_SENSITIVE = _SQUARING | frozenset(
    {"CumSum", "Exp", "LogSoftmax", "Pow", "ReduceL1", "ReduceLogSum", "ReduceLogSumExp", "ReduceMean", "ReduceProd"}
    | {"ReduceSum", "Softmax"}
)

# Of numbers to numbers of the same kind, as positions and numbers of elements are computed with.
_ARITHMETIC = frozenset(
    {
        "Abs",
        "Add",
        "Cast",
        "Ceil",
        "Clip",
        "Div",
        "Floor",
        "Max",
        "Min",
        "Mod",
        "Mul",
        "Neg",
        "Pow",
        "Range",
        "Reciprocal",
    }
    | {"Round", "Sqrt", "Sub", "Where", "CumSum", "ReduceSum", "ReduceMax", "ReduceMin", "Log", "Exp", "Relu"}
    | MOVING
)

# A small constant keeps the results of these from 0, for those that divide by them or take their logarithm.
_GUARDING = frozenset({"Add", "Clip", "Max"})
_THROUGH = frozenset({"Sqrt", "Pow", "Reciprocal", "Expand", "Identity", "Reshape", "Unsqueeze"})
_GUARDED = frozenset({"Div", "Log", "Mul"})

_INTEGERS = frozenset(
    {ir.DataType.INT8, ir.DataType.INT16, ir.DataType.INT32, ir.DataType.INT64}
    | {ir.DataType.UINT8, ir.DataType.UINT16, ir.DataType.UINT32, ir.DataType.UINT64}
)


class Chooser:
    """Chooses the nodes of a model that stay.

    Args:
        model: The model, without functions.
        to: The format.
        floats: Its values of float32.
        form: The form of a node.

    Attributes:
        kept: The nodes that stay, with the reasons.
    """

    def __init__(self, model: ir.Model, to: Format, floats: Floats, form: Callable[[ir.Node], Form]) -> None:
        self._model, self._to, self._floats, self._form = model, to, floats, form
        self._nodes = [node for graph in graphs(model.graph) for node in graph]
        self._losses: dict[int, tuple[ir.TensorProtocol, tuple[float, float]]] = {}
        self.kept: dict[ir.Node, Kept] = {}
        self._wide: set[ir.Value] = set()

    def is_wide(self, value: ir.Value) -> bool:
        """Whether an input or output cannot be of the format."""
        return value in self._wide

    def choose(self, patterns: Sequence[str], measured: Measured | None, given: bool, tolerance: float) -> None:
        """Applies the rules.

        Args:
            patterns: What the user names.
            measured: What was measured; None: nothing was.
            given: Whether that was on the user's inputs.
            tolerance: The largest error.

        Raises:
            UsageError: A pattern matches nothing.
        """
        self._named(patterns)
        self._without_form()
        self._constants(measured is not None)
        if measured is not None:
            self._ranges(measured, 1.0 if given else MARGIN)
            self._ends(measured, tolerance)
            self._squares(measured)
            self._errors(measured, math.inf)
        else:
            self._unmeasured()
        self._integers()
        self.close()

    def candidates(self) -> list[ir.Node]:
        """The nodes that do not stay and have values of the format."""
        return [
            node for node in self._nodes if node not in self.kept and node.op_type != "Constant" and self._changes(node)
        ]

    def stored(self) -> set[ir.Node]:
        """The nodes that stay for their values alone: their weights are stored in the format, and cast when they are
        read."""
        kinds = ("range", "error", "between")
        return {node for node, kept in self.kept.items() if kept.kind in kinds and self._weights_hold(node)}

    def _weights_hold(self, node: ir.Node) -> bool:
        """Whether the format holds the weights of a node."""
        form = self._form(node)
        found = [constant_of(value) for at, value in enumerate(node.inputs) if form.inputs[at]]
        large = [each for each in found if each is not None and each.size >= LARGE]
        return bool(large) and all(self._loss(each)[0] <= _HELD for each in large)

    def keep(self, node: ir.Node, kind: str, why: str) -> None:
        """Has a node stay, unless it does already."""
        if node not in self.kept:
            self.kept[node] = Kept.of(node, kind, why)

    def _changes(self, node: ir.Node) -> bool:
        return self._form(node).changes

    # The rules

    def _named(self, patterns: Sequence[str]) -> None:
        for pattern in patterns:
            found = [
                node
                for node in self._nodes
                if any(fnmatch.fnmatchcase(name, pattern) for name in (node.name or "", node.op_type, *_names(node)))
            ]
            if not found:
                raise UsageError(
                    f"No node or operator of the model matches {pattern!r} (--keep). Give the name of a node, an "
                    "operator, or a shell pattern of either."
                )
            for node in found:
                if self._changes(node):
                    self.keep(node, "asked", f"{pattern!r} is to be kept.")

    def _without_form(self) -> None:
        for node in self._nodes:
            if self._changes(node) or node.op_type == "Constant":
                continue
            if not any(each in self._floats for each in (*node.inputs, *node.outputs)):
                continue
            self.keep(node, "operator", self._form(node).why)

    def _unmeasured(self) -> None:
        for node in self._nodes:
            if node.op_type in _SENSITIVE and self._changes(node):
                self.keep(node, "operator", f"{node.op_type} may exceed {self._to.name}, and nothing was measured.")

    def _constants(self, is_measured: bool) -> None:
        for node, at, value in self._read():
            tensor = constant_of(value)
            if tensor is None or node.op_type in MOVING | CONTROL_FLOW:
                continue
            lost, largest = self._loss(tensor)
            is_beyond = largest > self._to.largest
            if lost <= _LOST or (node.op_type == "Clip" and at > 0 and is_beyond):
                continue
            name = f"Its constant '{value.name}'"
            if is_beyond:
                self.keep(node, "constant", f"{name} has {largest:g}, which is beyond {self._to.name}.")
                continue
            is_guard = tensor.size == 1 and node.op_type in _GUARDING
            if is_guard or not is_measured:
                self.keep(node, "constant", f"{name} loses {min(lost, 1.0):.0%} of its RMS in {self._to.name}.")
            if is_guard:
                self._guarded(node, f"'{value.name}' keeps its input from 0, and is lost in {self._to.name}.")

    def _guarded(self, node: ir.Node, why: str) -> None:
        """Has the nodes stay that a small number keeps from 0, up to the division or the logarithm."""
        for user, _ in [use for each in node.outputs for use in each.uses()]:
            if user in self.kept or not self._changes(user):
                continue
            if user.op_type in _THROUGH or user.op_type in _GUARDED:
                self.keep(user, "constant", why)
            if user.op_type in _THROUGH:
                self._guarded(user, why)

    def _loss(self, tensor: ir.TensorProtocol) -> tuple[float, float]:
        """How far a constant is from what it becomes, and its largest finite magnitude."""
        if id(tensor) not in self._losses:
            found = from_numbers(tensor, lambda array: loss(array, self._to))
            self._losses[id(tensor)] = tensor, found  # it lives, and keeps its identity
        return self._losses[id(tensor)][1]

    def _ranges(self, measured: Measured, margin: float) -> None:
        where = "" if margin == 1.0 else " on random inputs"
        for value, largest in measured.largest.items():
            if largest * margin > self._to.limit:
                why = f"'{value.name}' reaches {largest:.3g}{where}; {self._to.name} ends at {self._to.limit:g}."
                self._wide.add(value)
                for node in self._around(value):
                    self.keep(node, "range", why)

    def _ends(self, measured: Measured, tolerance: float) -> None:
        """Inputs and outputs that lose too much by themselves, such as very small numbers in float16, or have numbers
        that become infinite."""
        for value in (*self._model.graph.inputs, *self._model.graph.outputs):
            is_beyond = measured.largest.get(value, 0.0) > self._to.largest
            if is_beyond or measured.losses.get(value, 0.0) > tolerance / 2:
                self._wide.add(value)

    def keep_operators(self, operators: Collection[str], why: str) -> bool:
        """Has all nodes of some operators stay; whether there are any.

        Args:
            operators: The operators.
            why: The reason.
        """
        before = len(self.kept)
        for node in self._nodes:
            if node.op_type in operators and self._changes(node):
                self.keep(node, "operator", why)
        self.close()
        return len(self.kept) > before

    def functions(self) -> set[str]:
        """The operators that ONNX Runtime runs in float16 as the function that ONNX defines them by."""
        names = {node.op_type for node in self._nodes if node.domain in ("", "ai.onnx") and self._changes(node)}
        return {each for each in names - CONTROL_FLOW if is_function(each) and not has_kernel(each)}

    def keep_inexact(self, measured: Measured, tolerance: float) -> None:
        """Has the nodes stay whose own error is more than half the tolerance, and what gives their inputs."""
        for value, lost in measured.losses.items():
            if lost > _LOST and not value.is_graph_input():
                largest = measured.largest.get(value, 0.0)
                why = f"'{value.name}', up to {largest:.3g}, loses {min(lost, 1.0):.0%} of its RMS in {self._to.name}."
                for node in self._around(value):
                    self.keep(node, "error", why)
        self._errors(measured, tolerance / 2)
        self.close()

    def _squares(self, measured: Measured) -> None:
        for node in self._nodes:
            value = node.inputs[0] if node.op_type in _SQUARING and node.inputs else None
            largest = 0.0 if value is None else measured.largest.get(value, 0.0)
            if largest**2 > self._to.limit and self._changes(node):
                why = f"It squares numbers of up to {largest:.3g}; {self._to.name} ends at {self._to.limit:g}."
                self.keep(node, "range", why)

    def _errors(self, measured: Measured, most: float) -> None:
        for node, error in measured.errors.items():
            if error <= most and np.isfinite(error):
                continue
            why = f"From inputs in {self._to.name}, its result is off by {min(error, 1.0):.1%} of its RMS."
            if not np.isfinite(error):
                self.keep(node, "error", f"From inputs in {self._to.name}, its result is not finite.")
                continue
            self.keep(node, "error", why)
            for value in node.inputs:
                maker = self._source(value)
                is_computed = maker is not None and maker.op_type != "Constant" and value in self._floats
                if maker is not None and is_computed and self._changes(maker):
                    self.keep(maker, "error", f"{node.op_type} '{node.name}' needs its result in float32.")

    def _integers(self) -> None:
        waiting = [
            node
            for node in self._nodes
            if node.op_type == "Cast"
            and node.inputs[0] in self._floats
            and self._floats.dtype(node.outputs[0]) in _INTEGERS
        ]
        chosen = set(waiting)
        while waiting:
            node = waiting.pop()
            self.keep(node, "index", "Its results become integers.")
            for value in node.inputs:
                maker = value.producer() if value is not None else None
                if maker is None or value not in self._floats or maker in chosen or maker.op_type not in _ARITHMETIC:
                    continue
                users = [user for each in maker.outputs for user, _ in each.uses()]
                if not any(each.is_graph_output() for each in maker.outputs) and all(user in chosen for user in users):
                    chosen.add(maker)
                    waiting.append(maker)

    def close(self) -> None:
        """Has nodes stay that only move elements from nodes that stay to nodes that stay."""
        changed = True
        while changed:
            changed = False
            for node in self._nodes:
                if node in self.kept or node.op_type not in MOVING or not self._changes(node):
                    continue
                given = [each for each in node.inputs if each in self._floats and constant_of(each) is None]
                makers = [each.producer() for each in given if each is not None]
                users = [user for each in node.outputs if each in self._floats for user, _ in each.uses()]
                is_output = any(each.is_graph_output() for each in node.outputs)
                if given and users and not is_output and all(each in self.kept for each in (*makers, *users)):
                    self.keep(node, "between", "It moves elements between nodes that stay.")
                    changed = True

    # The graph

    def _read(self) -> Iterator[tuple[ir.Node, int, ir.Value]]:
        """Each node with what it reads in the format."""
        for node in self._nodes:
            form = self._form(node)
            for at, value in enumerate(node.inputs):
                if value is not None and form.inputs[at]:
                    yield node, at, value

    def _around(self, value: ir.Value) -> Iterator[ir.Node]:
        """The node that gives a value and those that read it, where they would in the format."""
        maker = value.producer()
        if maker is not None and self._changes(maker):
            yield maker
        for user, at in value.uses():
            if self._form(user).inputs[at]:
                yield user

    def _source(self, value: ir.Value | None) -> ir.Node | None:
        """The node that computes a value, before those that only move it."""
        node = value.producer() if value is not None else None
        while node is not None and node.op_type in MOVING and node.inputs:
            moved = node.inputs[0]
            if moved is None or moved not in self._floats:
                break
            node = moved.producer()
        return node


def _names(node: ir.Node) -> Iterator[str]:
    if node.domain not in ("", "ai.onnx"):
        yield f"{node.domain}::{node.op_type}"
    yield from (each.name or "" for each in node.outputs)
