"""A decoded `aten` node: the operator, its arguments, and the call in Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir
import torch

from opbridge.base.torch_private import torch_operators
from opbridge.errors import ModelFileError
from opbridge.nodes.aten_node.format import DOMAIN, OP_TYPE, Input, Kind, leaves

__all__ = ["AtenCall", "called_operators", "malformed"]


@dataclass(frozen=True)
class AtenCall:
    """The call that a node describes.

    Attributes:
        operator: The operator's qualified name, "aten::add.Tensor".
        arguments: The arguments by name, in the order of the schema: `Input`s, Python values, and lists of these.
        results: The kind of each result; a tuple for a list. Empty for a node of the older form.
        schema: The operator's schema in the torch that wrote the node; "" for a node of the older form.
        torch_version: The version of that torch; "" for a node of the older form.
    """

    operator: str
    arguments: dict[str, Any]
    results: tuple[Kind, ...] = ()
    schema: str = ""
    torch_version: str = ""

    def target(self) -> torch._ops.OpOverload:
        """The operator in the installed torch.

        Raises:
            ModelFileError: The installed torch does not have the operator, or has it with another schema.
        """
        found = torch_operators.operator_object(self.operator)
        written = f" with torch {self.torch_version}" if self.torch_version else ""
        if found is None:
            raise ModelFileError(
                f"A node of the model calls {self.operator}, which does not exist in PyTorch {torch.__version__}; "
                f"it was exported{written or ' elsewhere'}. Import the library that defines the operator, or "
                "install that version of PyTorch."
            )
        if self.schema and self.schema != str(found._schema):
            raise ModelFileError(
                f"A node of the model was exported{written} for {self.schema}, but PyTorch {torch.__version__} has "
                f"{found._schema}. Export the model again, or install that version of PyTorch."
            )
        return found

    def call(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Calls the operator in Python, with the result that the kernel has to give.

        Args:
            inputs: The node's inputs, with the dtypes and shapes that `format` describes.

        Returns:
            The node's outputs: a complex result with a trailing dimension of 2, a number as a tensor of rank 0.

        Raises:
            ModelFileError: As for `target`.
            Exception: Whatever the operator raises.
        """
        target = self.target()
        if target._schema.is_mutable:
            inputs = [tensor.clone() for tensor in inputs]
        arguments = {name: _with_inputs(value, inputs) for name, value in self.arguments.items()}
        result = target(**arguments)
        kinds = self.results[0] if len(self.results) == 1 else self.results
        return [_as_output(value) for value in leaves(_without_unused(result, kinds))]


def called_operators(model: ir.Model) -> tuple[str, ...]:
    """The operators that the `aten` nodes of a model call, each once, as "aten::add.Tensor"."""
    found = {}
    graphs: list[Any] = [model.graph, *model.functions.values()]
    for graph in graphs:
        for node in graph.all_nodes():
            if (node.domain, node.op_type) == (DOMAIN, OP_TYPE) and "operator" in node.attributes:
                overload = node.attributes.get("overload_name")
                suffix = f".{overload.as_string()}" if overload is not None and overload.as_string() else ""
                name = node.attributes["operator"].as_string()
                found[f"{name if '::' in name else f'aten::{name}'}{suffix}"] = True
    return tuple(found)


def malformed(node: ir.Node, reason: str) -> ModelFileError:
    """The error for a node that cannot be decoded."""
    called = node.attributes["operator"].as_string() if "operator" in node.attributes else "no operator"
    return ModelFileError(
        f"The node '{node.name}', which calls {called}, is malformed: {reason}. Export the model again."
    )


def _with_inputs(value: Any, inputs: Sequence[torch.Tensor]) -> Any:
    """An argument in which each `Input` is replaced by its tensor or number."""
    if isinstance(value, list):
        return [_with_inputs(item, inputs) for item in value]
    if not isinstance(value, Input):
        return value
    tensor = inputs[value.value]
    if value.kind == "complex_tensor":
        return torch.view_as_complex(tensor.clone(memory_format=torch.contiguous_format))
    return tensor if value.kind == "tensor" else tensor.item()


def _without_unused(result: Any, kinds: Kind) -> Any:
    """A result in which None replaces what has no output."""
    if kinds == "none":
        return None
    if isinstance(kinds, str) or not kinds:
        return result
    return [_without_unused(item, kind) for item, kind in zip(result, kinds, strict=True)]


def _as_output(value: Any) -> torch.Tensor:
    tensor = value if isinstance(value, torch.Tensor) else torch.tensor(value)
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
