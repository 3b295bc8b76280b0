"""The kernels and opsets of the installed ONNX Runtime."""

from __future__ import annotations

import bisect
import functools
from collections.abc import Mapping
from typing import NamedTuple

import onnxruntime

from opbridge.onnx.wire import GRAPH, field_header
from opbridge.runtimes.onnxruntime import onnxruntime_private

__all__ = [
    "CASTS",
    "CPU",
    "LOG_NOTHING",
    "Kernel",
    "arguments",
    "cpu_kernels",
    "has_schema",
    "lacks_kernel",
    "newest_opset",
    "opsets_of",
    "schema_versions",
]

CPU = "CPUExecutionProvider"

CASTS = {"tensor(float16)": "tensor(float)"}
"""The types that ONNX Runtime casts by itself on the CPU around a node that has no kernel for them, and to which."""

LOG_NOTHING = 4
"""A session's log_severity_level. Whatever would be logged as an error is also raised."""


class Kernel(NamedTuple):
    """A kernel of ONNX Runtime.

    Attributes:
        since: The first opset whose nodes it runs.
        until: The last opset whose nodes it runs.
        types: By type variable of the operator's schema, the types that it takes, as in "tensor(float)".
    """

    since: int
    until: int
    types: Mapping[str, frozenset[str]]


@functools.cache
def cpu_kernels(domain: str = "") -> Mapping[str, tuple[Kernel, ...]]:
    """The CPU kernels for the operators of one domain.

    The opsets are those of models, not the versions of schemas: a kernel that is registered "from version 16 on" runs
    no node of opset 22 if the operator has a new schema there. An operator without kernels may still run if ONNX
    defines it as a function of other operators (CastLike, Mish).

    Args:
        domain: "" for the standard operators, or for example "com.microsoft".

    Returns:
        The kernels by operator type.
    """
    schemas = schema_versions(domain)
    newest = max((versions[-1] for versions in schemas.values()), default=1)
    kernels: dict[str, list[Kernel]] = {}
    for definition in onnxruntime_private.kernel_definitions(domain, CPU):
        opsets = _opsets(*definition.versions, schemas.get(definition.op_type, []), newest)
        if opsets is not None:
            kernels.setdefault(definition.op_type, []).append(Kernel(*opsets, definition.types))
    return {op_type: tuple(found) for op_type, found in kernels.items()}


def lacks_kernel(op_type: str, opset: int, types: dict[str, str]) -> bool:
    """Whether no CPU kernel takes a standard operator with these types.

    Args:
        op_type: The operator.
        opset: The model's opset.
        types: The types by type variable of the operator's schema, as in "tensor(float)".
    """
    return _lacks_kernel(op_type, opset, tuple(types.items()))


@functools.cache
def _lacks_kernel(op_type: str, opset: int, types: tuple[tuple[str, str], ...]) -> bool:
    return not any(
        all(type_ in kernel.types.get(variable, (type_,)) for variable, type_ in types)
        for kernel in _kernels(op_type, opset)
    )


@functools.cache
def _kernels(op_type: str, opset: int) -> tuple[Kernel, ...]:
    """The CPU kernels that run an operator in models of an opset."""
    return tuple(kernel for kernel in cpu_kernels().get(op_type, ()) if kernel.since <= opset <= kernel.until)


def opsets_of(domain: str, op_type: str, since: int, until: int) -> tuple[int, int] | None:
    """The first and the last opset whose nodes a kernel runs; None where there is none.

    Args:
        domain: The operator's domain.
        op_type: The operator.
        since: The first version of the registration.
        until: The last one, or an open end.
    """
    schemas = schema_versions(domain)
    newest = max((versions[-1] for versions in schemas.values()), default=1)
    return _opsets(since, until, schemas.get(op_type, [since] if domain else []), newest)


def _opsets(since: int, until: int, versions: list[int], newest: int) -> tuple[int, int] | None:
    """The first and the last opset whose nodes a kernel runs; None where there is none.

    A node is matched by the version of its schema. An open end stands for the schema of `since` only.

    Args:
        since: The first version of the registration.
        until: The last one, or `OPEN_END`.
        versions: The versions of the operator's schema, ascending.
        newest: The newest opset of the domain.
    """
    if until == onnxruntime_private.OPEN_END:
        until = since
    covered = versions[bisect.bisect_left(versions, since) : bisect.bisect_right(versions, until)]
    if not covered:
        return None
    later = versions[bisect.bisect_right(versions, until) :]
    return covered[0], later[0] - 1 if later else newest


_all_schema_versions = functools.cache(onnxruntime_private.schema_versions)


def schema_versions(domain: str) -> Mapping[str, list[int]]:
    """The operators of a domain that ONNX Runtime has schemas for, with the versions of the schemas, ascending."""
    return _all_schema_versions().get(domain, {})


_all_schema_arguments = functools.cache(onnxruntime_private.schema_arguments)


def arguments(domain: str) -> Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """The operators of a domain that ONNX Runtime has schemas for, with the names of their inputs and outputs."""
    return _all_schema_arguments().get(domain, {})


def has_schema(domain: str, op_type: str) -> bool:
    """Whether ONNX Runtime itself defines an operator, in any version."""
    return op_type in schema_versions(domain)


@functools.cache
def newest_opset() -> int:
    """The newest opset whose models the installed ONNX Runtime loads.

    Its schemas may include an opset that was still under development when it was released; such models are refused. An
    opset that loads may have operators without kernels, which `cpu_kernels` shows.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = LOG_NOTHING
    opset = max(versions[-1] for versions in schema_versions("").values())
    while opset > 1:
        try:
            onnxruntime.InferenceSession(_identity_model(opset), options, providers=[CPU])
            break
        except onnxruntime_private.ERRORS:
            opset -= 1
    return opset


def _identity_model(opset: int) -> bytes:
    """A model of one Identity node, serialized without the onnx package, which a machine that runs models may lack."""

    def message(field: int, content: bytes) -> bytes:
        return field_header(field, len(content)) + content

    float_type = message(2, message(1, b"\x08\x01"))
    node = message(1, b"x") + message(2, b"y") + message(4, b"Identity")
    graph = message(1, node) + message(2, b"g")
    graph += message(11, message(1, b"x") + float_type) + message(12, message(1, b"y") + float_type)
    return b"\x08\x08" + message(8, b"\x10" + bytes([opset])) + message(GRAPH, graph)
