"""Everything that opbridge takes from torch's insides.

Checked on torch 2.13.0 and 2.15.0.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch


def operator_name(target: Any) -> str | None:
    """The name of an fx node's target: "aten::add.Tensor", "_operator::mul", "torch::sym_max", "higher_order::cond".

    None for what is no operator, and for an overload packet, which is several.
    """
    if isinstance(target, torch._ops.OpOverload):
        return target.name()
    if isinstance(target, torch._ops.HigherOrderOperator):
        return f"higher_order::{target._name}"
    if isinstance(target, torch._ops.OpOverloadPacket) or not callable(target):
        return None
    module = getattr(target, "__module__", None)
    if module in ("_operator", "math", "torch"):
        return f"{module}::{target.__name__}"
    return None


def operator_object(name: str) -> torch._ops.OpOverload | None:
    """The operator of a qualified name, or None where this torch does not have it."""
    namespace, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    try:
        return getattr(getattr(getattr(torch.ops, namespace), base), overload or "default")
    except (AttributeError, RuntimeError):
        return None


def exporter_translations() -> list[Any]:
    """The translations that torch.onnx carries itself, beside onnxscript's."""
    from torch.onnx._internal.exporter._torchlib._torchlib_registry import get_torchlib_ops

    return list(get_torchlib_ops())


@functools.cache
def decomposition_table() -> dict[Any, Callable[..., Any]]:
    """torch's decompositions: those that torch.export uses, then every other one that it has."""
    table = dict(torch._decomp.decomposition_table)
    table.update(torch.export.default_decompositions().items())
    return {target: function for target, function in table.items() if isinstance(target, torch._ops.OpOverload)}


def trace_under(
    fake_mode: Any, function: Callable[..., Any], inputs: Sequence[Any], table: dict[Any, Callable[..., Any]]
) -> torch.fx.GraphModule:
    """What a function does to fake tensors, as a graph of operators decomposed by `table`."""
    from torch.fx.experimental.proxy_tensor import make_fx

    context: Any = fake_mode if fake_mode is not None else contextlib.nullcontext()
    with context, torch.no_grad():
        return make_fx(function, decomposition_table=table, tracing_mode="real", _allow_non_fake_inputs=True)(*inputs)


def computation_dtype(arguments: Sequence[Any]) -> torch.dtype | None:
    """The dtype that torch computes a pointwise operator of these tensors and numbers in; None where it cannot tell."""
    from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

    try:
        return elementwise_dtypes(*arguments, type_promotion_kind=ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT)[1]
    except (RuntimeError, ValueError, TypeError):
        return None


def storage_key(tensor: torch.Tensor) -> int:
    """Equal for tensors that share memory; fake tensors too."""
    return tensor.untyped_storage()._cdata


@contextlib.contextmanager
def without_autograd() -> Iterator[None]:
    """No gradients are recorded meanwhile."""
    with torch.no_grad():
        yield


def output_paths(program: Any) -> list[str]:
    """A name for each leaf of a program's output, from its place in it: "logits", "hidden_states.0", "output"."""
    from torch.utils import _pytree

    spec = program.call_spec.out_spec
    tree = _pytree.tree_unflatten(list(range(spec.num_leaves)), spec)
    paths = []
    for path, _ in _pytree.tree_flatten_with_path(tree)[0]:
        parts = [str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key)))) for key in path]
        text = ".".join(parts)
        paths.append(f"output_{text}" if text[:1].isdigit() else text or "output")
    return paths
