"""What a run of a model shows that its file does not: numbers that float16 does not hold."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir

from opbridge.base import files
from opbridge.errors import UsageError
from opbridge.onnx import reading, serialize
from opbridge.rules.looking import Looked
from opbridge.rules.of_numbers import LARGEST_FLOAT16
from opbridge.rules.rule import Hit, Rule
from opbridge.runtimes.onnxruntime import open_session

__all__ = ["Float16Activation", "Inputs", "activations", "feeds_of", "named"]

_AT_ONCE = 64
"""So many inner values are looked at in one run."""

_LARGEST_BYTES = 1 << 34

Inputs: TypeAlias = Mapping[str, Any] | Sequence[Any] | os.PathLike[str]
"""Arrays to run a model on."""

_WIDE = (ir.DataType.FLOAT, ir.DataType.FLOAT16)


class Float16Activation(Rule):
    """A value that was beyond float16 when the model ran on inputs of the user's."""

    identifier = "float16-activation"
    title = "A value that overflows in float16 on the given inputs"
    why = "It becomes infinity if the model computes in float16, and NaN afterwards."
    remedy = "Leave this part in float32 (Casts around it), or use bfloat16."
    severity = "warning"


def activations(looked: Looked, model: str | bytes, inputs: Inputs) -> Iterator[Hit]:
    """The nodes that give numbers beyond float16 when a model runs on given inputs.

    Args:
        looked: The model.
        model: Its file, or the content of it.
        inputs: Arrays, by the names of the inputs or in their order; or an .npz file of them.

    Raises:
        ModelFileError: ONNX Runtime refuses the model.
        RunError: It does not run on the inputs.
        UsageError: There are more or fewer arrays than inputs.
    """
    feeds = feeds_of(looked.model, inputs)
    nodes = {node.outputs[0].name or "": node for node in looked.nodes if node.outputs and _is_measured(node, looked)}
    names = list(nodes)
    for at in range(0, len(names), _AT_ONCE):
        wanted = names[at : at + _AT_ONCE]
        session = open_session(_with_outputs(model, wanted), True, optimised=False)
        try:
            found = session.run(wanted, feeds)
        finally:
            session.close()
        for name, array in zip(wanted, found, strict=True):
            largest = np.abs(array[~np.isnan(array)].astype(np.float64)).max(initial=0.0)
            if largest > LARGEST_FLOAT16:
                node = nodes[name]
                yield Hit(
                    f"{node.op_type} returns values up to {largest:.3g}; the maximum of float16 is "
                    f"{LARGEST_FLOAT16:g}.",
                    node,
                )


def _is_measured(node: ir.Node, looked: Looked) -> bool:
    return bool(node.graph is looked.model.graph and node.outputs[0].name and node.outputs[0].dtype in _WIDE)


def feeds_of(model: ir.Model, inputs: Inputs) -> dict[str, np.ndarray]:
    """The arrays for the inputs of a model by name, in their order.

    Args:
        model: The model.
        inputs: Arrays, by the names of the inputs or in their order; or an .npz file of them.

    Raises:
        UsageError: There are more or fewer arrays than inputs, or the file cannot be read.
    """
    stored = model.graph.initializers
    return named(inputs, [value.name or "" for value in model.graph.inputs if value.name not in stored])


def named(inputs: Inputs, wanted: Sequence[str]) -> dict[str, np.ndarray]:
    """The arrays by the names of the inputs, in their order.

    Args:
        inputs: As for `feeds_of`.
        wanted: The names of the inputs.

    Raises:
        UsageError: As for `feeds_of`.
    """
    if isinstance(inputs, str | os.PathLike):
        inputs = _read(Path(inputs))
    given = dict(inputs) if isinstance(inputs, Mapping) else dict(zip(wanted, inputs, strict=False))
    if set(given) != set(wanted) or len(given) != len(inputs):
        raise UsageError(
            f"inputs= has {len(inputs)} arrays, but the model has the inputs {', '.join(wanted)}. Give one array "
            "for each input."
        )
    return {name: np.asarray(given[name]) for name in wanted}


def _read(path: Path) -> dict[str, np.ndarray] | list[np.ndarray]:
    """The arrays in a file.

    Raises:
        UsageError: It does not exist, or is no .npz file.
    """
    if path.suffix != ".npz":
        raise UsageError(f"{path} is not a file of inputs. Save them with numpy.savez as .npz.")
    if why := files.problem(path, _LARGEST_BYTES):
        raise UsageError(f"The inputs in {path} cannot be read: {why}.")
    try:
        with np.load(path, allow_pickle=False) as content:
            arrays = {name: content[name] for name in content.files}
    except Exception as error:  # a damaged file raises anything
        raise UsageError(f"The inputs in {path} cannot be read: {error}. Save them again.") from error
    if all(name.startswith("arr_") and name[4:].isdigit() for name in arrays):
        return [arrays[name] for name in sorted(arrays, key=lambda name: int(name[4:]))]
    return arrays


def _with_outputs(model: str | bytes, names: Sequence[str]) -> bytes:
    """The model with inner values for its outputs."""
    loaded = reading.load(model)
    by_name = {value.name: value for node in loaded.graph for value in node.outputs}
    loaded.graph.outputs[:] = [by_name[name] for name in names]
    for value in loaded.graph.outputs:
        value.shape = None
        if value.type is None:
            value.type = ir.TensorType(ir.DataType.FLOAT)
    return serialize.to_bytes(loaded)
