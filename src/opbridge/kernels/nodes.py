"""The ONNX node of a kernel's operator.

Its form is that of a `fallthrough` node (see `opbridge.nodes.fallthrough_node`), with one addition: in a model of
doubles, a float argument that a float32 attribute cannot hold is an attribute that is a tensor of doubles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir

from opbridge.base.torch_private import torch_operators
from opbridge.errors import TranslationError
from opbridge.nodes import aten_node
from opbridge.onnx.tensor import Tensor

__all__ = ["node_builder"]

_LIST = "Tensor[]"


def node_builder(target: Any, domain: str, op_type: str) -> Callable[..., Any]:
    """The translation of an operator into one node.

    Args:
        target: The operator, a `torch._ops.OpOverload`.
        domain: The node's domain.
        op_type: Its name.
    """
    declared, returns = torch_operators.declared(target)
    single = len(returns) - (returns[-1].type == _LIST)

    def node(args: Any, kwargs: Any, count: int) -> list[Tensor]:
        """The outputs of the node, of which there are so many."""
        values = aten_node.bind_arguments(target, args, kwargs)
        inputs: list[Tensor | None] = []
        settings: list[tuple[str, str, Any]] = []
        for argument, value in zip(declared, values, strict=True):
            kind = argument.type.rstrip("?")
            if kind == "Tensor":
                inputs.append(value)
            elif kind == "Tensor[]":
                inputs.extend(value)
                settings.append((argument.name, "int", len(value)))
            elif value is not None:
                settings.append((argument.name, kind, value))
        given = [value for value in inputs if value is not None]
        if not given:
            raise TranslationError(f"{domain}::{op_type} is called without a tensor.")
        exact = any(value.dtype == ir.DataType.DOUBLE for value in given)
        attributes = {name: _attribute(name, kind, value, exact) for name, kind, value in settings}
        builder = given[0].builder
        builder.domains.setdefault(domain, 1)
        return list(builder.node(op_type, inputs, attributes, [None] * count, domain=domain))

    def build(*args: Any, **kwargs: Any) -> Any:
        outputs = node(args, kwargs, single)
        return outputs[0] if single == 1 else outputs

    def build_with_list(*args: Any, result_count: int, **kwargs: Any) -> Any:
        outputs = node(args, kwargs, result_count)
        return [*outputs[:single], outputs[single:]] if single else outputs

    return build if single == len(returns) else build_with_list


def _attribute(name: str, kind: str, value: Any, exact: bool) -> ir.Attr:
    items = value if isinstance(value, (list, tuple)) else [value]
    if any(isinstance(item, ir.Value) for item in items):
        raise TranslationError(
            f"The argument '{name}' is computed at run time, but it is an attribute of the node, which must be "
            "constant. Make it a tensor argument of the kernel."
        )
    if kind == "str":
        return ir.AttrString(name, value)
    if kind in ("float", "float[]"):
        numbers = np.asarray(value, dtype=np.float64)
        if exact and not np.array_equal(numbers.astype(np.float32), numbers, equal_nan=True):
            return ir.AttrTensor(name, ir.Tensor(numbers))
        return (
            ir.AttrFloat32s(name, [float(item) for item in items])
            if kind == "float[]"
            else ir.AttrFloat32(name, float(value))
        )
    if kind in ("int[]", "SymInt[]"):
        return ir.AttrInt64s(name, [int(item) for item in items])
    return ir.AttrInt64(name, int(value))
