"""Private interfaces of torch about operators: their names, schemas, overloads and decompositions.

Checked on torch 2.13.0, 2.14.1 and 2.15.0.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import logging
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch


def operator_name(target: Any) -> str | None:
    """The name of an fx node's target: "aten::add.Tensor", "_operator::mul", "torch::sym_max", "higher_order::cond".

    None for anything that is not an operator, and for an overload packet, which stands for several operators.
    """
    if isinstance(target, torch._ops.OpOverload):
        return target.name()
    if isinstance(target, torch._ops.HigherOrderOperator):
        return f"higher_order::{target._name}"
    if isinstance(target, torch._ops.OpOverloadPacket) or not callable(target):
        return None
    module = getattr(target, "__module__", None)
    if module in ("_operator", "builtins", "math", "torch"):
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


def has_operator(name: str) -> bool:
    """Whether there is an operator `namespace::name`, of any overload."""
    return bool(torch._C._jit_get_schemas_for_operator(name))


def overloads(name: str) -> dict[str, torch._ops.OpOverload]:
    """The overloads of an operator, by their qualified names; empty where this torch has no such operator."""
    namespace, _, base = name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), base, None)
    if not isinstance(packet, torch._ops.OpOverloadPacket):
        return {}
    found = [getattr(packet, each) for each in packet.overloads()]
    return {each.name(): each for each in found}


def exporter_translations() -> list[Any]:
    """The translations that are part of torch.onnx itself, in addition to onnxscript's."""
    from torch.onnx._internal.exporter._torchlib._torchlib_registry import get_torchlib_ops

    return list(get_torchlib_ops())


def decomposition_table() -> dict[Any, Callable[..., Any]]:
    """torch's decompositions: those that torch.export uses, then every other one that is registered now."""
    return _decomposition_table(len(torch._decomp.decomposition_table))


@functools.lru_cache(maxsize=1)
def _decomposition_table(registered: int) -> dict[Any, Callable[..., Any]]:
    table = dict(torch._decomp.decomposition_table)
    table.update(torch.export.default_decompositions().items())
    return {target: function for target, function in table.items() if isinstance(target, torch._ops.OpOverload)}


_PACKAGES = frozenset({"aten", "quantized_decomposed", "torchaudio", "torchvision", "transformers", "torchao"})


def composite_kernel(target: torch._ops.OpOverload) -> Callable[..., Any] | None:
    """An operator's kernel that is made of other operators and hides them from autograd; None where it has none.

    Of PyTorch's own operators and of its libraries': what a user registers in one piece stays in one piece. An operator
    that writes to its arguments has none here.
    """
    if target.namespace not in _PACKAGES or target._schema.is_mutable:
        return None
    if not torch._C._dispatch_has_kernel_for_dispatch_key(target.name(), "CompositeExplicitAutograd"):
        return None

    def call(*args: Any, **kwargs: Any) -> Any:
        # A mode of torch functions, such as make_fx has, would send the call back to the operator.
        with torch._C.DisableTorchFunction():
            return target._op_dk(torch._C.DispatchKey.CompositeExplicitAutograd, *args, **kwargs)

    return call


def is_made_of_others(target: torch._ops.OpOverload) -> bool:
    """Whether an operator's kernel consists of calls of other operators, so that it can be decomposed."""
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    return has_kernel(target.name(), "CompositeImplicitAutograd") or composite_kernel(target) is not None


def runs_on_cpu(target: torch._ops.OpOverload) -> bool:
    """Whether there is a kernel of an operator for dense tensors on the CPU, of its own or one for all devices."""
    keys = ("CPU", "CompositeImplicitAutograd", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(target.name(), key) for key in keys)


def runs_on_cuda_only(target: torch._ops.OpOverload) -> bool:
    """Whether the only kernel of an operator for dense tensors is one for CUDA devices."""
    return not runs_on_cpu(target) and torch._C._dispatch_has_kernel_for_dispatch_key(target.name(), "CUDA")


def all_operators(namespaces: Sequence[str]) -> list[str]:
    """The qualified names of all overloads in some namespaces, without the suffix of the default one."""
    names = (name.removesuffix(".default") for name in torch._C._dispatch_get_all_op_names())
    return [name for name in names if name.partition("::")[0] in namespaces]


