"""The original and the new model, side by side in ONNX Runtime on the same random inputs."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir

from opbridge.errors import OpbridgeError
from opbridge.runtimes.onnxruntime import Limits, open_session
from opbridge.runtimes.onnxruntime.onnxruntime_private import ERRORS
from opbridge.side_by_side.ends import has_bfloat16, in_float32, narrowed
from opbridge.side_by_side.results import Run, SideBySide

__all__ = ["compare", "compare_sessions", "difference", "draws", "feeds_of_shapes", "first_that_runs", "is_random"]
__all__ += ["random_feeds"]

_RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)

# What rounding may do to a result, relative to the largest element: other operators add in another order.
_ROUNDING = {"float64": 1e-9, "float32": 2e-4, "float16": 1e-2, "bfloat16": 6e-2}

_SIZES = ((2, 3), (1, 1), (4, 7), (8, 16))
"""The sizes that dynamic dimensions are given in turn: of the first dimension of an input, and of others."""

_TYPES = {
    "float": np.float32,
    "double": np.float64,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "bool": np.bool_,
    "string": np.object_,
    **{name: np.dtype(name) for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")},
}

_MOST_ELEMENTS = 1 << 28

_ATTEMPTS = (8, 2, 1)
"""Random integers are smaller than these, in turn: what an index or a size may be is known to the model only."""


_FAILURES: tuple[type[Exception], ...] = (OpbridgeError, *ERRORS)


def is_random(model: ir.Model) -> bool:
    """Whether a model gives other results in each run."""
    nodes = itertools.chain(model.graph.all_nodes(), *(each.all_nodes() for each in model.functions.values()))
    return any(map(draws, nodes))


def draws(node: ir.Node) -> bool:
    """Whether a node gives other results in each run: it draws numbers, or is a Dropout in training."""
    if node.domain not in ("", "ai.onnx"):
        return False
    if node.op_type in _RANDOM:
        return True
    training = node.inputs[2] if node.op_type == "Dropout" and len(node.inputs) > 2 else None
    known = None if training is None else ir.convenience.get_const_tensor(training)
    return training is not None and (known is None or bool(known.numpy().any()))


def compare(
    original: str | bytes,
    new: str | Path | bytes,
    *,
    random: bool,
    isolated: bool | Limits = True,
    inputs: Sequence[np.ndarray] | None = None,
) -> SideBySide:
    """Runs both models on the same inputs: random ones, of several sizes where these are dynamic, or given ones.

    Args:
        original: The file, or its content.
        new: The file, or its content.
        random: Whether the model gives other results in each run.
        isolated: Whether the models run in processes of their own, or with which limits.
        inputs: The inputs, in the order of the model's; None: random ones.
    """
    options = {"optimised": False}
    try:
        first = open_session(original, isolated, **options)
    except OpbridgeError as error:
        return SideBySide(note=f"ONNX Runtime cannot load the original model: {_short(error).rstrip('.')}.")
    try:
        second = open_session(new if isinstance(new, bytes) else str(new), isolated, **options)
    except OpbridgeError as error:
        return SideBySide(failed=_short(error))
    if has_bfloat16(first):
        for each in (first, second):
            if hasattr(each, "close"):
                each.close()
        first, second = (narrowed(open_session(in_float32(each), isolated, **options)) for each in (original, new))
    if random:
        return SideBySide(note="The model generates random numbers; both models load.")
    try:
        return compare_sessions(first, second, inputs)
    finally:
        for each in (first, second):
            if hasattr(each, "close"):
                each.close()


def compare_sessions(first: Any, second: Any, inputs: Sequence[np.ndarray] | None = None) -> SideBySide:
    """Runs two sessions on the same inputs.

    Args:
        first: The original's.
        second: The new model's.
        inputs: The inputs, in the order of the model's; None: random ones.
    """
    result = SideBySide(given=inputs is not None)
    arguments = first.get_inputs()
    given = [[dict(zip((each.name for each in arguments), inputs or (), strict=False))]]
    names = [each.name for each in first.get_outputs()]
    others = [each.name for each in second.get_outputs()]  # in the same order; one that was an input has another name
    why = ""
    for feeds in random_feeds(arguments) if inputs is None else given:
        if isinstance(feeds, str):
            return SideBySide(note=feeds)
        expected, why = first_that_runs(first, feeds, why)
        if expected is None:
            continue
        used, values = expected
        shapes = {name: list(each.shape) for name, each in used.items()}
        try:
            found = second.run(others, used)
        except _FAILURES as error:
            result.failed = f"{_short(error)} (inputs of shapes {shapes})"
            return result
        largest, matches = 0.0, True
        for name, want, have in zip(names, values, found, strict=True):
            distance, close = difference(want, have)
            if not close and matches:
                result.output, matches = name, False
            largest = max(largest, distance)
        result.runs.append(Run(shapes, largest, matches))
    if not result.runs:
        result.rejected = True
        result.note = (
            f"The original model fails on {'random' if inputs is None else 'the given'} inputs: {why.rstrip('.')}."
        )
    return result


def first_that_runs(session: Any, attempts: Sequence[Mapping[str, Any]], why: str = "") -> tuple[Any, str]:
    """The first of several inputs that a model runs on, with its outputs, or None; and why the first one failed.

    Args:
        session: The model.
        attempts: The inputs, by name.
        why: Why an earlier one failed.
    """
    for feeds in attempts:
        try:
            return (feeds, session.run(None, feeds)), why
        except Exception as error:  # ONNX Runtime's, and values that are no tensors
            why = why or _short(error)
    return None, why


def random_feeds(arguments: Sequence[Any]) -> Iterator[Any]:
    """Random inputs of each choice of sizes: several that differ in the range of integers; or why there are none.

    Args:
        arguments: The inputs of a session.
    """
    shapes = {each.name: each.shape for each in arguments}
    dynamic = any(not isinstance(size, int) for shape in shapes.values() for size in shape or ())
    for choice, (batch, other) in enumerate(_SIZES if dynamic else _SIZES[:1]):
        symbols: dict[str, int] = {}
        chosen = {}
        for each in arguments:
            sizes = []
            for axis, size in enumerate(each.shape):
                if not isinstance(size, int):
                    name = str(size) if size else f"{each.name}[{axis}]"
                    size = symbols.setdefault(name, batch if axis == 0 else other + len(symbols))
                sizes.append(size)
            chosen[each.name] = sizes
        found = feeds_of_shapes(arguments, chosen, choice)
        yield found
        if isinstance(found, str):
            return


def feeds_of_shapes(
    arguments: Sequence[Any], shapes: Mapping[str, Sequence[int]], seed: int = 0
) -> list[dict[str, np.ndarray]] | str:
    """Random inputs of the given shapes: several that differ in the range of integers; or why there are none.

    Args:
        arguments: The inputs of a session.
        shapes: The shape of each, by its name.
        seed: What the random numbers depend on.
    """
    attempts = []
    for attempt in _ATTEMPTS:
        rng = np.random.default_rng([seed, attempt])
        feeds = {}
        for each in arguments:
            kind = re.fullmatch(r"tensor\((\w+)\)", each.type)
            dtype = _TYPES.get(kind[1]) if kind else None
            if dtype is None:
                return f"The input '{each.name}' has type {each.type}, for which no random values are generated."
            sizes = list(shapes[each.name])
            if math.prod(sizes) > _MOST_ELEMENTS or min(sizes, default=0) < 0:
                return f"The input '{each.name}' has shape {sizes}, which is too large or invalid."
            feeds[each.name] = _drawn(rng, sizes, np.dtype(dtype), attempt)
        attempts.append(feeds)
    return attempts


def _drawn(rng: np.random.Generator, shape: Sequence[int], dtype: np.dtype, below: int) -> np.ndarray:
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind == "O":
        return np.asarray(rng.choice(["", "a", "Word", "two words"], shape), object).reshape(shape)
    if dtype.kind in "iu":
        return np.asarray(rng.integers(0, below, shape)).astype(dtype)
    return np.asarray(rng.standard_normal(shape)).astype(dtype)


def difference(want: Any, have: Any) -> tuple[float, bool]:
    """The largest difference of two results, and whether rounding explains it."""
    if isinstance(want, (list, tuple)) or isinstance(have, (list, tuple)):
        if not isinstance(want, (list, tuple)) or not isinstance(have, (list, tuple)) or len(want) != len(have):
            return float("inf"), False
        parts = [difference(one, other) for one, other in zip(want, have, strict=True)]
        return max((each for each, _ in parts), default=0.0), all(close for _, close in parts)
    if want is None or have is None:
        return (0.0, True) if want is have else (float("inf"), False)
    want, have = np.asarray(want), np.asarray(have)
    if want.shape != have.shape or want.dtype != have.dtype:
        return float("inf"), False
    rounding = _ROUNDING.get(want.dtype.name)
    if rounding is None:
        same = bool((want == have).all())
        return (0.0 if same else float("inf")), same
    wide = np.float64
    left, right = want.astype(wide), have.astype(wide)
    finite = np.isfinite(left)
    if not np.array_equal(left[~finite], right[~finite], equal_nan=True) or not np.isfinite(right[finite]).all():
        return float("inf"), False
    if not finite.any():
        return 0.0, True
    scale = max(1.0, float(np.abs(left[finite]).max()))
    largest = float(np.abs(left[finite] - right[finite]).max()) / scale
    return largest, largest <= rounding


def _short(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 400 else text[:397] + "..."
