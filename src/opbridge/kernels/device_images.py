"""A library's functions for CUDA devices, compiled before they are used: `opbridge build --arch`."""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path

from opbridge.errors import BuildError
from opbridge.kernels.device_sources import DeviceImage, compute_capability

__all__ = ["compile_program", "compiled_images"]


def compiled_images(library: Path, programs: int, architectures: Sequence[str]) -> list[DeviceImage]:
    """Compiles all of a library's functions for CUDA devices.

    Args:
        library: The library, with the sources of its functions.
        programs: How many there are.
        architectures: `sm_80`, `sm_90`: machine code for these, and PTX of the newest one for devices that come later.

    Raises:
        BuildError: NVRTC was not found, or a source does not compile; the message is the compiler's.
    """
    newest = max(architectures, key=compute_capability)
    wanted = [*dict.fromkeys(architectures), f"compute_{newest.removeprefix('sm_').rstrip('af')}"]
    return [
        DeviceImage(program, architecture, compile_program(library, program, architecture))
        for program in range(programs)
        for architecture in wanted
    ]


def _package_folders() -> list[str]:
    """The folders of NVIDIA's Python packages, one of which NVRTC is."""
    found = importlib.util.find_spec("nvidia")
    return list(found.submodule_search_locations or ()) if found is not None else []


def compile_program(library: Path, program: int, architecture: str) -> bytes:
    """Compiles the functions of one source of a library, with NVRTC; no driver is needed.

    Args:
        library: The library.
        program: The source's number among those with functions for CUDA devices.
        architecture: `sm_90`, or `compute_90` for PTX.

    Returns:
        The code, in the form in which a library holds it.

    Raises:
        BuildError: As `compiled_images`, or the library has no such source.
    """
    native = ctypes.CDLL(str(library))
    if not hasattr(native, "opbridge_compile_device"):
        raise BuildError(f"{library} has no functions for CUDA devices. Register one with OPBRIDGE_ELEMENT_KERNEL.")
    for folder in _package_folders():
        native.opbridge_look_near(os.fsencode(folder))
    data, size = ctypes.c_char_p(), ctypes.c_size_t()
    compile_device = native.opbridge_compile_device
    compile_device.argtypes = [ctypes.c_int32, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p]
    failure = compile_device(program, architecture.encode(), ctypes.byref(data), ctypes.byref(size))
    if failure == 0:
        return ctypes.string_at(data, size.value)
    if failure == 2:
        raise BuildError(f"{library} has no source {program} with functions for CUDA devices.")
    native.opbridge_last_error.restype = ctypes.c_char_p
    raise BuildError(native.opbridge_last_error().decode(errors="replace"))
