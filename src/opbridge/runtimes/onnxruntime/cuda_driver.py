"""NVIDIA's driver, as far as it decides whether a session can run on a GPU: its version and its devices."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any

__all__ = ["problem"]

_NO_DEVICE = 100
"""CUDA_ERROR_NO_DEVICE."""

_FINDS_NONE = "this machine's NVIDIA driver finds no GPU. Check it with nvidia-smi, and CUDA_VISIBLE_DEVICES"


def problem(device: int, cuda_version: str) -> str:
    """Why the driver of this machine cannot run code on a device; "" where it can.

    Args:
        device: The number of the device.
        cuda_version: The version of CUDA that the code is compiled for, as "13.0"; "": not known.
    """
    name = os.environ.get("OPBRIDGE_LIBCUDA") or ("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    try:
        driver = ctypes.CDLL(name)
    except OSError:
        return f"this machine has no NVIDIA driver ({name}). Install NVIDIA's driver, or use a machine with a GPU"
    version = ctypes.c_int()
    if not driver.cuDriverGetVersion(ctypes.byref(version)) and cuda_version:
        wanted, supported = int(cuda_version.partition(".")[0]), version.value // 1000
        if supported < wanted:
            return (
                f"this machine's NVIDIA driver supports CUDA up to {supported}.{version.value % 1000 // 10}, and the "
                f"installed onnxruntime-gpu is compiled for CUDA {cuda_version}. Install a newer driver"
            )
    if status := driver.cuInit(0):
        return _FINDS_NONE if status == _NO_DEVICE else _said(driver, status)
    count = ctypes.c_int()
    if status := driver.cuDeviceGetCount(ctypes.byref(count)):
        return _said(driver, status)
    if not count.value:
        return _FINDS_NONE
    if device >= count.value:
        devices = (
            "its only device is cuda:0" if count.value == 1 else f"its devices are cuda:0 to cuda:{count.value - 1}"
        )
        return f"this machine has no device cuda:{device}; {devices}"
    return ""


def _said(driver: Any, status: int) -> str:
    text = ctypes.c_char_p()
    driver.cuGetErrorString(status, ctypes.byref(text))
    words = (text.value or b"unknown error").decode(errors="replace")
    return f"this machine's NVIDIA driver cannot be used: {words} (CUDA error {status}). Check it with nvidia-smi"
