"""TensorRT plug-ins called from Python as TensorRT calls them, through fake_tensorrt.cpp."""

from __future__ import annotations

import ctypes
import functools
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from opbridge.kernels.compiler import INCLUDE, find_compiler

__all__ = ["TYPES", "Host", "HostTensor", "Plugin"]

TYPES = {"float32": 0, "float16": 1, "int8": 2, "int32": 3, "bool": 4, "uint8": 5, "bfloat16": 7, "int64": 8}
"""TensorRT's numbers."""

LINEAR, CHW32 = 0, 5
_FLOAT32, _FLOAT64, _INT32, _CHAR, _INT64 = 1, 2, 5, 6, 10

_HERE = Path(__file__).parent


class _Field(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("data", ctypes.c_void_p),
        ("type", ctypes.c_int32),
        ("length", ctypes.c_int32),
    )


class HostTensor(ctypes.Structure):
    """A tensor; `dynamic` has a bit for each axis whose size is not known when an engine is built."""

    _fields_ = (
        ("type", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("dynamic", ctypes.c_int32),
        ("sizes", ctypes.c_int64 * 8),
        ("data", ctypes.c_void_p),
    )

    @staticmethod
    def of(shape: Sequence[int], *, dtype: str = "float32", dynamic: bool = False, data: int = 0) -> HostTensor:
        """A tensor of some sizes, all of which are dynamic, or none."""
        sizes = (ctypes.c_int64 * 8)(*shape)
        return HostTensor(TYPES[dtype], len(shape), (1 << len(shape)) - 1 if dynamic else 0, sizes, data)


@functools.cache
def _library(flags: tuple[str, ...] = ()) -> ctypes.CDLL:
    path = Path(tempfile.mkdtemp(prefix="opbridge-tensorrt-")) / "libfake_tensorrt.so"
    # TENSORRT_INCLUDE: the folders of NVIDIA's own headers, and of CUDA's, to be compiled against in place of ours.
    published = os.environ.get("TENSORRT_INCLUDE", "")
    headers = ["-DPUBLISHED", *(f"-I{each}" for each in published.split(os.pathsep))] if published else [f"-I{INCLUDE}"]
    command = [*find_compiler().command, "-std=c++17", "-O1", "-fPIC", "-shared", *flags, *headers]
    subprocess.run([*command, str(_HERE / "fake_tensorrt.cpp"), "-o", str(path), "-ldl"], check=True)
    library = ctypes.CDLL(str(path))
    for name in ("host_messages", "host_creator", "host_metadata", "host_timing", "host_core"):
        getattr(library, name).restype = ctypes.c_char_p
    library.host_time.restype = ctypes.c_double
    for name in ("host_load", "host_create", "host_deserialized", "host_clone"):
        getattr(library, name).restype = ctypes.c_void_p
    return library


class Host:
    """A library of plug-ins, loaded.

    Attributes:
        creators: By the names of their operators, "mylib::my_add": the address, and the fields with type and length.
    """

    def __init__(self, path: Path, flags: Sequence[str] = ()) -> None:
        self.native = _library(tuple(flags))
        count = ctypes.c_int32()
        found = self.native.host_load(os.fsencode(path), ctypes.byref(count))
        if not found:
            raise OSError(self.messages())
        addresses = ctypes.cast(found, ctypes.POINTER(ctypes.c_void_p))[: count.value]
        self.creators: dict[str, tuple[int, dict[str, tuple[int, int]]]] = {}
        for address in addresses:
            described = self.native.host_creator(ctypes.c_void_p(address)).decode().split(" ")
            domain, name, version, *fields = described
            assert version == "1"
            types = {each.split(":")[0]: (int(each.split(":")[1]), int(each.split(":")[2])) for each in fields}
            self.creators[f"{domain}::{name}"] = address, types

    def messages(self) -> str:
        """What the plug-ins logged since the last time: a number for how severe it is, and the words."""
        text: str = self.native.host_messages().decode()
        self.native.host_clear()
        return text

    def create(self, name: str, fields: Mapping[str, Any] | None = None, *, wide: bool = False) -> Plugin | None:
        """A plug-in, made from fields as TensorRT's parser makes them of a node's attributes; None: it refuses.

        Args:
            name: The operator.
            fields: The attributes.
            wide: Whether numbers are INT64 and FLOAT64 instead of INT32 and FLOAT32.
        """
        kept: list[Any] = []
        made = [_field(each, value, wide, kept) for each, value in (fields or {}).items()]
        address = self.native.host_create(
            ctypes.c_void_p(self.creators[name][0]), (_Field * max(1, len(made)))(*made), len(made), 0
        )
        return Plugin(self, name, address) if address else None


def _field(name: str, value: Any, wide: bool, kept: list[Any]) -> _Field:
    if isinstance(value, str):
        data: Any = ctypes.create_string_buffer(value.encode())
        kind, length = _CHAR, len(data)
    else:
        items = list(value) if isinstance(value, (list, tuple)) else [value]
        is_number = any(isinstance(each, float) for each in items)
        stored = (
            (ctypes.c_double if wide else ctypes.c_float) if is_number else ctypes.c_int64 if wide else ctypes.c_int32
        )
        kind = (_FLOAT64 if wide else _FLOAT32) if is_number else _INT64 if wide else _INT32
        data, length = (stored * max(1, len(items)))(*items), len(items)
    kept.extend((data, name.encode()))
    return _Field(kept[-1], ctypes.addressof(data) if length else None, kind, length)


class Plugin:
    """A plug-in of one node."""

    def __init__(self, host: Host, name: str, address: int) -> None:
        self.host, self.name, self.address = host, name, ctypes.c_void_p(address)
        self._native = host.native

    def __del__(self) -> None:
        if self.address:
            self._native.host_destroy(self.address)

    @property
    def core(self) -> str:
        """Its namespace, name and version, and the kinds of its interfaces."""
        text: str = self._native.host_core(self.address).decode()
        return text

    @property
    def outputs(self) -> int:
        """How many outputs it has."""
        count: int = self._native.host_outputs(self.address)
        return count

    @property
    def metadata(self) -> str:
        """What it says of its attributes."""
        text: str = self._native.host_metadata(self.address).decode()
        assert self._native.host_timing(self.address).decode() == text
        return text

    def clone(self) -> Plugin:
        """Another one like it."""
        return Plugin(self.host, self.name, self._native.host_clone(self.address))

    def deserialized(self) -> Plugin:
        """The plug-in that is made of what an engine keeps of this one, which is gone then."""
        address, self.address = self.address, ctypes.c_void_p(None)
        creator = ctypes.c_void_p(self.host.creators[self.name][0])
        made = self._native.host_deserialized(creator, address)
        assert made, self.host.messages()
        return Plugin(self.host, self.name, made)

    def types(self, inputs: Sequence[str]) -> list[str] | None:
        """The types of the outputs for those of the inputs; None: it refuses."""
        found = (ctypes.c_int32 * self.outputs)()
        given = (ctypes.c_int32 * max(1, len(inputs)))(*(TYPES[each] for each in inputs))
        if self._native.host_types(self.address, given, len(inputs), found, len(found)):
            return None
        names = {number: name for name, number in TYPES.items()}
        return [names[each] for each in found]

    def supports(
        self, position: int, types: Sequence[str], inputs: int, formats: Mapping[int, int] | None = None
    ) -> bool:
        """Whether it supports the type and format of a tensor, given those before it."""
        numbers = (ctypes.c_int32 * len(types))(*(TYPES[each] for each in types))
        layouts = (ctypes.c_int32 * len(types))(*((formats or {}).get(i, LINEAR) for i in range(len(types))))
        return bool(self._native.host_supports(self.address, position, numbers, layouts, inputs, len(types) - inputs))

    def shapes(self, inputs: Sequence[HostTensor]) -> list[tuple[int, ...]] | None:
        """The shapes of the outputs, as expressions that are evaluated for the sizes; None: it refuses.

        `expressions` is then how many there are.
        """
        found, made = (HostTensor * self.outputs)(), ctypes.c_int32()
        failed = self._native.host_shapes(
            self.address, (HostTensor * len(inputs))(*inputs), len(inputs), found, len(found), ctypes.byref(made)
        )
        self.expressions = made.value
        return None if failed else [tuple(each.sizes[: each.rank]) for each in found]

    def run(self, inputs: Sequence[HostTensor], outputs: Sequence[HostTensor], stream: int = 0) -> int:
        """Runs it. 0: it has; 1, 2, 3: attaching, the sizes, or the launch failed."""
        status: int = self._native.host_run(
            self.address,
            (HostTensor * len(inputs))(*inputs),
            len(inputs),
            (HostTensor * len(outputs))(*outputs),
            len(outputs),
            ctypes.c_void_p(stream),
        )
        return status

    def seconds(
        self, inputs: Sequence[HostTensor], outputs: Sequence[HostTensor], stream: int = 0, repeats: int = 1000
    ) -> float:
        """How long the host takes for a run, without waiting for the device; negative: it failed."""
        spent: float = self._native.host_time(
            self.address,
            (HostTensor * len(inputs))(*inputs),
            len(inputs),
            (HostTensor * len(outputs))(*outputs),
            len(outputs),
            ctypes.c_void_p(stream),
            repeats,
        )
        return spent / 1e9

    def enqueue_at_once(self) -> int:
        """A run before the sizes are known."""
        status: int = self._native.host_enqueue(self.address)
        return status
