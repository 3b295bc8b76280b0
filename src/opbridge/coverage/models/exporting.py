"""The exporters that carry a model across, each behind the same face."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx_ir as ir
import torch
from torch.utils import _pytree as pytree

from opbridge import pipeline
from opbridge.coverage.building import builder_of, exported_to_build
from opbridge.program import session

if TYPE_CHECKING:
    import onnxruntime

    from opbridge.capture import Capture
    from opbridge.coverage.models.entries import Inputs
    from opbridge.program import Program

__all__ = ["EXPORTERS", "Exported", "Stages"]


class Stages:
    """The `progress=` of an export: keeps the seconds of each stage, also of the one that fails."""

    def __init__(self, seconds: dict[str, float]) -> None:
        """Args:
        seconds: Where they are kept, by stage.
        """
        self._seconds = seconds

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[Stages]:
        start = time.perf_counter()
        try:
            yield self
        finally:
            self._seconds[name] = time.perf_counter() - start

    def detail(self, text: str) -> None:
        pass


@dataclass(frozen=True)
class Exported:
    """A model as an exporter left it on the disk.

    Attributes:
        load: Makes an ONNX Runtime session of it.
        read: Gives the ONNX model.
        path: The file.
        capture: What opbridge made it from.
        routes: How many of its operators have each route.
        notes: What opbridge noted.
    """

    load: Callable[[], onnxruntime.InferenceSession]
    read: Callable[[], ir.Model]
    path: Path
    capture: Capture | None = None
    routes: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def _opbridge(
    model: Any, example: Inputs, dynamic_shapes: Any, path: Path, stages: Stages, target: str | None
) -> Exported:
    """opbridge.export, with its verification, but for a target that only builds.

    For that one, a file that lint finds errors in is one as well: the sweep says whether it is right.
    """
    options: dict[str, Any] = {
        "kwargs": example.kwargs,
        "dynamic_shapes": dynamic_shapes,
        "target": target,
        "progress": stages,
    }
    program: Program | None
    if builder_of(target) is None:
        program = pipeline.export(model, example.args, path, **options)
    else:
        program, path = exported_to_build(model, example.args, path, verify=False, **options)
    if program is None:
        return Exported(lambda: session(path, threads=1), lambda: ir.load(path), path)
    routes = Counter(row.route for row in program.plan.rows if row.route is not None)
    notes = tuple(dict.fromkeys((*program.capture.notes, *program.plan.notes)))
    return Exported(
        lambda: program.session(threads=1), lambda: program.model, path, program.capture, dict(routes), notes
    )


def _dynamo(
    model: Any, example: Inputs, dynamic_shapes: Any, path: Path, stages: Stages, target: str | None
) -> Exported:
    """torch.onnx.export as it is called by default, which knows no targets."""
    dynamic_shapes = pytree.tree_map(_without_sum, dynamic_shapes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model,
            example.args,
            path,
            kwargs=dict(example.kwargs) or None,
            dynamic_shapes=dynamic_shapes,
            dynamo=True,
            verbose=False,
        )
    return Exported(lambda: session(path, threads=1), lambda: ir.load(path), path)


def _without_sum(dimension: Any) -> Any:
    """A dimension as torch.onnx takes it, which has no sums of names."""
    return dimension.replace(" + ", "_plus_") if isinstance(dimension, str) else dimension


EXPORTERS: Mapping[str, Callable[[Any, Inputs, Any, Path, Stages, str | None], Exported]] = {
    "opbridge": _opbridge,
    "torch": _dynamo,
}
"""By name: opbridge's own, torch.onnx.export(dynamo=True)."""
