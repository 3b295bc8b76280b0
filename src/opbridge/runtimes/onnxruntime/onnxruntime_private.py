"""Everything that opbridge takes from the private interface of onnxruntime.

Checked on onnxruntime 1.23.2, 1.31.1 and 1.32.0.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as _native

from opbridge.errors import BuildError, RunError
from opbridge.kernels.cache import cache_folder, fingerprint
from opbridge.runtimes.cuda_stand_in import libraries

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
    for own_domain, own_provider, op_type, versions, types in _definitions():
        if own_domain == domain and own_provider == provider:
            named = {variable: frozenset(names) for variable, names in types.items()}
            yield KernelDefinition(op_type, (versions[0], versions[1]), named)


_Definition = tuple[str, str, str, Sequence[int], Mapping[str, Sequence[str]]]

_LISTING = """
import json
from onnxruntime.capi import onnxruntime_pybind11_state as native
found = [
    (one.domain, one.provider, one.op_name, list(one.version_range),
     {name: sorted(types) for name, types in one.type_constraints.items()})
    for one in native.get_all_opkernel_def()
]
"""


@functools.cache
def _definitions() -> list[_Definition]:
    """All kernels. Of a build with CUDA they are read in another process, once for the package.

    To list them, ONNX Runtime makes all execution providers that it is built with, and ends the process where the
    libraries of one are missing, as TensorRT's mostly are.

    Raises:
        RunError: They cannot be read.
    """
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        return [
            (one.domain, one.provider, one.op_name, one.version_range, one.type_constraints)
            for one in _native.get_all_opkernel_def()
        ]
    native = Path(_native.__file__)
    stamp = native.stat()
    first = fingerprint([str(native), str(stamp.st_size), str(stamp.st_mtime_ns)])
    kept = cache_folder() / "kernel_lists" / f"{first}.json"
    try:
        found: list[_Definition] = json.loads(kept.read_text())
    except (OSError, ValueError):
        found = _asked()
        with contextlib.suppress(OSError):
            kept.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            written = kept.with_suffix(f".{os.getpid()}")
            written.write_text(json.dumps(found))
            os.replace(written, kept)
    return found


def _asked() -> list[_Definition]:
    """All kernels, as another process says.

    Raises:
        RunError: It ends.
    """
    environment = dict(os.environ)
    if not libraries.problem():
        with contextlib.suppress(BuildError):  # without a compiler, all is there only if TensorRT is installed
            environment = libraries.environment(cuda_version())
    with tempfile.TemporaryDirectory(prefix="opbridge-kernels-") as folder:
        answer = Path(folder) / "kernels.json"
        code = f"{_LISTING}\nopen({str(answer)!r}, 'w').write(json.dumps(found))"
        environment["PYTHONPATH"] = os.pathsep.join(each or os.getcwd() for each in sys.path)
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=False)
        if not answer.exists():
            raise RunError(
                f"The kernels of the installed onnxruntime-gpu cannot be listed (status {done.returncode}): a library "
                "of CUDA or TensorRT is missing. Install g++, with which they are listed without these, or the package "
                "onnxruntime instead of onnxruntime-gpu."
            )
        found: list[_Definition] = json.loads(answer.read_text())
        return found


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
