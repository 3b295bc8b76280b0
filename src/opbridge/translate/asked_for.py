"""The last look at a model before it is written: whether its inputs are as dynamic as was asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import onnx_ir as ir

from opbridge.base.sources import innermost
from opbridge.capture.guards.expressions import holds_at
from opbridge.errors import CaptureError
from opbridge.graph.captured_graph import AskedDimension

if TYPE_CHECKING:
    from opbridge.capture import Capture

__all__ = ["check_dimensions"]


def check_dimensions(capture: Capture, model: ir.Model) -> tuple[str, ...]:
    """Checks each dimension that was asked to be dynamic in the inputs of the ONNX model, however it was captured.

    1. One that is fixed in the model is an error.
    2. One that may be fixed, as for Dim.AUTO, is told where no note of the capture tells it.

    Args:
        capture: What the model was made from.
        model: The ONNX model, with an input for each input of the capture that is no constant.

    Returns:
        Notes for the plan.

    Raises:
        CaptureError: A dimension is fixed; the message names the input, the dimension, its name and its size, and the
            condition and the line that fix it where they are known.
    """
    fixed = list(_fixed(capture, model))
    wrong = [_described(capture, each, value, size) for each, value, size in fixed if not each.is_automatic]
    if wrong:
        raise CaptureError(
            f"The model cannot be exported with the requested dynamic shapes: {'; '.join(wrong)}. Leave the "
            "dimension out of dynamic_shapes, use Dim.AUTO, or change the model so that it works for any size."
        )
    told = " ".join(capture.notes)
    untold = [f"{each.place} == {size}" for each, _, size in fixed if f"{each.place} == {size}" not in told]
    return (f"dimensions that are fixed in the ONNX model: {', '.join(untold)}",) if untold else ()


def _fixed(capture: Capture, model: ir.Model) -> Iterator[tuple[AskedDimension, ir.Value, int]]:
    """The dimensions that are fixed in the model, with their input there and their size."""
    leaves = [number for number, leaf in enumerate(capture.functional.graph.inputs) if not leaf.is_frozen]
    inputs = dict(zip(leaves, model.graph.inputs, strict=True))
    for asked in capture.asked:
        value = inputs[asked.leaf]
        size = None if value.shape is None else value.shape[asked.axis]
        if isinstance(size, int):
            yield asked, value, size


def _described(capture: Capture, asked: AskedDimension, value: ir.Value, size: int) -> str:
    named = f", which was named '{asked.name}'," if asked.name is not None else ""
    return f"dimension {asked.axis} of input '{value.name}'{named} is fixed at {size}{_because(capture, asked, size)}"


def _because(capture: Capture, asked: AskedDimension, size: int) -> str:
    """The condition that fixes a dimension, and its line, as the end of a clause; empty where it is not known."""
    for graph in (capture.functional.graph, capture.graph):
        for condition in graph.conditions:
            if [graph.places.get(symbol) for symbol in condition.symbols] != [asked.place]:
                continue
            (symbol,) = condition.symbols
            others = [{symbol: other} for other in (size - 1, size + 1) if other > 0]
            if any(holds_at(condition.expression, sizes) for sizes in others):
                continue
            source = next(iter(innermost(condition.stack)), None)
            text = re.sub(rf"\b{symbol}\b", asked.place, condition.expression)
            return f" as {text}" + (f" ({source})" if source else "")
    return ""
