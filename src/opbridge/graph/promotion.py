"""torch's implicit type promotion, made explicit.

Inputs of an ONNX operator have one type. torch's pointwise operators accept any mix of tensors and numbers and compute
in the type that promotion gives ("Type promotion" in torch's documentation of tensor attributes).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from opbridge.base.torch_private import torch_operators

__all__ = ["computation_dtype", "promoted_dtype"]

# Pointwise by torch's tag, but their arguments keep their own types: conversions, and operators with masks.
_OWN_TYPES = frozenset(
    {
        "_to_copy",
        "to",
        "type_as",
        "copy",
        "copy_",
        "clone",
        "where",
        "masked_fill",
        "masked_fill_",
        "float_power",
        "fill",
        "hardtanh",
        "hardtanh_",
        "clamp",
        "clamp_",
        "clamp_min",
        "clamp_min_",
        "clamp_max",
        "clamp_max_",
        "clip",
        "clip_",
    }
    | {"fill_", "contiguous", "detach", "alias", "bernoulli", "dropout", "native_dropout", "bucketize", "isin", "ldexp"}
)


# Pointwise without torch's tag: other names of operators that have it.
_POINTWISE = frozenset({"divide", "true_divide", "multiply", "subtract", "special_xlogy"})

# Not pointwise, but their real tensor arguments become complex where the result is complex.
_TO_COMPLEX = frozenset(
    {"_to_copy", "to", "type_as", "where", "cat", "concat", "concatenate", "stack", "masked_fill", "index_put", "copy"}
    | {"zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "new_ones", "new_full", "new_empty"}
    | {"sum", "mean", "prod", "cumsum", "cumprod"}
)

# How many arguments decide the type; the factor after them is brought to it.
_OPERANDS = {"add": 2, "sub": 2, "subtract": 2, "rsub": 2, "addcmul": 3, "addcdiv": 3}

_REPRESENTATIVES: dict[type, int | float | bool] = {torch.SymInt: 1, torch.SymFloat: 1.0, torch.SymBool: True}


def computation_dtype(node: Node) -> torch.dtype | None:
    """The dtype that a node's tensor arguments have to be converted to, or None where they keep their own.

    Rules, in this order:
        0. Real tensors that a conversion makes complex, or that are joined with complex ones, become complex.
        1. Only pointwise operators promote; conversions, and operators with masks, do not.
        2. The type is torch's common type of all tensor and number arguments.
        3. Where that is an integer or bool type and the result is floating, the operator computes in the result's type.
        4. Where every tensor has the type already, and no size is an argument, the result is None.
    """
    arguments = [_value(argument) for argument in (*node.args, *node.kwargs.values())]
    return promoted_dtype(node.target, arguments, node.meta.get("val"))


def promoted_dtype(target: Any, arguments: Sequence[Any], result: Any) -> torch.dtype | None:
    """`computation_dtype` for an operator, its arguments and its result. Of tensors, only dtype and rank matter."""
    if not isinstance(target, torch._ops.OpOverload):
        return None
    name = target._schema.name.partition("::")[2]
    if name.removesuffix("_") in _TO_COMPLEX and isinstance(result, torch.Tensor) and result.is_complex():
        return result.dtype
    pointwise = torch.Tag.pointwise in target.tags or name.removesuffix("_") in _POINTWISE
    if name in _OWN_TYPES or not pointwise:
        return None
    arguments = arguments[: _OPERANDS.get(name.removesuffix("_"))]
    tensors = [value for value in arguments if isinstance(value, torch.Tensor)]
    if not tensors:
        return None
    output = result.dtype if isinstance(result, torch.Tensor) else None
    dtypes = {tensor.dtype for tensor in tensors}
    numbers = [value for value in arguments if isinstance(value, (int, float, complex))]
    # Sizes that are known only at run time are tensors, of their own types.
    symbolic = [_REPRESENTATIVES[type(value)] for value in arguments if type(value) in _REPRESENTATIVES]
    (first, *others) = dtypes
    alike = not others and not symbolic and (first.is_complex or not any(isinstance(n, complex) for n in numbers))
    if alike and (first.is_floating_point or first.is_complex or output == first):
        return None
    common = torch_operators.computation_dtype([*tensors, *numbers, *symbolic])
    if common is None:
        return None
    if output is not None and output.is_floating_point and not common.is_floating_point and not common.is_complex:
        common = output
    return common if symbolic or dtypes != {common} else None


def _value(argument: Any) -> Any:
    return argument.meta.get("val") if isinstance(argument, Node) else argument
