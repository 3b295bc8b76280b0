"""Private interfaces of torch that replace its behaviour for a time: modes, fake implementations, functions.

Checked on torch 2.13.0, 2.14.1 and 2.15.0.
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, in_kernel_invocation_manager

from opbridge.base.attributes import replacing
from opbridge.base.locks import process_state
from opbridge.base.torch_private import capabilities
from opbridge.base.torch_private.torch_operators import operator_object
from opbridge.base.torch_private.torch_sizes import is_equal_beside_zero, is_of_data

__all__ = [
    "as_while_exporting",
    "as_while_not_exporting",
    "asserting_valid_distributions",
    "making_nested_tensors",
    "memory_format_of",
    "new_dense",
    "new_fake",
    "new_view",
    "observing_value_reads",
    "replacing_composite",
    "replacing_shape_functions",
    "replacing_torch_functions",
    "telling_overlaps_by_strides",
    "without_modes",
]


def without_modes() -> contextlib.AbstractContextManager[Any]:
    """Within this context, new tensors have data, also during a capture."""
    from torch.utils._python_dispatch import _disable_current_modes

    return _disable_current_modes()


@contextlib.contextmanager
def as_while_exporting() -> Iterator[None]:
    """Within this context, `torch.compiler.is_exporting()` is true, as is `is_compiling()`; autocast keeps no casts."""
    compiler: Any = torch.compiler
    caches = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        with replacing((compiler, "_is_compiling_flag", True), (compiler, "_is_exporting_flag", True)):
            yield
    finally:
        torch.set_autocast_cache_enabled(caches)


@contextlib.contextmanager
def as_while_not_exporting() -> Iterator[None]:
    """Within this context, `torch.compiler.is_exporting()` and `is_compiling()` are false."""
    compiler: Any = torch.compiler
    with replacing((compiler, "_is_compiling_flag", False), (compiler, "_is_exporting_flag", False)):
        yield


@contextlib.contextmanager
def telling_overlaps_by_strides() -> Iterator[None]:
    """Within this context, a tensor without a stride of 0 has no elements that share memory, whatever its sizes are.

    Of a tensor that is written to, torch asks whether its sizes are 1 to find out.
    """
    original: Any = torch._debug_has_internal_overlap

    def overlap(x: torch.Tensor) -> int:
        is_dynamic = any(type(each) is torch.SymInt for each in (*x.shape, *x.stride()))
        is_spread = not any(type(stride) is int and stride == 0 for stride in x.stride())
        return _TOO_HARD if is_dynamic and is_spread else original(x)

    with replacing((torch, "_debug_has_internal_overlap", overlap)):
        yield


_TOO_HARD = 2
"""What `torch._debug_has_internal_overlap` returns where it does not find out: `at::MemOverlap::TooHard`."""


@contextlib.contextmanager
def asserting_valid_distributions() -> Iterator[None]:
    """Within this context, torch.distributions asserts that its arguments are valid, where it would ask by an `if`."""
    from torch.distributions import constraints, distribution

    matrices: Any = (
        (constraints._Symmetric, "check", _is_symmetric),
        (constraints._PositiveDefinite, "check", _is_positive_definite),
        (constraints._PositiveSemidefinite, "check", _is_positive_semidefinite),
    )
    if capabilities.asserts_valid_distributions.present:
        with replacing(*matrices):
            yield
        return

    def all_true(valid: torch.Tensor) -> bool:
        torch._assert_async(torch._is_all_true(valid).cpu(), "Expected an argument of a distribution to be valid.")
        return True

    seen: Any = types.ModuleType("torch")  # what the functions of that module find by the name `torch`
    seen.__getattr__ = functools.partial(getattr, torch)
    seen._is_all_true = all_true
    with replacing((distribution, "torch", seen), *matrices):
        yield


# What torch's constraints give, which leave out the second condition by an `if` where the first does not hold.


def _is_symmetric(constraint: Any, value: torch.Tensor) -> torch.Tensor:
    return torch.isclose(value, value.mT, atol=1e-6).all(-2).all(-1)


def _is_positive_definite(constraint: Any, value: torch.Tensor) -> torch.Tensor:
    return _is_symmetric(constraint, value) & torch.linalg.cholesky_ex(value).info.eq(0)


def _is_positive_semidefinite(constraint: Any, value: torch.Tensor) -> torch.Tensor:
    return _is_symmetric(constraint, value) & torch.linalg.eigvalsh(value).ge(0).all(-1)


@contextlib.contextmanager
def making_nested_tensors() -> Iterator[None]:
    """Within this context, the tensor that torch makes for its own use with the first jagged tensor has data."""
    from torch.nested._internal import nested_tensor

    original = nested_tensor._nt_view_dummy

    @functools.wraps(original)
    def dummy() -> torch.Tensor:
        with without_modes():
            return original()

    with replacing((nested_tensor, "_nt_view_dummy", dummy)):
        yield


@contextlib.contextmanager
def observing_value_reads(on_read: Callable[[torch.Tensor], None]) -> Iterator[None]:
    """Within this context, `on_read` gets each tensor whose values Python reads (`tolist`, `item`, `int`, `if`)."""
    from torch.overrides import TorchFunctionMode

    names = ("tolist", "item", "__int__", "__float__", "__bool__", "__index__")
    reads = {getattr(torch.Tensor, name) for name in names}

    class Observing(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func in reads:
                on_read(args[0])
            return func(*args, **(kwargs or {}))

    with Observing():
        yield


@contextlib.contextmanager
def replacing_shape_functions(
    composite: Mapping[str, Callable[..., Any]],
    kernels: Mapping[str, Callable[..., Any]],
    replaced: Mapping[str, Callable[..., Any]],
) -> Iterator[None]:
    """Within this context, these functions give the shapes of operators that are called on fake tensors.

    Args:
        composite: For operators that are CompositeImplicitAutograd, by name.
        kernels: For operators that have kernels of their own and no fake implementation, by name.
        replaced: For operators that have kernels of their own, whatever torch has for them, by name. A function may
            return NotImplemented, to leave a call to torch.
    """
    from torch._subclasses import fake_impls

    table = fake_impls.op_implementations_dict
    kept: list[tuple[Any, Any]] = []
    with process_state, contextlib.ExitStack() as stack:  # The operators' tables are global.
        for name, function in composite.items():
            op = operator_object(name)
            if op is not None:
                stack.enter_context(replacing_composite(op, function))
        for name, function in kernels.items():
            op = operator_object(name)
            if op is not None and op not in table:
                kept.append((op, None))
                table[op] = functools.partial(_fake, function)
        for name, function in replaced.items():
            op = operator_object(name)
            if op is not None:
                kept.append((op, table.get(op)))
                table[op] = functools.partial(_fake_or, function, table.get(op))
        stack.enter_context(_own_results())
        stack.enter_context(_complex_numbers_of_sizes())
        stack.enter_context(_sizes_of_data_from_zero())
        stack.enter_context(_images_of_any_size())
        try:
            yield
        finally:
            for op, original in kept:
                if original is None:
                    table.pop(op, None)
                else:
                    table[op] = original


@contextlib.contextmanager
def _sizes_of_data_from_zero() -> Iterator[None]:
    """Within this context, a size that a fake implementation makes for what data decide may be 0 or 1.

    `create_unbacked_symint`, which torchvision's suppression of boxes and older libraries call, takes it to be 2 or
    more, so that `if len(kept) > 0:` would be no question.
    """
    from torch._library.fake_impl import FakeImplCtx

    original = FakeImplCtx.create_unbacked_symint

    def create(self: FakeImplCtx, *, min: int = 0, max: int | None = None) -> torch.SymInt:
        return self.new_dynamic_size(min=min, max=max)

    FakeImplCtx.create_unbacked_symint = create
    try:
        yield
    finally:
        FakeImplCtx.create_unbacked_symint = original


@contextlib.contextmanager
def _complex_numbers_of_sizes() -> Iterator[None]:
    """Within this context, a size beside a complex tensor stays symbolic (`mean`), where torch makes it a number."""
    import torch._prims_common as common

    original = common.dtype_to_type_ctor

    @functools.wraps(original)
    def constructor(dtype: torch.dtype) -> Callable[[Any], Any]:
        made: Callable[[Any], Any] = original(dtype)
        if not dtype.is_complex:
            return made
        return lambda x: torch.sym_float(x) if isinstance(x, torch.SymInt | torch.SymFloat) else made(x)

    with replacing((common, "dtype_to_type_ctor", constructor)):
        yield


def memory_format_of(x: torch.Tensor) -> torch.memory_format:
    """The memory format that operators give their result for an input."""
    import torch._prims_common as common

    found: torch.memory_format = common.suggest_memory_format(x)
    return found


@contextlib.contextmanager
def _images_of_any_size() -> Iterator[None]:
    """Within this context, an image may get a size that data decide: the operators raise where it is not positive.

    Strides of such sizes are seen to be those of a channels_last tensor, as the result has these too then.
    """
    import torch._meta_registrations as registrations
    import torch._prims_common as common

    original = registrations.upsample_common_check
    suggest = common.suggest_memory_format

    def suggested(x: Any) -> torch.memory_format:
        if x.dim() == 4 and x.layout == torch.strided and any(map(is_of_data, x.shape)):
            _, channels, height, width = x.shape
            expected = (height * width * channels, 1, width * channels, channels)
            if all(map(is_equal_beside_zero, x.stride(), expected)):
                return torch.channels_last
        return suggest(x)

    @functools.wraps(original)
    def check(input_size: Any, output_size: Sequence[Any], num_spatial_dims: int) -> Any:
        for size in (*input_size[2:], *output_size):
            if is_of_data(size):
                torch._check(size > 0)
        return original(input_size, output_size, num_spatial_dims)

    with replacing((registrations, "upsample_common_check", check), (common, "suggest_memory_format", suggested)):
        yield


@contextlib.contextmanager
def _own_results() -> Iterator[None]:
    """Within this context, FakeTensor keeps its results apart from those of before, which have other strides."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with replacing((FakeTensorMode, "cache", _results)):
        yield


