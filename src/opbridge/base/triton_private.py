"""Private interfaces of Triton: its kernels and their decorators, its compiler without a device, its launches.

Nothing here imports triton before a kernel of it is at hand.

Checked on triton 3.8.0 and 3.9.0.
"""

from __future__ import annotations

import contextlib
import functools
import re
import sys
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opbridge.base.attributes import replacing

__all__ = [
    "Compiled",
    "Parameter",
    "autotuned",
    "base_kernel",
    "builtin_name",
    "compile_for",
    "constant_text",
    "has_driver",
    "has_launches",
    "heuristics",
    "intercepting_launches",
    "is_autotuner",
    "is_constexpr",
    "is_heuristics",
    "is_kernel",
    "is_loaded",
    "is_module_of_triton",
    "is_unsupported_argument",
    "launching_again",
    "parameters",
    "ptx_parameters",
    "release",
    "scope",
    "source",
    "unwrapped",
]


def is_loaded() -> bool:
    """Whether this process has triton loaded, without which nothing launches a kernel of it."""
    return "triton.runtime.jit" in sys.modules


def release() -> str:
    """The release of triton."""
    import triton

    return str(triton.__version__)


def is_kernel(value: object) -> bool:
    """Whether a value is a function with @triton.jit."""
    return is_loaded() and isinstance(value, _jit().JITFunction)


def is_autotuner(value: object) -> bool:
    """Whether a value is a kernel with @triton.autotune."""
    return isinstance(value, sys.modules["triton.runtime.autotuner"].Autotuner)


def is_heuristics(value: object) -> bool:
    """Whether a value is a kernel with @triton.heuristics."""
    return isinstance(value, sys.modules["triton.runtime.autotuner"].Heuristics)


def base_kernel(launched: Any) -> Any:
    """The function with @triton.jit inside of other decorators; what has none is returned as it is."""
    while not is_kernel(launched) and hasattr(launched, "fn"):
        launched = launched.fn
    return launched


