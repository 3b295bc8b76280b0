"""The ONNX reference evaluator: slow, and as ONNX's documentation of the operators has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from opbridge.errors import ModelFileError

__all__ = ["DOMAINS", "INSTALL", "ISOLATED", "KERNELS", "NAME", "TITLE", "load", "version"]

NAME = "reference"
TITLE = "the ONNX reference evaluator"
INSTALL = "pip install onnx"
ISOLATED = False
KERNELS = False
DOMAINS = ("ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training", "ai.onnx.training")
"""Domains of which it has operators."""


def version() -> str:
    """The version of onnx."""
    import onnx

    return onnx.__version__


class _Evaluator:
    """A model in the evaluator."""

    def __init__(self, evaluator: Any) -> None:
        self._evaluator = evaluator

    def run(self, feeds: Mapping[str, np.ndarray]) -> list[Any]:
        with np.errstate(all="ignore"):
            return [_array(each) for each in self._evaluator.run(None, dict(feeds))]


def _array(value: Any) -> Any:
    """A tensor as an array: the evaluator returns Python's and NumPy's numbers too."""
    return value if value is None or isinstance(value, (list, tuple, dict)) else np.asarray(value)


def load(model: str | bytes) -> _Evaluator:
    """Loads a model; see `opbridge.runtimes.Runtime`."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    try:
        loaded = onnx.load_from_string(model) if isinstance(model, bytes) else onnx.load(model)
        return _Evaluator(ReferenceEvaluator(loaded))
    except Exception as error:  # the evaluator has no error of its own
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise ModelFileError(f"The ONNX reference evaluator cannot load the model: {said}") from error
