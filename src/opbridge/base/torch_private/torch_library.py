"""Private interfaces of torch about operators of third-party libraries: their kernels and fake implementations.

Checked on torch 2.13.0, 2.14.1 and 2.15.0.
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
from opbridge.base.torch_private.torch_overrides import replacing_composite

__all__ = [
    "body_of_triton_op",
    "existing_operators",
    "intercepting_calls",
    "is_composite_explicit",
    "is_composite_implicit",
    "is_mutable",
    "is_third_party",
    "lacks_fake_implementation",
    "size_hint",
    "third_party_operators",
    "with_fake_implementations",
    "without_interception",
    "written_results",
]

# Namespaces of torch and of the packages that come with it. opbridge's own operators have fake implementations.
_KNOWN_NAMES = """
_c10d_functional _c10d_functional_autograd _dtensor _inductor_test _native _native_aot _operator _quantized
_test aten c10d c10d_functional coor cuda debug_mode_ops debugprims export flex_gemm flex_lib fsdp
higher_order image inductor inductor_prims mempool mkl mkldnn mkldnn_prepacked onednn onnx onnx_symbolic
opbridge opbridge_ops prepacked prim prims profiler quantization quantized quantized_decomposed rngprims
sparse static_runtime streams symm_mem torch torchvision xnnpack
"""
_KNOWN_NAMESPACES = frozenset(_KNOWN_NAMES.split())

_COMPOSITE = DispatchKey.CompositeImplicitAutograd
_cached: tuple[Any, tuple[str, ...]] | None = None


def third_party_operators() -> tuple[str, ...]:
    """The operators of third-party libraries that are loaded, by their qualified names.

    Listing torch's registry takes some milliseconds, so it is repeated only where something was loaded since.
    """
    global _cached
    state = (
        len(sys.modules),
        len(torch.ops.loaded_libraries),
        frozenset(torch.library._defs),
        tuple((name, len(vars(space))) for name, space in list(vars(torch.ops).items()) if hasattr(space, "__dict__")),
    )
    cached = _cached
    if cached is None or cached[0] != state:
        names = torch._C._dispatch_get_all_op_names()
        found = tuple(name for name in names if name.partition("::")[0] not in _KNOWN_NAMESPACES)
        _cached = cached = (state, found)
    return cached[1]


def is_third_party(op: object) -> bool:
    """Whether this is an operator of a third-party library."""
    return isinstance(op, torch._ops.OpOverload) and op.namespace not in _KNOWN_NAMESPACES


def lacks_fake_implementation(op: torch._ops.OpOverload) -> bool:
    """Whether an operator has no fake (meta) implementation: only a run on data gives the shapes of its results.

    A composite operator may still run on fake tensors, if it calls operators of torch's (`is_composite_implicit`).
    """
    name = op.name()
    if name in OPDEFS:  # These always have a fake implementation, which raises where the user gave none.
        return OPDEFS[name]._abstract_fn is None
    entry = simple_registry.singleton.get(name)
    if entry is not None and entry.fake_impl.kernel is not None:
        return False
    # torch generates one for an operator that returns nothing and only writes to its arguments.
    return not (DispatchKey.Meta in op.py_kernels or _has(name, "Meta") or can_generate_trivial_fake_impl(op))


def is_composite_implicit(op: torch._ops.OpOverload) -> bool:
    """Whether an operator is registered as CompositeImplicitAutograd: it consists of calls of other operators."""
    return _COMPOSITE in op.py_kernels or _has(op.name(), "CompositeImplicitAutograd")


def is_composite_explicit(op: torch._ops.OpOverload) -> bool:
    """Whether an operator is registered as CompositeExplicitAutograd: torch runs its kernel on fake tensors too."""
    return op.name() not in OPDEFS and _has(op.name(), "CompositeExplicitAutograd")


def _has(name: str, key: str) -> bool:
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, key))


def body_of_triton_op(op: object) -> Callable[..., Any] | None:
    """The function of an operator that `torch.library.triton_op` made; None for any other operator."""
    from torch._library.triton import triton_ops_to_kernels

    name = getattr(getattr(op, "_schema", None), "name", None)
    return OPDEFS[name]._abstract_fn if name in triton_ops_to_kernels and name in OPDEFS else None


def is_mutable(op: torch._ops.OpOverload) -> bool:
    """Whether an operator's schema says that it writes to an argument."""
    return bool(op._schema.is_mutable)


