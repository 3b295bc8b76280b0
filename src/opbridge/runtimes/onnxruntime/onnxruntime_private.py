"""Everything that opbridge takes from the private interface of onnxruntime.

Checked on onnxruntime 1.23.2, 1.31.1 and 1.32.0.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as _native

__all__ = ["ERRORS", "OPEN_END", "KernelDefinition", "cuda_version", "kernel_definitions", "never_free"]
__all__ += ["schema_arguments", "schema_versions"]

ERRORS: tuple[type[Exception], ...] = (
    RuntimeError,
    *(error for error in vars(_native).values() if isinstance(error, type) and issubclass(error, Exception)),
)
"""The exceptions that ONNX Runtime raises; they have no common base class but Exception."""

OPEN_END = 2**31 - 1
"""The last version of a kernel that is registered from a version on."""


class KernelDefinition(NamedTuple):
    """A kernel as it is registered.

    Attributes:
        op_type: The operator.
        versions: The first and the last version of the operator's schema, or `OPEN_END`.
        types: By type variable of the schema, the types that the kernel takes, as in "tensor(float)".
    """

    op_type: str
    versions: tuple[int, int]
    types: Mapping[str, frozenset[str]]


def kernel_definitions(domain: str, provider: str) -> Iterator[KernelDefinition]:
    """The kernels that an execution provider registers for a domain ("" for the standard operators)."""
    for definition in _native.get_all_opkernel_def():
        if definition.domain == domain and definition.provider == provider:
            types = {variable: frozenset(names) for variable, names in definition.type_constraints.items()}
            yield KernelDefinition(definition.op_name, definition.version_range, types)


def schema_versions() -> dict[str, dict[str, list[int]]]:
    """By domain, the operators that ONNX Runtime has schemas for, with the versions of the schemas, ascending."""
    versions: dict[str, dict[str, list[int]]] = {}
    for schema in _native.get_all_operator_schema():
        versions.setdefault(schema.domain, {}).setdefault(schema.name, []).append(schema.since_version)
    return {
        domain: {name: sorted(found) for name, found in operators.items()} for domain, operators in versions.items()
    }


def schema_arguments() -> dict[str, dict[str, tuple[tuple[str, ...], tuple[str, ...]]]]:
    """By domain, the operators that ONNX Runtime has schemas for, with the names of the inputs and of the outputs."""
    newest: dict[tuple[str, str], int] = {}
    arguments: dict[str, dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {}
    for schema in _native.get_all_operator_schema():
        key = (schema.domain, schema.name)
        if schema.since_version > newest.get(key, 0):
            newest[key] = schema.since_version
            inputs, outputs = (tuple(one.name for one in each) for each in (schema.inputs, schema.outputs))
            arguments.setdefault(schema.domain, {})[schema.name] = inputs, outputs
    return arguments


def cuda_version() -> str:
    """The version of CUDA that ONNX Runtime is compiled for, "13.0"; "" for a build without CUDA."""
    try:
        information = importlib.import_module("onnxruntime.capi.build_and_package_info")
    except ImportError:
        return ""
    return str(getattr(information, "cuda_version", "") or "")


def never_free(session: onnxruntime.InferenceSession) -> None:
    """Keeps the part of a session that is C++ until the process ends, its end by the interpreter included."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(session._sess))
