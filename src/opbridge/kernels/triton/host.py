"""Libraries of Triton kernels on the CPU: their nodes run in Triton's interpreter.

Needs no torch in this process; the interpreter's process does.
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Iterable
from typing import Any

from opbridge.kernels.library import Library
from opbridge.kernels.triton.interpreting import TensorIn, interpret

__all__ = ["NOTE", "run_on_cpu"]

NOTE = (
    "Triton kernels ran in Triton's interpreter on the CPU: this compares their arithmetic and their launches, but "
    "not the compiled code, which needs a CUDA device"
)
"""What there is to say of a session that runs Triton kernels so."""


class _Value(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("kind", ctypes.c_int32),
        ("type", ctypes.c_int32),
        ("is_written", ctypes.c_int32),
        ("rank", ctypes.c_int64),
        ("sizes", ctypes.POINTER(ctypes.c_int64)),
        ("data", ctypes.c_void_p),
        ("integer", ctypes.c_int64),
        ("number", ctypes.c_double),
    )


class _Call(ctypes.Structure):
    _fields_ = (
        ("kernel", ctypes.c_char_p),
        ("source", ctypes.c_char_p),
        ("grid", ctypes.c_int64 * 3),
        ("count", ctypes.c_int64),
        ("values", ctypes.POINTER(_Value)),
    )


_Host = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_Call))


def run_on_cpu(libraries: Iterable[Library]) -> str:
    """Has the Triton kernels of libraries run in the interpreter on the CPU, where triton is installed.

    Returns:
        A note for the user, or "" where none of the libraries has such kernels, or triton is not installed.
    """
    note = ""
    for each in libraries:
        if not hasattr(each.native, "opbridge_triton_host") or not _is_installed():
            continue
        each.native.opbridge_triton_host.argtypes = [_Host]
        each.native.opbridge_triton_host.restype = None
        each.native.opbridge_triton_host(_host)
        note = NOTE
    return note


def _is_installed() -> bool:
    return all(importlib.util.find_spec(name) is not None for name in ("triton", "torch"))


_said = ctypes.create_string_buffer(b"")


def _called(call: Any) -> int | None:
    global _said
    try:
        _run(call.contents)
        return None
    except Exception as error:  # nothing may pass through the library's C++
        _said = ctypes.create_string_buffer(str(error).encode())
        return ctypes.addressof(_said)


def _run(call: _Call) -> None:
    import onnx_ir as ir  # a session needs neither it nor torch; the interpreter does need torch

    memory: list[bytes] = []
    arguments: dict[str, Any] = {}
    values = [call.values[number] for number in range(call.count)]
    blocks: list[tuple[_Value, int]] = []
    for value in values:
        name = value.name.decode()
        if value.kind == 0:
            dtype = ir.DataType(value.type).numpy()
            sizes = tuple(value.sizes[axis] for axis in range(value.rank))
            strides, count = [0] * len(sizes), 1
            for axis in reversed(range(len(sizes))):
                strides[axis], count = count, count * sizes[axis]
            arguments[name] = TensorIn(len(memory), dtype.name, sizes, tuple(strides))
            blocks.append((value, count * dtype.itemsize))
            memory.append(ctypes.string_at(value.data, count * dtype.itemsize) if count else b"")
        else:
            arguments[name] = {1: value.integer, 2: value.number, 3: bool(value.integer)}[value.kind]
    changed = interpret(call.source.decode(), call.kernel.decode(), tuple(call.grid), memory, arguments)
    for number, content in changed.items():
        value, size = blocks[number]
        if value.is_written:
            ctypes.memmove(value.data, content, size)


_host = _Host(_called)
