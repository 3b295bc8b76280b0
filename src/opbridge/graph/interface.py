"""The interface of a captured graph: the model's inputs, outputs, parameters, buffers and constants."""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, InputSpec, OutputKind, OutputSpec

__all__ = ["as_tensor", "is_frozen", "lifted_tensors", "user_inputs", "user_outputs"]


def user_inputs(program: ExportedProgram) -> list[InputSpec]:
    """One entry for each leaf of `(args, kwargs)`, in order."""
    return [spec for spec in program.graph_signature.input_specs if spec.kind == InputKind.USER_INPUT]


def user_outputs(program: ExportedProgram) -> list[OutputSpec]:
    """One entry for each leaf of the model's output, in order."""
    kinds = (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)
    return [spec for spec in program.graph_signature.output_specs if spec.kind in kinds]


def is_frozen(spec: InputSpec | OutputSpec) -> bool:
    """Whether a leaf is a constant of the graph: None, a string, or a number that is not dynamic."""
    return isinstance(spec.arg, ConstantArgument)


def as_tensor(leaf: Any) -> torch.Tensor:
    """A leaf in the form that it has in the graph: an integer is an int64 tensor without dimensions."""
    return leaf if isinstance(leaf, torch.Tensor) else torch.tensor(leaf)


def lifted_tensors(program: ExportedProgram) -> dict[str, tuple[str, torch.Tensor]]:
    """The parameters, buffers and constants: placeholder's name -> (its name in the model, the tensor)."""
    lifted: dict[str, tuple[str, torch.Tensor]] = {}
    for spec in program.graph_signature.input_specs:
        if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            target = spec.target or ""
            tensor = program.state_dict.get(target)
            if tensor is None:
                tensor = program.constants.get(target)
            if isinstance(tensor, torch.Tensor):
                lifted[spec.arg.name] = (target, tensor)
    return lifted