def has_driver() -> bool:
    """Whether there is a driver that triton launches kernels with."""
    from triton.runtime.driver import driver

    try:
        return bool(driver.active.get_current_target())
    except Exception:  # a missing driver is told by errors of several types
        return False


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel.

    Attributes:
        name: Its name.
        is_constexpr: Whether it is a `tl.constexpr`.
        annotation: The type that its annotation gives, in the compiler's words ("i64", "*fp32"); "" where there is
            none.
        is_specialized: Whether the compiler may be told that a number is 1 or a multiple of 16.
        is_aligned: Whether it may be told the alignment of a pointer, or that a number is a multiple of 16.
    """

    name: str
    is_constexpr: bool
    annotation: str
    is_specialized: bool
    is_aligned: bool


def parameters(kernel: Any) -> list[Parameter]:
    """The parameters of a kernel, in order."""
    return [
        Parameter(
            each.name,
            bool(each.is_constexpr),
            str(each.annotation_type),
            not each.do_not_specialize,
            not each.do_not_specialize_on_alignment,
        )
        for each in kernel.params
    ]


def heuristics(decorated: Any, named: Mapping[str, Any]) -> dict[str, Any]:
    """What a kernel with @triton.heuristics computes of its arguments."""
    found = dict(named)
    for name, compute in decorated.values.items():
        found[name] = compute(found)
    return {name: found[name] for name in decorated.values}


def autotuned(decorated: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], Any]:
    """The configurations of a kernel with @triton.autotune for a call, and the one that this process tuned for it.

    Returns:
        The configurations that its own pruning leaves, and the tuned one, or None.
    """
    named = dict(zip(decorated.arg_names, args, strict=False))
    key = [{**named, **kwargs}.get(name) for name in decorated.keys]
    given = {name: value for name, value in {**named, **kwargs}.items() if name in decorated.arg_names}
    key += [str(value.dtype) for value in given.values() if hasattr(value, "dtype")]
    try:
        tuned = decorated.cache.get(tuple(key))
    except TypeError:  # a symbolic size is no key
        tuned = None
    kept = getattr(decorated, "nargs", None)
    decorated.nargs = named
    try:
        return list(decorated.prune_configs(dict(kwargs))), tuned
    finally:
        decorated.nargs = kept


def source(kernel: Any) -> str:
    """The source of a kernel or helper, from its `def`."""
    return str(kernel.src)


def scope(kernel: Any) -> dict[str, Any]:
    """The names that the source of a kernel or helper sees: globals, and those of functions around it."""
    return dict(kernel.get_capture_scope())


def is_constexpr(value: object) -> bool:
    """Whether a value is a `tl.constexpr`."""
    return is_loaded() and isinstance(value, sys.modules["triton.language.core"].constexpr)


def unwrapped(value: Any) -> Any:
    """The value in a `tl.constexpr`; any other value as it is."""
    return value.value if is_constexpr(value) else value


def is_module_of_triton(name: str) -> bool:
    """Whether a module of this name comes with triton."""
    return name == "triton" or name.startswith("triton.")


def is_unsupported_argument(value: object) -> str:
    """What kind of argument a value is that only a launch by triton itself can pass; "" where it is none of them."""
    name = type(value).__name__
    kinds = {
        "TensorDescriptor": "a tensor descriptor",
        "TensorWrapper": "a tensor that triton.reinterpret gave",
    }
    return kinds.get(name, "") if is_module_of_triton(type(value).__module__) else ""


def builtin_name(value: Any) -> str:
    """Where a function, class or type of triton is found: "triton.language.core:dtype"; "" for any other value."""
    function = getattr(value, "fn", value) if is_kernel(value) else value
    module, name = getattr(function, "__module__", "") or "", getattr(function, "__name__", "") or ""
    if isinstance(module, str) and is_module_of_triton(module) and name:
        if getattr(sys.modules.get(module), name, None) is value:
            return f"{module}:{name}"
    return ""


def constant_text(value: Any) -> str | None:
    """Python text for a constant: a number, text, a type such as tl.float16, a tuple of these; None for any other.

    The text needs `triton` and `triton.language`.
    """
    if is_constexpr(value):
        inner = constant_text(value.value)
        return None if inner is None else f"triton.language.constexpr({inner})"
    if value is None or isinstance(value, (bool, int, str)):
        return repr(value)
    if isinstance(value, float):
        return repr(value) if value == value and abs(value) != float("inf") else f'float("{value}")'
    if type(value).__name__ == "dtype" and is_module_of_triton(type(value).__module__):
        return f"triton.language.dtype({value.name!r})"
    if isinstance(value, (tuple, list)):
        items = [constant_text(item) for item in value]
        if None in items:
            return None
        text = ", ".join(str(item) for item in items)
        return f"({text},)" if isinstance(value, tuple) and items else f"[{text}]" if isinstance(value, list) else "()"
    return None


@dataclass(frozen=True)
class Compiled:
    """A kernel compiled for one architecture.

    Attributes:
        name: What the function is called in it.
        ttir: Triton's own form of the kernel.
        ptx: Its PTX.
        cubin: Its machine code.
        threads: How many threads a block has.
        shared: The bytes of shared memory that a block takes.
        obstacle: What a plain launch cannot do that it needs; "" where it needs nothing.
    """

    name: str
    ttir: str
    ptx: str
    cubin: bytes
    threads: int
    shared: int
    obstacle: str


def compile_for(
    kernel: Any,
    architecture: int,
    types: Mapping[str, str],
    constants: Mapping[str, Any],
    multiples: Sequence[str],
    options: Mapping[str, Any],
) -> Compiled:
    """Compiles a kernel; no device and no driver are needed.

    Args:
        kernel: The kernel.
        architecture: The compute capability, such as 90.
        types: The type of each parameter, in order: "*fp32", "i32", or "constexpr".
        constants: The values of the parameters that are constants.
        multiples: The parameters that are multiples of 16.
        options: `num_warps`, `num_stages` and other options of the compiler.

    Raises:
        Exception: What triton raises where the kernel does not compile.
    """
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.compiler import compile as compile_source

    names = list(types)
    attributes = {(names.index(name),): [["tt.divisibility", 16]] for name in multiples}
    signed = ASTSource(kernel, dict(types), dict(constants), attributes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = compile_source(signed, target=GPUTarget("cuda", architecture, 32), options=dict(options))
    told = made.metadata
    return Compiled(
        str(told.name),
        str(made.asm["ttir"]),
        str(made.asm["ptx"]),
        bytes(made.asm["cubin"]),
        int(told.num_warps) * 32,
        int(told.shared),
        _obstacle(told),
    )


def _obstacle(told: Any) -> str:
    """What a kernel needs that a plain launch cannot do."""
    if getattr(told, "num_ctas", 1) != 1:
        return "clusters of blocks (num_ctas)"
    if getattr(told, "launch_cooperative_grid", False):
        return "a cooperative launch"
    if getattr(told, "launch_pdl", False):
        return "a programmatic dependent launch"
    if getattr(told, "global_scratch_size", 0):
        return "scratch memory of the device, for tensor descriptors"
    if getattr(told, "tensordesc_meta", None):
        return "tensor descriptors"
    return ""


@contextlib.contextmanager
def intercepting_launches(
    launched: Callable[[Callable[[], Any], Any, Any, tuple[Any, ...], dict[str, Any]], Any],
) -> Iterator[None]:
    """Within this context, launches of kernels call a function instead.

    Args:
        launched: Called with the original launch, the kernel with its decorators, the grid, and the arguments.
    """
    if not is_loaded():
        yield
        return
    from torch._library.triton import set_wrap_triton_enabled

    autotuner = sys.modules["triton.runtime.autotuner"]
    kinds = (_jit().JITFunction, autotuner.Autotuner, autotuner.Heuristics)

    def replaced(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def run(self: Any, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
            def as_before() -> Any:
                return original(self, *args, grid=grid, warmup=warmup, **kwargs)

            return as_before() if warmup else launched(as_before, self, grid, args, kwargs)

        return run

    with (
        replacing(*((kind, "run", replaced(kind.run)) for kind in kinds)),
        set_wrap_triton_enabled(False),  # wrap_triton gives the kernel itself
    ):
        yield


def has_launches(targets: Iterable[Any]) -> bool:
    """Whether torch's operators for launches, or those of `torch.library.triton_op`, are among the targets of nodes."""
    if not is_loaded():
        return False
    from opbridge.base.torch_private import torch_library

    return any(each in _higher_order() or torch_library.body_of_triton_op(each) is not None for each in targets)


