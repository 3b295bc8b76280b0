"""ONNX Runtime on the CPU as a target: its opsets, and the operators and types that it has kernels for."""

from __future__ import annotations

import functools

from opbridge.onnx import opsets
from opbridge.onnx.wider_types import Kernels
from opbridge.runtimes import onnxruntime as runtime
from opbridge.runtimes.onnxruntime.kernel_table import CASTS, lacks_kernel
from opbridge.runtimes.onnxruntime.onnxruntime_private import ERRORS

__all__ = [
    "CASTS",
    "NAME",
    "default_opset",
    "has_operator",
    "kernels",
    "lacks_kernel",
    "loses_factors",
    "newest_opset",
    "oldest_opset",
    "version",
]

NAME = "onnxruntime"


def version() -> str:
    """The version of the installed onnxruntime."""
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
    """The newest opset in which every operator that had kernels in the opset before still has some.

    A release has the schemas of a new opset before all of its kernels: 1.31 loads models of opset 26, but has kernels
    for RoiAlign up to opset 21 only.
    """
    opset = opsets.WRITTEN_FOR
    while opset < newest_opset() and not _operators_without_kernels(opset, opset + 1):
        opset += 1
    return opset


def _operators_without_kernels(before: int, after: int) -> list[str]:
    """The operators that have kernels in one opset and none in a later one."""
    return [
        name
        for name, kernels in runtime.cpu_kernels().items()
        if any(kernel.since <= before <= kernel.until for kernel in kernels)
        and not any(kernel.since <= after <= kernel.until for kernel in kernels)
    ]


_RECIPROCAL = (
    '<ir_version: 7, opset_import: ["" : 13]> g (float[1] x, float[1] y) => (float[1] z)'
    " { one = Constant <value = float {1}> () same = Identity (y) r = Div (one, x) z = Mul (same, r) }"
)


@functools.cache
def loses_factors() -> bool:
    """Whether the optimiser of the installed release loses a factor of 1 / x that a node without effect gives.

    It is asked with a model of three nodes, as releases from 1.29 on have been seen to refuse it.
    """
    import onnx
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    content = onnx.parser.parse_model(_RECIPROCAL).SerializeToString()
    try:
        onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except ERRORS:
        return True
    return False


def kernels(opset: int) -> Kernels:
    """The CPU kernels for models of an opset."""
    return Kernels(f"{NAME} {version()}", opset, default_opset(), lacks_kernel, CASTS)


def has_operator(domain: str, op_type: str) -> bool:
    """Whether ONNX Runtime has an operator of a domain other than ONNX's (com.microsoft, ai.onnx.ml)."""
    return runtime.has_schema(domain, op_type)
