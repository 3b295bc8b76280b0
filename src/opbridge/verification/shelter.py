"""Which runs of a file may end the process that makes them, and a session that makes these elsewhere.

Nobody asked for most of the runs of a verification, so none of them may end the user's process. A run is made in a
process of its own

1. where an operator that ends the process at a size of 0 (`opbridge.targets.ending`) may get one: its dimension is not
   known from the shapes of the inputs, or is 0 by them;
2. where an input is empty, whatever the operators: fewer people have tried that than anything else. Of a large file a
   second copy in memory is the greater danger, and its operators are known not to mind.

All other runs are made in this process, as a session of the user's would make them; and so is the session, but where
the file has weights or inputs of float16 or bfloat16: ONNX Runtime rewrites such a file for the CPU when it loads it,
and may end the process (`opbridge.runtimes.onnxruntime.fatal_fusions` has what is known). It is loaded elsewhere first.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import onnx_ir as ir

from opbridge.base.size_expressions import evaluate
from opbridge.errors import ModelFileError, UsageError
from opbridge.rules.looking import Looked
from opbridge.rules.of_empty import sizes_at
from opbridge.runtimes.child import ProcessEnded
from opbridge.runtimes.limits import Limits
from opbridge.runtimes.onnxruntime.sheltered import Shapes, ShelteredSession
from opbridge.targets.ending import ENDING

__all__ = ["LIMITS", "Risk", "sheltered"]

LIMITS = Limits(seconds=300.0, gigabytes=1024.0)
"""Of the process for these runs: of memory, no less than this process has."""

_LARGE_BYTES = 1 << 30
_HALF = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
_OPERATORS = frozenset(name for fact in ENDING for name in fact.operators)


class Risk:
    """Whether a run of a file may end the process.

    Args:
        load: Loads the file's model, which is not changed.
    """

    def __init__(self, load: Callable[[], ir.Model]) -> None:
        self._load = load

    def __call__(self, shapes: Shapes) -> bool:
        """Of a run on inputs of these shapes."""
        if any(0 in shape for shape in shapes.values()) and not self._is_large:
            return True
        return any(not _is_filled(size, self._symbols(shapes)) for size in self._sizes)

    @functools.cached_property
    def _model(self) -> ir.Model | None:
        try:
            return self._load()
        except Exception:  # a file that ONNX Runtime has loaded, and nothing else may
            return None

    @functools.cached_property
    def is_half(self) -> bool:
        """Whether the file has weights or inputs of float16 or bfloat16."""
        if self._model is None:
            return False
        graph = self._model.graph
        return any(each.dtype in _HALF for each in (*graph.inputs, *graph.initializers.values()))

    @functools.cached_property
    def _is_large(self) -> bool:
        if self._model is None:
            return False
        tensors = (value.const_value for value in self._model.graph.initializers.values())
        return sum(each.nbytes for each in tensors if each is not None) > _LARGE_BYTES

    @functools.cached_property
    def _sizes(self) -> list[int | str | None]:
        """The sizes at which operators of the facts end the process where they are 0; None: one that is not known."""
        model = self._model
        if model is None:
            return [None]
        graphs = (model.graph, *(each.graph for each in model.functions.values()))
        if not any(node.op_type in _OPERATORS for graph in graphs for node in graph.all_nodes()):
            return []
        return list(dict.fromkeys(sizes_at(Looked(model.clone()), ENDING)))

    def _symbols(self, shapes: Shapes) -> dict[str, int]:
        """The sizes of the names in the shapes of the model's inputs."""
        found: dict[str, int] = {}
        for value in self._model.graph.inputs if self._model is not None else ():
            for dim, size in zip(value.shape or (), shapes.get(value.name or "", ()), strict=False):
                if isinstance(dim, ir.SymbolicDim) and dim.value is not None:
                    found[dim.value] = size
        return found


def sheltered(
    open_: Callable[..., Any], load: Callable[[], ir.Model], isolated: bool | Limits, *, repeats: Callable[[], bool]
) -> Any:
    """A session of ONNX Runtime whose runs do not end this process.

    Args:
        open_: Loads the file, with the keywords `isolated` and `quiet` of `open_session`.
        load: Loads the ONNX model.
        isolated: Whether all runs are made in a process of its own, or with which limits.
        repeats: Whether PyTorch runs nodes of the file; see `ShelteredSession`.
    """
    if isolated is not False:
        return open_(isolated=isolated)
    risk = Risk(load)
    elsewhere = functools.cache(lambda: open_(isolated=LIMITS, quiet=True))
    if risk.is_half:
        _try(elsewhere)
    return ShelteredSession(open_(), risk, elsewhere, repeats=repeats)


def _try(load: Callable[[], Any]) -> None:
    """Loads the file in a process of its own.

    Raises:
        ModelFileError: That ended the process.
    """
    try:
        load()
    except ProcessEnded as error:
        raise ModelFileError(
            f"Loading the model ends the process in ONNX Runtime: {error} Set the graph_optimization_level of "
            "onnxruntime.SessionOptions to ORT_ENABLE_BASIC where you load it, or export the model in float32."
        ) from error
    except (ModelFileError, UsageError):
        pass  # refused there, perhaps for what only this process has: the session of this process says why


def _is_filled(size: int | str | None, symbols: Mapping[str, int]) -> bool:
    """Whether a size is known not to be 0."""
    if size is None or isinstance(size, int):
        return bool(size)
    try:
        return evaluate(size, symbols) > 0
    except (ValueError, ArithmeticError):
        return False
