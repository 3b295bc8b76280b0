"""Two models on the same random inputs, in ONNX Runtime: whether they give the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir

from opbridge.errors import ModelFileError, OpbridgeError, RunError
from opbridge.onnx.shapes import sizes
from opbridge.runtimes.onnxruntime.isolated import Limits, isolated_session

__all__ = ["Comparison", "compare"]

_SIZES = (2, 3, 1, 5)
_LIMITS = Limits(seconds=120)


@dataclass(frozen=True)
class Comparison:
    """What two models gave.

    Attributes:
        runs: On how many inputs both ran.
        largest: The largest absolute difference between their outputs; nan and infinity in one only count as infinite.
        relative: The largest difference, as a part of the largest number in its output.
        by: What ran the original: "onnxruntime", or "the reference evaluator of onnx" where that refuses it.
        why_not: Why they were not compared; "" where they were.
    """

    runs: int = 0
    largest: float = 0.0
    relative: float = 0.0
    by: str = "onnxruntime"
    why_not: str = ""

    @property
    def is_same(self) -> bool:
        """Whether the two gave the same on all inputs, but for the rounding of float32."""
        return self.runs > 0 and self.relative <= 1e-5


def compare(original: ir.Model, changed: ir.Model, original_bytes: bytes, changed_bytes: bytes) -> Comparison:
    """Runs two models on the same inputs, of several sizes where dimensions are dynamic.

    Args:
        original: The one.
        changed: The other, with the same inputs and outputs.
        original_bytes: The content of the file of the one.
        changed_bytes: That of the other.
    """
    try:
        second = isolated_session(changed_bytes, _LIMITS)
    except OpbridgeError as error:
        return Comparison(why_not=f"ONNX Runtime does not load the new model: {error}")
    by = "onnxruntime"
    try:
        first: Any = isolated_session(original_bytes, _LIMITS)
    except OpbridgeError as error:
        by = "the reference evaluator of onnx"
        found = _reference(original_bytes)
        if found is None:
            return Comparison(why_not=f"ONNX Runtime does not load the original: {error}")
        first = found
    names = [str(each.name) for each in original.graph.outputs]
    runs, largest, relative, refused = 0, 0.0, 0.0, ""
    for feeds in _feeds(original):
        try:
            expected = first.run(names, feeds)
        except Exception as error:  # the evaluator raises anything
            refused = f"the original does not run on random inputs: {error}"
            continue
        try:
            given = second.run(names, feeds)
        except (RunError, ModelFileError) as error:
            return Comparison(runs, np.inf, np.inf, by, f"the new model does not run: {error}")
        runs += 1
        for one, other in zip(expected, given, strict=True):
            apart, part = _difference(np.asarray(one), np.asarray(other))
            largest, relative = max(largest, apart), max(relative, part)
    return Comparison(runs, largest, relative, by, "" if runs else refused)


class _Reference:
    def __init__(self, evaluator: Any) -> None:
        self._evaluator = evaluator

    def run(self, names: Sequence[str], feeds: Mapping[str, Any]) -> Any:
        """The outputs."""
        return self._evaluator.run(list(names), dict(feeds))


def _reference(model: bytes) -> _Reference | None:
    import onnx
    from onnx.reference import ReferenceEvaluator

    try:
        return _Reference(ReferenceEvaluator(onnx.ModelProto.FromString(model)))
    except Exception:  # it raises anything for a model that it does not take
        return None


def _feeds(model: ir.Model) -> Iterator[dict[str, Any]]:
    """Random inputs: one for each size that dynamic dimensions have, twice where there are none."""
    generator = np.random.default_rng(0)
    named = {size for value in model.graph.inputs for size in sizes(value) or () if not isinstance(size, int)}
    for size in _SIZES if named else (0, 0):
        yield {
            str(value.name): _drawn(generator, value.dtype, [each if isinstance(each, int) else size for each in shape])
            for value in model.graph.inputs
            if value.name not in model.graph.initializers and (shape := sizes(value)) is not None
        }


def _drawn(generator: np.random.Generator, dtype: ir.DataType | None, shape: Sequence[int]) -> Any:
    if dtype is None or dtype == ir.DataType.STRING:
        return np.full(shape, "a", object)
    if dtype == ir.DataType.BOOL:
        return np.asarray(generator.random(shape) < 0.5)
    kind = dtype.numpy()
    if dtype.is_floating_point():
        return np.asarray(generator.standard_normal(shape)).astype(kind)
    # Small enough for indices.
    return np.asarray(generator.integers(0, 2, shape)).astype(kind)


def _difference(one: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """The largest difference of two arrays, and as a part of the largest number."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return np.inf, np.inf
    if one.dtype == object or one.dtype.kind in "US":
        return (0.0, 0.0) if np.array_equal(one, other) else (np.inf, np.inf)
    if one.dtype in (ml_dtypes.bfloat16, np.float16):
        one, other = one.astype(np.float32), other.astype(np.float32)
    if one.dtype.kind not in "fc":
        if np.array_equal(one, other):
            return 0.0, 0.0
        apart = float(np.abs(one.astype(np.float64) - other.astype(np.float64)).max())
        return apart, np.inf
    finite = np.isfinite(one)
    if not np.array_equal(finite, np.isfinite(other)) or not np.array_equal(
        one[~finite], other[~finite], equal_nan=True
    ):
        return np.inf, np.inf
    if not finite.any():
        return 0.0, 0.0
    apart = float(np.abs(one[finite] - other[finite]).max())
    most = float(np.abs(one[finite]).max())
    return apart, apart / most if most else (np.inf if apart else 0.0)
