"""ONNX Runtime on the CPU: the opsets that it runs, and the operators and types that it has no kernel for."""

from __future__ import annotations

import functools

from opbridge.onnx import opsets
from opbridge.runtimes import onnxruntime as runtime

__all__ = ["NAME", "default_opset", "knows", "lacks", "newest_opset", "oldest_opset", "version"]

NAME = "onnxruntime"


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


@functools.cache
def default_opset() -> int:
    """The newest opset that the installed release runs well: none of its operators has lost its kernels.

    A release has schemas of newer opsets before it has all their kernels; 1.31 loads opset 26, and runs RoiAlign up to
    21 only.
    """
    opset = opsets.WRITTEN_FOR
    while opset < newest_opset() and not _lost(opset, opset + 1):
        opset += 1
    return opset


def _lost(before: int, after: int) -> list[str]:
    """The operators of an opset that have kernels there and none in a later one."""
    return [
        name
        for name, kernels in runtime.cpu_kernels().items()
        if any(kernel.since <= before <= kernel.until for kernel in kernels)
        and not any(kernel.since <= after <= kernel.until for kernel in kernels)
    ]


@functools.cache
def _kernels(op_type: str, opset: int) -> tuple[runtime.Kernel, ...]:
    return tuple(kernel for kernel in runtime.cpu_kernels().get(op_type, ()) if kernel.since <= opset <= kernel.until)


def knows(domain: str, op_type: str) -> bool:
    """Whether an operator of a domain other than ONNX's is one of ONNX Runtime's own (com.microsoft, ai.onnx.ml)."""
    return runtime.has_schema(domain, op_type)


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