def _higher_order() -> tuple[Any, ...]:
    """torch's operators for launches, where it captures them itself."""
    from torch._higher_order_ops import triton_kernel_wrap

    return triton_kernel_wrap.triton_kernel_wrapper_mutation, triton_kernel_wrap.triton_kernel_wrapper_functional


@contextlib.contextmanager
def launching_again(
    launched: Callable[[Any, Any, dict[str, Any]], None],
) -> Iterator[None]:
    """Within this context, torch's operator for launches calls a function instead.

    Args:
        launched: Called with the kernel, the grid, and the arguments by name.
    """
    from torch._higher_order_ops import triton_kernel_wrap

    def call(
        self: Any,
        kernel_idx: int,
        constant_args_idx: int,
        grid: Any,
        tma_descriptor_metadata: Any,
        kwargs: dict[str, Any],
        *others: Any,
        **more: Any,
    ) -> None:
        table = triton_kernel_wrap.kernel_side_table
        kernel = base_kernel(table.get_kernel(kernel_idx))
        launched(kernel, tuple(grid[0]), {**kwargs, **table.get_constant_args(constant_args_idx)})

    with replacing((triton_kernel_wrap.TritonKernelWrapperMutation, "__call__", call)):
        yield


def _jit() -> types.ModuleType:
    return sys.modules["triton.runtime.jit"]


def ptx_parameters(ptx: str, name: str) -> list[int]:
    """The sizes in bits of the parameters of a function in PTX."""
    found = re.search(rf"\.entry\s+{re.escape(name)}\s*\((.*?)\)", ptx, re.DOTALL)
    if found is None:
        return []
    return [int(bits) for bits in re.findall(r"\.param\s+\.[a-z](\d+)", found[1])]
