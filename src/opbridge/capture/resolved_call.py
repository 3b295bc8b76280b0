"""A model and the call of it that is captured, in the one form that captures read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.export import ExportedProgram

from opbridge.capture.cache_names import check_caches
from opbridge.capture.dynamic_axes import shapes_of_axes
from opbridge.capture.dynamic_shapes import Shapes, resolve
from opbridge.capture.exported_programs import inputs_of_program
from opbridge.capture.model_inputs import distinct, example_inputs, fit_signature
from opbridge.capture.model_module import as_module
from opbridge.capture.shape_forms import by_own_names
from opbridge.model_support import caches

__all__ = ["ResolvedCall", "resolved_call"]


@dataclass(frozen=True, eq=False)
class ResolvedCall:
    """A model and the call of it that is captured.

    Attributes:
        model: What the user gave.
        module: What runs: the model as a module, or the ExportedProgram that was given.
        args: Positional example inputs. Unless they are an ExportedProgram's, no tensor occurs twice in them.
        kwargs: Keyword example inputs, likewise.
        shapes: The dynamic dimensions.
        notes: What becomes of the caches among the inputs.
    """

    model: Any
    module: torch.nn.Module | ExportedProgram
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    shapes: Shapes = field(default_factory=Shapes)
    notes: tuple[str, ...] = ()

    @property
    def reference(self) -> Any:
        """What the file is compared with: the module to which a model of torch.compile belongs, or what was given."""
        return self.module if isinstance(self.model, torch.nn.Module) else self.model


def resolved_call(
    model: Any,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    dynamic_axes: Mapping[str, Any] | None = None,
    input_names: Sequence[str] | None = None,
) -> ResolvedCall:
    """A model and its example inputs, in the one form that captures read. Nothing that is given is changed.

    Args:
        model: A module, any other callable, or an ExportedProgram, which is taken as it is.
        args: Positional example inputs: a tuple or list, or one tensor.
        kwargs: Keyword example inputs.
        dynamic_shapes: What torch.export takes; names in place of dimensions (`{"x": {0: "batch"}}`); or "auto".
        dynamic_axes: The dynamic dimensions by the names of the graph's inputs, in the place of `dynamic_shapes`.
        input_names: The user's names for these inputs, by which `dynamic_shapes` may go too.

    Raises:
        UsageError: A model, inputs or dynamic shapes of a wrong kind, or inputs that do not fit the model.
    """
    args, kwargs = example_inputs(args, kwargs)
    if isinstance(model, ExportedProgram):
        return ResolvedCall(model, model, *inputs_of_program(model, args, kwargs, dynamic_axes or dynamic_shapes))
    notes = check_caches(args, kwargs)
    whole: tuple[tuple[Any, ...], dict[str, Any]] = caches.of_all_tokens((args, kwargs))
    args, kwargs = whole
    if not isinstance(dynamic_shapes, torch.export.ShapesCollection):  # which knows tensors by their identity
        args, kwargs = distinct(args, kwargs)
    module = as_module(model, args, kwargs)
    fit_signature(module, args, kwargs)
    if dynamic_axes:
        dynamic_shapes = shapes_of_axes(dynamic_axes, module, args, kwargs, input_names)
    elif input_names and isinstance(dynamic_shapes, Mapping):
        dynamic_shapes = by_own_names(dynamic_shapes, module, args, kwargs, input_names)
    return ResolvedCall(model, module, args, kwargs, resolve(module, args, kwargs, dynamic_shapes), notes)
