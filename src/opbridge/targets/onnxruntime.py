"""ONNX Runtime on the CPU: the opsets that it runs, and the operators and types that it has no kernel for."""

from __future__ import annotations

import functools

from opbridge import opsets
from opbridge.runtimes import onnxruntime as runtime

__all__ = ["NAME", "default_opset", "lacks", "newest_opset", "oldest_opset", "version"]

NAME = "onnxruntime"

_WELL = 23
"""The newest opset whose operators ONNX Runtime's graph optimisations were seen to fuse (bench/latency.py)."""


def version() -> str:
    """The installed release."""
    import onnxruntime

    return onnxruntime.__version__


def oldest_opset() -> int:
    """The oldest opset that opbridge builds for."""
    return opsets.OLDEST


def newest_opset() -> int:
    """The newest opset that the installed release runs and the installed onnx package describes."""
    import onnx

    return min(runtime.newest_opset(), onnx.defs.onnx_opset_version())


def default_opset() -> int:
    """The newest opset that the installed release runs well."""
    return min(_WELL, newest_opset())


@functools.cache
def _kernels(op_type: str, opset: int) -> tuple[runtime.Kernel, ...]:
    return tuple(
        kernel for kernel in runtime.cpu_kernels().get(op_type, ()) if kernel.since <= opset <= kernel.until
    )


def lacks(op_type: str, opset: int, types: dict[str, str]) -> bool:
    """Whether no CPU kernel takes a standard operator with these types.

    Args:
        op_type: The operator.
        opset: The model's opset.
        types: By type variable of the operator's schema, the type, as in "tensor(float)".
    """
    return not any(
        all(type_ in kernel.types.get(variable, (type_,)) for variable, type_ in types.items())
        for kernel in _kernels(op_type, opset)
    )
