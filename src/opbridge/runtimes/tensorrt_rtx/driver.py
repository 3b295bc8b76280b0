"""Memory of the GPU, through the driver's own library, which is there wherever a GPU works."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np

__all__ = ["Memory", "Stream", "architecture", "copy_from", "copy_to", "use_gpu"]

_MAJOR, _MINOR = 75, 76
"""CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR."""


@functools.cache
def _library() -> Any:
    """The driver's library; None: there is none."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    pointer = ctypes.c_void_p
    library.cuMemAlloc_v2.argtypes = [ctypes.POINTER(ctypes.c_uint64), ctypes.c_size_t]
    library.cuMemFree_v2.argtypes = [ctypes.c_uint64]
    library.cuMemcpyHtoD_v2.argtypes = [ctypes.c_uint64, pointer, ctypes.c_size_t]
    library.cuMemcpyDtoH_v2.argtypes = [pointer, ctypes.c_uint64, ctypes.c_size_t]
    library.cuStreamCreate.argtypes = [ctypes.POINTER(pointer), ctypes.c_uint]
    library.cuStreamSynchronize.argtypes = [pointer]
    library.cuStreamDestroy_v2.argtypes = [pointer]
    library.cuCtxSetCurrent.argtypes = [pointer]
    library.cuDevicePrimaryCtxRetain.argtypes = [ctypes.POINTER(pointer), ctypes.c_int]
    return library


def architecture() -> tuple[str, str]:
    """The architecture of the first GPU, "sm_89", or "" with the reason why there is none."""
    library = _library()
    if library is None:
        return "", "this machine has no NVIDIA driver (libcuda.so.1)"
    count = ctypes.c_int()
    if library.cuInit(0) or library.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
        return "", "the NVIDIA driver finds no GPU"
    numbers = []
    for attribute in (_MAJOR, _MINOR):
        found = ctypes.c_int()
        _check(library.cuDeviceGetAttribute(ctypes.byref(found), attribute, 0), "cuDeviceGetAttribute")
        numbers.append(found.value)
    return f"sm_{numbers[0]}{numbers[1]}", ""


def use_gpu() -> None:
    """Makes the first GPU the one of this thread.

    Raises:
        RuntimeError: The driver refuses.
    """
    library, context = _library(), ctypes.c_void_p()
    _check(library.cuInit(0), "cuInit")
    _check(library.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), "cuDevicePrimaryCtxRetain")
    _check(library.cuCtxSetCurrent(context), "cuCtxSetCurrent")


class Memory:
    """Memory of the GPU, freed with this object.

    Attributes:
        address: Where it is.
    """

    def __init__(self, size: int) -> None:
        found = ctypes.c_uint64()
        _check(_library().cuMemAlloc_v2(ctypes.byref(found), max(size, 1)), "cuMemAlloc")
        self.address, self.size = found.value, max(size, 1)

    def __del__(self) -> None:
        if address := getattr(self, "address", 0):
            _library().cuMemFree_v2(address)


class Stream:
    """A queue of the GPU's work.

    Attributes:
        handle: As TensorRT takes it.
    """

    def __init__(self) -> None:
        found = ctypes.c_void_p()
        _check(_library().cuStreamCreate(ctypes.byref(found), 0), "cuStreamCreate")
        self.handle = found.value or 0

    def wait(self) -> None:
        """Waits for all of it.

        Raises:
            RuntimeError: The work failed.
        """
        _check(_library().cuStreamSynchronize(self.handle), "cuStreamSynchronize")

    def __del__(self) -> None:
        if handle := getattr(self, "handle", 0):
            _library().cuStreamDestroy_v2(handle)


def copy_to(memory: Memory, array: np.ndarray) -> None:
    """Copies a contiguous array to the GPU."""
    if array.nbytes:
        _check(_library().cuMemcpyHtoD_v2(memory.address, array.ctypes.data, array.nbytes), "cuMemcpyHtoD")


def copy_from(memory: Memory, array: np.ndarray) -> None:
    """Copies from the GPU into a contiguous array."""
    if array.nbytes:
        _check(_library().cuMemcpyDtoH_v2(array.ctypes.data, memory.address, array.nbytes), "cuMemcpyDtoH")


def _check(status: int, call: str) -> None:
    if status:
        raise RuntimeError(f"{call} failed with the error {status} of the NVIDIA driver")
