"""Inputs to run the float32 model and its cast on, and what the float32 model gives for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir

from opbridge.errors import OpbridgeError
from opbridge.precision.formats import Format, narrowed
from opbridge.precision.sharing import StepModel
from opbridge.rules.measured import Inputs, feeds_of
from opbridge.runtimes.onnxruntime import open_session
from opbridge.side_by_side import first_that_runs, random_feeds

__all__ = ["Expected", "expected", "given_to", "opened"]

_TYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float": np.float32}


@dataclass
class Expected:
    """What the float32 model gives.

    Attributes:
        feeds: The inputs of each run.
        outputs: The outputs of each run.
        names: The names of the outputs.
        given: Whether the inputs are the user's.
        note: Why there is no run; "": there is.
        rejected: Whether the model loads and runs on none of the random inputs.
        refused: Whether ONNX Runtime does not load the model.
    """

    feeds: list[dict[str, np.ndarray]] = field(default_factory=list)
    outputs: list[list[Any]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    given: bool = False
    note: str = ""
    rejected: bool = False
    refused: bool = False


@contextmanager
def opened(model: Any) -> Iterator[Any]:
    """A session in a process of its own, with nothing optimised: what is rounded stays rounded.

    Args:
        model: The path of the file, its content, or a model of a step.
    """
    folder = None
    if isinstance(model, StepModel):
        model, folder = model.content, model.folder
    content = model if isinstance(model, bytes) else str(model)
    session = open_session(content, True, optimised=False, quiet=True, data_folder=folder)
    try:
        yield session
    finally:
        session.close()


def expected(content: str | bytes, model: ir.Model, inputs: Inputs | None, to: Format | None) -> Expected:
    """Runs the float32 model on the given inputs, or on random ones of several sizes.

    Args:
        content: The file, or its content.
        model: The model in it.
        inputs: Arrays for each input, or an .npz file of them; None: random ones.
        to: The format that the inputs will be given in, in which numbers of float32 are rounded here; None: float32.

    Raises:
        RunError: It does not run on the given inputs.
        UsageError: There are more or fewer arrays than inputs.
    """
    feeds = None if inputs is None else feeds_of(model, inputs)
    found = Expected(given=inputs is not None)
    try:
        with opened(content) as session:
            found.names = [each.name for each in session.get_outputs()]
            if feeds is not None:
                feeds = _rounded(given_to(session, feeds), to)
                found.feeds, found.outputs = [feeds], [session.run(None, feeds)]
                return found
            why = ""
            for attempts in random_feeds(session.get_inputs()):
                if isinstance(attempts, str):
                    found.note = attempts
                    return found
                done, why = first_that_runs(session, [_rounded(each, to) for each in attempts], why)
                if done is not None:
                    found.feeds.append(done[0])
                    found.outputs.append(done[1])
    except OpbridgeError as error:
        if feeds is not None:
            raise
        found.refused = not found.names
        found.note = f"ONNX Runtime cannot run the float32 model: {' '.join(str(error).split())[:300]}"
        return found
    if not found.feeds:
        found.rejected = True
        found.note = f"The float32 model fails on random inputs: {why.rstrip('.')}."
    return found


def _rounded(feeds: Mapping[str, np.ndarray], to: Format | None) -> dict[str, np.ndarray]:
    """The inputs with numbers of the format, but for those that exceed it."""
    found = dict(feeds)
    for name, array in feeds.items():
        if to is None or array.dtype != np.float32:
            continue
        rounded = narrowed(array, to).astype(np.float32)
        if np.array_equal(np.isfinite(rounded), np.isfinite(array)):
            found[name] = rounded
    return found


def given_to(session: Any, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The inputs in the types that a session takes."""
    types = {each.name: each.type.removeprefix("tensor(").removesuffix(")") for each in session.get_inputs()}
    return {name: _as(types.get(name, ""), array) for name, array in feeds.items()}


def _as(name: str, array: np.ndarray) -> np.ndarray:
    if name not in _TYPES:
        return array
    if name == "bfloat16" and array.dtype.str == "|V2":  # how NumPy stores it in a file
        return array.view(ml_dtypes.bfloat16)
    is_floating = array.dtype.kind == "f" or array.dtype == ml_dtypes.bfloat16
    return array.astype(_TYPES[name]) if is_floating else array
