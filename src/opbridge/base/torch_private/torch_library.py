"""What opbridge takes from torch's insides about operators that libraries define.

Checked on torch 2.13.0 and 2.15.0.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch._C import DispatchKey
from torch._library import simple_registry
from torch._library.custom_ops import OPDEFS
from torch._library.utils import Kernel, can_generate_trivial_fake_impl
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from opbridge.base.locks import process_state
from opbridge.base.torch_private.torch_operators import operator_object
from opbridge.base.torch_private.torch_overrides import in_place_of_parts

__all__ = [
    "calls_seen",
    "example_size",
    "foreign_operators",
    "is_composed",
    "is_foreign",
    "is_shared",
    "lacks_shapes",
    "operators_named",
    "unwatched",
    "with_shapes",
    "writes",
]

# Of torch, and of the packages that come with it; opbridge's own operators have shapes.
_KNOWN_NAMES = """
_c10d_functional _c10d_functional_autograd _dtensor _inductor_test _native _native_aot _operator _quantized
_test aten c10d c10d_functional coor cuda debug_mode_ops debugprims export flex_gemm flex_lib fsdp
higher_order image inductor inductor_prims mempool mkl mkldnn mkldnn_prepacked onednn onnx onnx_symbolic
opbridge opbridge_ops prepacked prim prims profiler quantization quantized quantized_decomposed rngprims
sparse static_runtime streams symm_mem torch torchvision xnnpack
"""
_KNOWN_NAMESPACES = frozenset(_KNOWN_NAMES.split())

_COMPOSED = DispatchKey.CompositeImplicitAutograd
_known: tuple[Any, tuple[str, ...]] | None = None


def foreign_operators() -> tuple[str, ...]:
    """The operators of other libraries that are loaded, by their full names.

    Listing torch's registry takes some milliseconds, so it is done anew only where something has been loaded since.
    """
    global _known
    state = (
        len(sys.modules),
        len(torch.ops.loaded_libraries),
        frozenset(torch.library._defs),
        tuple((name, len(vars(space))) for name, space in list(vars(torch.ops).items()) if hasattr(space, "__dict__")),
    )
    known = _known
    if known is None or known[0] != state:
        names = torch._C._dispatch_get_all_op_names()
        found = tuple(name for name in names if name.partition("::")[0] not in _KNOWN_NAMESPACES)
        _known = known = (state, found)
    return known[1]


def is_foreign(op: object) -> bool:
    """Whether this is an operator of another library than torch."""
    return isinstance(op, torch._ops.OpOverload) and op.namespace not in _KNOWN_NAMESPACES


def lacks_shapes(op: torch._ops.OpOverload) -> bool:
    """Whether nothing but the operator itself, run on data, tells the shapes of what it returns.

    An operator that is composed of others may tell them too, if what it is composed of is torch's (`is_composed`).
    """
    name = op.name()
    if name in OPDEFS:  # which have a function of shapes that raises where the user gave none
        return OPDEFS[name]._abstract_fn is None
    entry = simple_registry.singleton.get(name)
    if entry is not None and entry.fake_impl.kernel is not None:
        return False
    # torch makes one by itself for an operator that returns nothing and only writes.
    return not (DispatchKey.Meta in op.py_kernels or _has(name, "Meta") or can_generate_trivial_fake_impl(op))


def is_composed(op: torch._ops.OpOverload) -> bool:
    """Whether an operator is registered as one that consists of calls of others."""
    return _COMPOSED in op.py_kernels or _has(op.name(), "CompositeImplicitAutograd")


def is_shared(op: torch._ops.OpOverload) -> bool:
    """Whether an operator is registered with one kernel for all devices, which torch runs to learn the shapes."""
    return op.name() not in OPDEFS and _has(op.name(), "CompositeExplicitAutograd")


def _has(name: str, key: str) -> bool:
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, key))


def writes(op: torch._ops.OpOverload) -> bool:
    """Whether an operator's schema says that it writes to an argument."""
    return bool(op._schema.is_mutable)


@contextlib.contextmanager
def with_shapes(functions: Mapping[torch._ops.OpOverload, Callable[..., Any]]) -> Iterator[None]:
    """While it lasts, operators on tensors without data give what these functions return, and stay whole."""
    added: list[tuple[list[Kernel], Kernel]] = []
    with process_state, contextlib.ExitStack() as stack:
        for op, function in functions.items():
            if is_composed(op):
                stack.enter_context(in_place_of_parts(op, function))
            else:
                kernels = simple_registry.singleton.find(op.name()).fake_impl.kernels
                kernel = Kernel(function, "opbridge")
                kernels.append(kernel)
                added.append((kernels, kernel))
        try:
            yield
        finally:
            for kernels, kernel in added:
                kernels.remove(kernel)


Told = Callable[[torch._ops.OpOverload, tuple[Any, ...], dict[str, Any], Callable[[], Any]], Any]


@contextlib.contextmanager
def calls_seen(operators: tuple[torch._ops.OpOverload, ...], call: Told, other: Callable[..., None]) -> Iterator[None]:
    """While it lasts, calls of these operators on real tensors are made by `call`, from TorchScript's functions too.

    Args:
        operators: Those to be seen, composed ones as well.
        call: Gets the operator, its arguments, and a function that runs it on them.
        other: Gets the operator, the arguments and the result of each call of an operator that is composed of no other.
    """
    from torch._dispatch.python import enable_python_dispatcher

    watched = {op for op in operators if not is_composed(op)}

    class Seeing(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if func in watched:
                result = call(func, args, kwargs, functools.partial(func, *args, **kwargs))
            else:
                result = func(*args, **kwargs)
            other(func, args, kwargs, result)
            return result

    with process_state, contextlib.ExitStack() as stack:
        for op in operators:
            if is_composed(op):
                stack.enter_context(in_place_of_parts(op, _seen(op, call)))
        stack.enter_context(Seeing())
        stack.enter_context(enable_python_dispatcher())
        yield


def _seen(op: torch._ops.OpOverload, call: Told) -> Callable[..., Any]:
    own = op.py_kernels.get(_COMPOSED)

    def seen(*args: Any, **kwargs: Any) -> Any:
        def run() -> Any:
            return own(*args, **kwargs) if own is not None else op._op_dk(_COMPOSED, *args, **kwargs)

        return call(op, args, kwargs, run)

    return seen


@contextlib.contextmanager
def unwatched() -> Iterator[None]:
    """While it lasts, calls run as if nothing watched them."""
    with _disable_current_modes(), torch._C._DisablePythonDispatcher():
        yield


def example_size(size: torch.SymInt) -> int | None:
    """What a symbolic size is in the example; None where only the model's values decide it."""
    return int(size.node.hint) if size.node.has_hint() else None


def operators_named(names: tuple[str, ...]) -> tuple[torch._ops.OpOverload, ...]:
    """The operators of these names that are there."""
    found = (operator_object(name) for name in names)
    return tuple(op for op in found if op is not None)