def written_results(op: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """What an operator returns that returns all arguments that it writes to, and nothing else: these, in its order.

    Args:
        op: The operator.
        args: The positional arguments of a call, by the operator's schema.
        kwargs: Its keyword arguments.

    Returns:
        A tuple for several results, a tensor for one; NotImplemented where it returns anything else, or nothing.
    """
    schema = op._schema
    given = {each.name: value for each, value in zip(schema.arguments, args, strict=False)} | dict(kwargs)
    written = {
        frozenset(each.alias_info.before_set): given.get(each.name)
        for each in schema.arguments
        if each.alias_info is not None and each.alias_info.is_write
    }
    results = []
    for each in schema.returns:
        if each.alias_info is None or frozenset(each.alias_info.before_set) not in written:
            return NotImplemented
        results.append(written[frozenset(each.alias_info.before_set)])
    if len(results) != len(written) or not results:
        return NotImplemented
    return tuple(results) if len(results) > 1 else results[0]


@contextlib.contextmanager
def with_fake_implementations(functions: Mapping[torch._ops.OpOverload, Callable[..., Any]]) -> Iterator[None]:
    """Within this context, these functions are the fake implementations of operators, which are not decomposed."""
    added: list[tuple[list[Kernel], Kernel]] = []
    with process_state, contextlib.ExitStack() as stack:
        for op, function in functions.items():
            if is_composite_implicit(op):
                stack.enter_context(replacing_composite(op, function))
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


CallHandler = Callable[[torch._ops.OpOverload, tuple[Any, ...], dict[str, Any], Callable[[], Any]], Any]


@contextlib.contextmanager
def intercepting_calls(
    operators: tuple[torch._ops.OpOverload, ...], call: CallHandler, other: Callable[..., None]
) -> Iterator[None]:
    """Within this context, `call` makes the calls of these operators on real tensors, also from TorchScript functions.

    Args:
        operators: The operators to intercept; composite ones too.
        call: Gets the operator, its arguments, and a function that runs it on them.
        other: Gets the operator, the arguments and the result of each call that reaches a dispatch mode, which are the
            calls of operators that are not composite.
    """
    from torch._dispatch.python import enable_python_dispatcher

    intercepted = {op for op in operators if not is_composite_implicit(op)}

    class Intercepting(TorchDispatchMode):
        supports_higher_order_operators = True

        @classmethod
        def ignore_compile_internals(cls) -> bool:
            # Else dynamo of torch 2.13 leaves what it meets within this mode uncompiled for the rest of the process,
            # and an eager flex_attention fails from then on.
            return True

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if isinstance(func, torch._ops.HigherOrderOperator):
                return func(*args, **kwargs)  # the operators of its bodies are not intercepted
            if func in intercepted:
                result = call(func, args, kwargs, functools.partial(func, *args, **kwargs))
            else:
                result = func(*args, **kwargs)
            other(func, args, kwargs, result)
            return result

    with process_state, contextlib.ExitStack() as stack:
        for op in operators:
            if is_composite_implicit(op):
                stack.enter_context(replacing_composite(op, _intercepted(op, call)))
        stack.enter_context(Intercepting())
        stack.enter_context(enable_python_dispatcher())
        yield


def _intercepted(op: torch._ops.OpOverload, call: CallHandler) -> Callable[..., Any]:
    own = op.py_kernels.get(_COMPOSITE)

    def intercepted(*args: Any, **kwargs: Any) -> Any:
        def run() -> Any:
            return own(*args, **kwargs) if own is not None else op._op_dk(_COMPOSITE, *args, **kwargs)

        return call(op, args, kwargs, run)

    return intercepted


@contextlib.contextmanager
def without_interception() -> Iterator[None]:
    """Within this context, no dispatch mode sees a call; `intercepting_calls` has no effect."""
    with _disable_current_modes(), torch._C._DisablePythonDispatcher():
        yield


def size_hint(size: torch.SymInt) -> int | None:
    """The value of a symbolic size in the example; None for an unbacked one, which depends on data."""
    return int(size.node.hint) if size.node.has_hint() else None


def existing_operators(names: tuple[str, ...]) -> tuple[torch._ops.OpOverload, ...]:
    """The operators with these names, without those that torch does not have."""
    found = (operator_object(name) for name in names)
    return tuple(op for op in found if op is not None)