_results: dict[Any, Any] = {}


@contextlib.contextmanager
def replacing_composite(op: torch._ops.OpOverload, function: Callable[..., Any]) -> Iterator[None]:
    """Within this context, a function is called instead of the kernel of a composite operator.

    Args:
        op: An operator that is registered as CompositeImplicitAutograd.
        function: Takes the operator's arguments. It may return NotImplemented, to leave a call to torch.
    """
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    kept = op.py_kernels.get(key)

    def called(*args: Any, **kwargs: Any) -> Any:
        found = function(*args, **kwargs)
        if found is not NotImplemented:
            return found
        # torch may have a decomposition in Python, which is not that of its C++ code.
        return kept(*args, **kwargs) if kept is not None else op._op_dk(key, *args, **kwargs)

    op.py_kernels[key] = called
    op._dispatch_cache.clear()
    try:
        yield
    finally:
        if kept is None:
            op.py_kernels.pop(key, None)
        else:
            op.py_kernels[key] = kept
        op._dispatch_cache.clear()


def _fake(function: Callable[..., Any], fake_mode: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
    with fake_mode:
        return function(*args, **kwargs)


def _fake_or(
    function: Callable[..., Any],
    original: Callable[..., Any] | None,
    fake_mode: Any,
    func: Any,
    *args: Any,
    **kwargs: Any,
) -> Any:
    result = function(*args, **kwargs)
    if result is NotImplemented:
        return result if original is None else original(fake_mode, func, *args, **kwargs)
    return result


def new_fake(
    like: Any,
    shape: Sequence[Any],
    dtype: torch.dtype | None = None,
    memory_format: Any = torch.contiguous_format,
    strides: Sequence[Any] | None = None,
) -> torch.Tensor:
    """A new fake tensor on the device of another one; fast, as no operator is dispatched on fake tensors.

    Args:
        like: A fake tensor.
        shape: Its shape.
        dtype: Its dtype; that of the other one by default.
        memory_format: The order of its strides, where it is dense.
        strides: Its strides; None: it is dense.
    """
    mode = like.fake_mode
    options: dict[str, Any] = {"dtype": dtype or like.dtype, "device": "meta"}
    with in_kernel_invocation_manager(mode):
        if strides is None:
            made = torch.empty(shape, memory_format=memory_format, **options)
        else:
            made = torch.empty_strided(shape, strides, **options)
    return FakeTensor(mode, made, like.fake_device)


def new_dense(like: torch.Tensor, shape: Sequence[Any], memory_format: torch.memory_format) -> torch.Tensor:
    """What `like.new_empty(shape)` gives in a memory format; about the sizes of a fake tensor, nothing is asked."""
    if isinstance(like, FakeTensor):
        return new_fake(like, shape, memory_format=memory_format)
    return like.new_empty(shape).contiguous(memory_format=memory_format)


def new_view(of: Any, shape: Sequence[Any], strides: Sequence[Any], offset: Any) -> torch.Tensor:
    """A fake tensor that shares the memory of another one; fast, as no operator is dispatched on fake tensors.

    Args:
        of: A fake tensor.
        shape: The shape of the view.
        strides: Its strides.
        offset: Where in the memory it begins.
    """
    if of.requires_grad or not isinstance(of, FakeTensor):
        return torch.as_strided(of, shape, strides, offset)
    mode = of.fake_mode
    with in_kernel_invocation_manager(mode):
        made = torch.as_strided(of, shape, strides, offset)
    return FakeTensor(mode, made, of.fake_device)


@contextlib.contextmanager
def replacing_torch_functions(functions: Mapping[Callable[..., Any], Callable[..., Any]]) -> Iterator[None]:
    """Within this context, some of torch's Python functions are replaced by others."""
    from torch.overrides import TorchFunctionMode

    class Replacing(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return functions.get(func, func)(*args, **(kwargs or {}))

    with Replacing():
        yield