def is_importable(module: str) -> bool:
    """Imports a module that registers operators; False where it is not installed, or not for this torch."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)  # what a package has to say of torch's release or of a GPU, nobody asked for here
    try:
        importlib.import_module(module)
    except (ImportError, OSError, RuntimeError):
        return False
    finally:
        logging.disable(disabled)
    return True


def computation_dtype(arguments: Sequence[Any]) -> torch.dtype | None:
    """The dtype in which torch computes a pointwise operator of these tensors and numbers; None where torch fails."""
    from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

    try:
        return elementwise_dtypes(*arguments, type_promotion_kind=ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT)[1]
    except (RuntimeError, ValueError, TypeError):
        return None


def forget_operator(namespace: str, name: str) -> None:
    """Removes an operator that is no longer defined from `torch.ops` and from its list of names.

    torch iterates over that list whenever it decomposes a graph, and raises at a name without an operator.
    """
    known = getattr(torch.ops, namespace)
    vars(known).pop(name, None)
    if name in known._dir:
        known._dir.remove(name)


def forget_dispatch(op: torch._ops.OpOverload) -> None:
    """Clears an operator's dispatch cache, which may hold kernels from before the last one was registered."""
    op._dispatch_cache.clear()


def library_path() -> str:
    """The path of the libtorch that is loaded."""
    names = {"darwin": "libtorch_cpu.dylib", "win32": "torch_cpu.dll"}
    return os.path.join(os.path.dirname(torch.__file__), "lib", names.get(sys.platform, "libtorch_cpu.so"))


@dataclasses.dataclass(frozen=True)
class Declared:
    """One argument or result of an operator's schema.

    Attributes:
        name: Its name; results mostly have none.
        type: As schemas write it, without aliasing and without a list's length: "Tensor?", "SymInt[]", "Scalar".
        length: The declared length of a list (`int[2] stride`), to which a single number is expanded.
        has_default: Whether it has a default value.
        default: The default value.
    """

    name: str
    type: str
    length: int | None = None
    has_default: bool = False
    default: Any = None


def declared(target: torch._ops.OpOverload) -> tuple[list[Declared], list[Declared]]:
    """The arguments and the results of an operator, as its schema declares them."""
    schema = target._schema
    arguments = []
    for each in schema.arguments:
        type_ = _type_text(each.real_type)
        default = setting(type_, each.default_value)
        arguments.append(Declared(each.name, type_, each.N, each.has_default_value(), default))
    return arguments, [Declared(each.name, _type_text(each.real_type)) for each in schema.returns]


def setting(type_: str, value: Any) -> Any:
    """The dtype, layout or memory format of a number, as schemas give defaults; any other value unchanged."""
    names = _SETTINGS.get(type_.rstrip("?"), ())
    return getattr(torch, names[value]) if type(value) is int and 0 <= value < len(names) else value


# By the numbers of torch's own enumerations (ScalarType, Layout, MemoryFormat), which only grow at their ends.
_SETTINGS = {
    "ScalarType": (
        *("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex32", "complex64"),
        *("complex128", "bool", "qint8", "quint8", "qint32", "bfloat16"),
    ),
    "Layout": ("strided", "sparse_coo", "sparse_csr", "_mkldnn"),
    "MemoryFormat": ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d"),
}


_TYPE_NAMES = {
    "BoolType": "bool",
    "DeviceObjType": "Device",
    "FloatType": "float",
    "GeneratorType": "Generator",
    "IntType": "int",
    "LayoutType": "Layout",
    "MemoryFormatType": "MemoryFormat",
    "NumberType": "Scalar",
    "ScalarTypeType": "ScalarType",
    "StringType": "str",
    "SymBoolType": "SymBool",
    "SymFloatType": "SymFloat",
    "SymIntType": "SymInt",
    "TensorType": "Tensor",
}


def _type_text(declared_type: Any) -> str:
    kind = declared_type.kind()
    if kind == "OptionalType":
        return f"{_type_text(declared_type.getElementType())}?"
    if kind == "ListType":
        return f"{_type_text(declared_type.getElementType())}[]"
    return _TYPE_NAMES.get(kind) or "".join(str(declared_type).split())
