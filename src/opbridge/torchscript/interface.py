"""The names of a traced model's inputs and outputs, and their dynamic dimensions.

A trace has no names, containers or dynamic shapes. torch.export has them, and can always capture a stand-in: a module
with the model's inputs that returns tensors of its outputs' dtypes and shapes. So a traced model has the same names as
an exported one, and a `Capture` that later stages, such as verification, can read.
"""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import onnx_ir as ir
import torch
from torch.utils import _pytree as pytree

from opbridge.capture import Capture, capture_call
from opbridge.capture.containers import register_containers
from opbridge.capture.resolved_call import ResolvedCall
from opbridge.errors import UsageError
from opbridge.graph.precision import coarsest
from opbridge.plan.planner import make_plan
from opbridge.request import BuildConfig
from opbridge.translate.translator import translate

__all__ = ["Flat", "capture_stand_in", "describe_interface"]


class Flat(torch.nn.Module):
    """A model as a function of tensors: from the tensors among its inputs to the tensors among its outputs.

    Attributes:
        model: The model.
        outputs: The leaves of the model's last result, and their structure.
    """

    def __init__(self, model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__()
        self.model = model
        self.training = model.training
        self._leaves, self._structure = pytree.tree_flatten((args, kwargs))
        self.outputs: tuple[list[Any], Any] = ([], None)

    @property
    def tensors(self) -> list[tuple[int, torch.Tensor]]:
        """The tensors among the inputs, with their indices among the leaves."""
        return [(number, leaf) for number, leaf in enumerate(self._leaves) if isinstance(leaf, torch.Tensor)]

    def forward(self, *tensors: torch.Tensor) -> Any:
        given = iter(tensors)
        leaves = [next(given) if isinstance(leaf, torch.Tensor) else leaf for leaf in self._leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self._structure)
        returned = self.model(*args, **kwargs)
        register_containers(returned)
        self.outputs = pytree.tree_flatten(returned)
        return tuple(leaf for leaf in self.outputs[0] if isinstance(leaf, torch.Tensor))

    def returned(self) -> list[Any]:
        """The outputs that an ONNX model has: None for a tensor, and numbers as they are."""
        kept = [leaf for leaf in self.outputs[0] if isinstance(leaf, (torch.Tensor, int, float, complex))]
        return [None if isinstance(leaf, torch.Tensor) else leaf for leaf in kept]


class _StandIn(torch.nn.Module):
    """A module with a model's inputs that returns tensors of its outputs' dtypes and shapes.

    They depend on a buffer of the coarsest dtype of the model, from which verification derives its tolerances.
    """

    def __init__(self, flat: Flat, dtype: torch.dtype | None) -> None:
        super().__init__()
        self.training = flat.training
        self.register_buffer("precision", torch.zeros((), dtype=dtype or torch.float32))
        leaves, self._structure = flat.outputs
        self._described = [
            (leaf.dtype, tuple(leaf.shape)) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves
        ]

    def returned(self) -> Any:
        leaves = [
            self.precision.to(each[0]).expand(each[1]) if type(each) is tuple else each for each in self._described
        ]
        return pytree.tree_unflatten(leaves, self._structure)


def capture_stand_in(flat: Flat, call: ResolvedCall) -> Capture:
    """Captures a stand-in for a model that has been traced.

    Raises:
        UsageError: An int is to be an input, which a trace freezes.
    """
    dtypes = [tensor.dtype for tensor in (*flat.model.parameters(), *flat.model.buffers())]
    stand_in = _stand_in(flat, coarsest([*dtypes, *(tensor.dtype for _, tensor in flat.tensors)]))
    captured = capture_call(dataclasses.replace(call, model=stand_in, module=stand_in))
    for leaf in captured.graph.inputs:
        if leaf.is_number:
            raise UsageError(
                f"dynamic_shapes makes the int '{leaf.name}' an input, which is not supported by capture='trace'. "
                "Pass it as a zero-dimensional tensor, or leave it out of dynamic_shapes."
            )
    return dataclasses.replace(captured, mode="trace")


def describe_interface(captured: Capture, building: BuildConfig, opset: int) -> tuple[list[ir.Value], list[str]]:
    """The inputs, with names and shapes, and the names of the outputs, as the export strategy gives them.

    Raises:
        UsageError: more names than inputs or outputs, or a name given twice.
    """
    plan = make_plan(captured, building.registry, opset=opset)
    graph = translate(captured, plan, building.names).model.graph
    return list(graph.inputs), [str(output.name) for output in graph.outputs]


def _stand_in(flat: Flat, dtype: torch.dtype | None) -> torch.nn.Module:
    class StandIn(_StandIn):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return self.returned()

    signature = inspect.signature(flat.model.forward)
    first = inspect.Parameter("_module", inspect.Parameter.POSITIONAL_ONLY)
    forward: Any = StandIn.forward
    forward.__signature__ = inspect.Signature([first, *signature.parameters.values()])
    return StandIn(flat, dtype)
