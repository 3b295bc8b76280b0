"""A model as the steps of a cast take it: without functions, at an opset that has the format, with the types of its
values.
"""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass

import onnx_ir as ir

from opbridge.conversion import schemas
from opbridge.conversion.converting import converted_in_place, without_weights
from opbridge.conversion.types import Types, inferred
from opbridge.errors import ConversionError, ModelFileError, OpbridgeError, PrecisionError
from opbridge.precision.calls import Call, inlined
from opbridge.precision.copies import Copy
from opbridge.precision.feeding import opened
from opbridge.precision.formats import FLOAT16, Format
from opbridge.precision.sharing import SharedWeights
from opbridge.precision.types import Floats, bodies, graphs
from opbridge.runtimes.onnxruntime import newest_opset

__all__ = ["Prepared", "prepared"]

_IR_OF_INITIALIZERS = 4


@dataclass(frozen=True)
class Prepared:
    """A model that can be cast.

    Attributes:
        model: The model.
        opsets: The opset that it had and the one that it has.
        floats: Its values of float32.
        calls: The calls of functions that were inlined.
        weights: Where sessions find its weights.
    """

    model: ir.Model
    opsets: tuple[int, int]
    floats: Floats
    calls: dict[str, Call]
    weights: SharedWeights


def prepared(model: ir.Model, label: str, to: Format, newest: int | None = None) -> Prepared:
    """Prepares a model, in place.

    1. The nodes are put in order: ONNX Runtime takes files in which they are not.
    2. Functions are inlined: the same body may be called with values that are cast and others that are not. Those
       that stand together afterwards are put back when the model is in its new types.
    3. Initializers of the oldest files are no inputs.
    4. A value of a body that has the name of one outside gets another: ONNX Runtime takes the type of the wrong one.
    5. An opset that is older than the format is raised; for bfloat16 to the one at which the operators of the model
       take it: 22 for a Conv.

    Args:
        model: The model.
        label: What it is called in messages.
        to: The format.
        newest: The newest opset that it may be raised to for the sake of its operators; None: that of ONNX Runtime.

    Raises:
        ConversionError: The opset cannot be raised.
        ModelFileError: The graph or the calls of functions go in circles, or nothing gives a value that is read.
        PrecisionError: No value is of float32.
    """
    _sort(model, label)
    calls: dict[str, Call] = {}
    if model.functions:
        try:
            calls = inlined(model)
        except Exception as error:  # the pass raises what it finds
            said = " ".join(str(error.__cause__ or error).split())[:300]
            raise ModelFileError(
                f"The functions of {label} cannot be inlined ({said}). Export the model again."
            ) from error
    if (model.ir_version or 0) < _IR_OF_INITIALIZERS:
        model.graph.inputs[:] = [each for each in model.graph.inputs if each.const_value is None]
        model.ir_version = _IR_OF_INITIALIZERS
    _check_given(model, label)
    _tell_apart(model)
    source = model.graph.opset_imports.get("", model.graph.opset_imports.get("ai.onnx", to.oldest))
    opset = source
    if source < to.oldest:
        opset = max(to.oldest, 13)
        model = converted_in_place(model, label, opset).model
    floats = Floats(model, Types(model, inferred(without_weights(model))), opset)
    newest = min(newest_opset(), newest or newest_opset())
    if (newer := _opset_of(model, floats, opset, newest, to)) > opset:
        with contextlib.suppress(ConversionError):  # it stays as it is, and what has no form there in float32
            model, opset = converted_in_place(model.clone(), label, newer).model, newer
            floats = Floats(model, Types(model, inferred(without_weights(model))), opset)
    weights = SharedWeights(model)
    _ask(model, floats, weights)
    if not any(value in floats for graph in graphs(model.graph) for value in _values(graph)):
        raise PrecisionError(f"{label} has no float32 values, so there is nothing to cast. Nothing was written.")
    return Prepared(model, (source, opset), floats, calls, weights)


def _opset_of(model: ir.Model, floats: Floats, opset: int, newest: int, to: Format) -> int:
    """The oldest opset in which all operators take the format that take it in any up to the newest."""
    if to is FLOAT16:
        return opset
    needed = opset
    operators = {
        node.op_type
        for graph in graphs(model.graph)
        for node in graph
        if node.domain in ("", "ai.onnx") and any(each in floats for each in node.outputs)
    }
    for operator in operators:
        if _takes(operator, opset, to):
            continue
        later = (since for since in schemas.changes(operator) if opset < since <= newest)
        needed = max(needed, next((since for since in later if _takes(operator, since, to)), opset))
    return needed


def _takes(operator: str, opset: int, to: Format) -> bool:
    schema = schemas.form(operator, opset)
    return schema is not None and any(to.spelled in schemas.permitted(schema, each) for each in schema.outputs)


def _ask(model: ir.Model, floats: Floats, weights: SharedWeights) -> None:
    """Asks ONNX Runtime for the types of what its own operators give, which ONNX's inference does not know."""
    unknown = floats.unknown(model.graph)
    if not unknown:
        return
    copy = Copy(model)
    copy.model.graph.outputs[:] = [copy.values[each] for each in unknown]
    with contextlib.suppress(OpbridgeError), opened(weights.model(copy.model)) as session:
        for value, output in zip(unknown, session.get_outputs(), strict=True):
            name = output.type.removeprefix("tensor(").removesuffix(")").upper()
            if name in ir.DataType.__members__ and output.type.startswith("tensor("):
                floats.note(value, ir.DataType[name])
    floats.fill(model.graph)


def _sort(model: ir.Model, label: str) -> None:
    try:
        model.graph.sort()
    except ValueError as error:
        raise ModelFileError(
            f"{label} is not a valid model: its graph has a cycle ({' '.join(str(error).split())[:200]}). "
            "Export it again."
        ) from error


def _check_given(model: ir.Model, label: str) -> None:
    """Refuses a model in which something is read that no node, input or initializer of its scope gives.

    Raises:
        ModelFileError: It is so.
    """

    def look(graph: ir.Graph, outer: frozenset[ir.Value]) -> None:
        given = set(outer) | set(graph.inputs) | set(graph.initializers.values())
        for node in graph:
            for value in node.inputs:
                if value is not None and value not in given:
                    raise ModelFileError(
                        f"{label} is not a valid model: nothing gives '{value.name}', which {node.op_type} "
                        f"'{node.name}' reads. Export it again."
                    )
            for body in bodies(node):
                look(body, frozenset(given))
            given.update(node.outputs)
        for value in graph.outputs:
            if value not in given:
                raise ModelFileError(
                    f"{label} is not a valid model: nothing gives its output '{value.name}'. Export it again."
                )

    look(model.graph, frozenset())


def _tell_apart(model: ir.Model) -> None:
    """Renames the values of bodies that have the names of values outside."""
    used = {value.name for graph in graphs(model.graph) for value in _values(graph)}

    def rename(graph: ir.Graph, outer: frozenset[str | None]) -> None:
        values = _values(graph)
        for value in values if outer else ():
            if value.name and value.name in outer:
                numbers = itertools.count(1)
                value.name = next(new for at in numbers if (new := f"{value.name}_{at}") not in used)
                used.add(value.name)
        inner = outer | {value.name for value in values}
        for node in graph:
            for body in bodies(node):
                rename(body, inner)

    rename(model.graph, frozenset())


def _values(graph: ir.Graph) -> list[ir.Value]:
    made = [each for node in graph for each in node.outputs]
    return [*graph.inputs, *graph.initializers.values(), *made]
