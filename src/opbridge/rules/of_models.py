"""Rules that look at a model as a whole."""

from __future__ import annotations

import mmap
from collections import Counter
from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from opbridge.onnx import damage, reading
from opbridge.rules.looking import Looked, bodies, readable
from opbridge.rules.rule import Hit, ModelRule

__all__ = ["RULES"]

_LARGEST_WEIGHT = 1 << 26
"""Weights with more elements are not looked through for nan and infinity."""

_PART = 1 << 20
"""So many elements of a weight are looked at at once."""


class UnusedInitializer(ModelRule):
    """An initializer that nothing reads."""

    identifier = "unused-initializer"
    title = "An unused initializer"
    why = "It takes space in the file and, on some targets, in memory."
    remedy = "Remove it."
    severity = "warning"
    always = True

    def hits(self, looked: Looked) -> Iterator[Hit]:
        for name, value in looked.model.graph.initializers.items():
            if not value.uses() and not value.is_graph_output():
                yield Hit(f"The initializer '{name}' is not used.")


class DuplicateNames(ModelRule):
    """Nodes of one name."""

    identifier = "duplicate-names"
    title = "Several nodes with the same name"
    why = "ONNX Runtime rejects such a model, and quantizers and profilers confuse the nodes."
    remedy = "Give each node a unique name."
    always = True

    def hits(self, looked: Looked) -> Iterator[Hit]:
        # Each graph in a function is a scope of its own: runtimes give its nodes other names for each call.
        counts = Counter((looked.function_of(each) and id(each.graph), each.name) for each in looked.nodes if each.name)
        for (_, name), count in counts.items():
            if count > 1:
                yield Hit(f"{count} nodes are named '{name}'.")


class ClashingNames(ModelRule):
    """Several values of one name."""

    identifier = "clashing-names"
    title = "Several values with the same name"
    why = "Value names must be unique in ONNX: runtimes reject the model, or use the first value instead of the second."
    remedy = "Give each value a unique name; a name in output_names may already be used by an intermediate value."
    always = True

    def hits(self, looked: Looked) -> Iterator[Hit]:
        for name in dict.fromkeys(looked.model.meta.get(reading.CLASHES, ())):
            yield Hit(f"Several values are named '{name}'.")


class InputIsOutput(ModelRule):
    """An input of the model that is an output too."""

    identifier = "input-is-output"
    title = "An input of the model that is also its output"
    why = "Runtimes that allocate separate memory for each output reject such a model."
    remedy = "Insert an Identity between the two."
    severity = "warning"
    always = True

    def hits(self, looked: Looked) -> Iterator[Hit]:
        inputs = set(looked.model.graph.inputs)
        for value in looked.model.graph.outputs:
            if value in inputs or value.is_initializer():
                what = "initializer" if value.is_initializer() else "input"
                yield Hit(f"The output '{value.name}' is an {what} of the model.")


class UndefinedNumbers(ModelRule):
    """A weight with nan or infinity."""

    identifier = "undefined-numbers"
    title = "A weight with NaN or infinity"
    why = "Minus infinity may be intended in a mask; NaN is not, and float16 turns large weights into infinity."
    remedy = "Check the checkpoint; for masks, use a large finite number."
    severity = "warning"
    always = True

    def hits(self, looked: Looked) -> Iterator[Hit]:
        for name, value in looked.model.graph.initializers.items():
            tensor = value.const_value
            if tensor is None or not tensor.dtype.is_floating_point() or not 1 < tensor.size <= _LARGEST_WEIGHT:
                continue
            found = readable(tensor)
            if found is None or found.dtype not in (np.float32, np.float64, np.float16):
                continue
            if what := _undefined(found, tensor):
                yield Hit(f"The weight '{name}' contains {what}.")


def _undefined(found: np.ndarray, tensor: ir.TensorProtocol) -> str:
    """What a weight has that is no finite number, "nan" before "infinity"; "": minus infinity alone, as masks have.

    It is read in parts, and what a mapped file has of them in memory is given back after each.
    """
    numbers, has_infinity = found.reshape(-1), False
    mapped = tensor.raw if isinstance(tensor, ir.ExternalTensor) else None
    for start in range(0, numbers.size, _PART):
        part = numbers[start : start + _PART]
        if np.isnan(part).any():
            return "nan"
        has_infinity = has_infinity or bool(np.isposinf(part).any())
        if isinstance(mapped, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            mapped.madvise(mmap.MADV_DONTNEED)
    return "infinity" if has_infinity else ""


class UnreadableWeight(ModelRule):
    """A weight whose numbers cannot be read."""

    identifier = "unreadable-weight"
    title = "A weight that cannot be read"
    why = "Its file is missing, is outside of the model's folder, or is shorter than the weight."
    remedy = "Copy the weight file to the folder of the model, or export again."
    always = True

    def hits(self, looked: Looked) -> Iterator[Hit]:
        graphs = [looked.model.graph, *(body for node in looked.nodes for body in bodies(node))]
        for name, value in [each for graph in graphs for each in graph.initializers.items()]:
            if value.const_value is None and not value.is_graph_input():
                yield Hit(f"The weight '{name}' has no data.")
            elif value.const_value is not None and (wrong := damage.unreadable(value.const_value)):
                yield Hit(f"The weight '{name}' cannot be read: {wrong}.")


class Float64(ModelRule):
    """Values of float64."""

    identifier = "float64"
    title = "float64 values in a model without float64 inputs or outputs"
    why = "One float64 constant makes the following operators slow or unsupported: few targets compute in float64."
    remedy = "Cast to float32 in the model's code, or register the buffer as float32."
    severity = "warning"
    always = True

    def hits(self, looked: Looked) -> Iterator[Hit]:
        graph = looked.model.graph
        double = ir.DataType.DOUBLE
        if any(each.dtype == double for each in (*graph.inputs, *graph.outputs)):
            return
        for node in looked.nodes:
            if any(each.dtype == double for each in node.outputs) and not any(
                each is not None and each.dtype == double for each in node.inputs
            ):
                yield Hit(f"{node.op_type} returns float64.", node)


RULES: tuple[type[ModelRule], ...] = (
    UnusedInitializer,
    DuplicateNames,
    ClashingNames,
    InputIsOutput,
    UndefinedNumbers,
    UnreadableWeight,
    Float64,
)
