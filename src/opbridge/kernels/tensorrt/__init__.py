"""Kernels as plug-ins of TensorRT, for its plug-in registry (`trtexec --dynamicPlugins`).

The interface that TensorRT calls is declared in `opbridge/adapter/tensorrt_api.h`, so that neither TensorRT nor CUDA's
headers are needed to build a library. It has what other libraries of kernels have too: PyTorch and ONNX Runtime load it
as well.
"""

from __future__ import annotations

import os
from pathlib import Path

from opbridge.errors import KernelError
from opbridge.kernels.build import ADAPTER, build_parts
from opbridge.kernels.compiler import INCLUDE, Settings
from opbridge.kernels.copying import copied
from opbridge.kernels.device_sources import device_file, has_device_functions, read_program
from opbridge.kernels.library import Declared, open_library
from opbridge.kernels.shipped import sources

__all__ = ["build", "builtin_sources", "plugins"]

_ADAPTER = Path(__file__).parents[1] / "adapter" / "adapter_tensorrt.cpp"


def build(
    *paths: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    settings: Settings | None = None,
) -> Path:
    """Builds kernels into a library of TensorRT plug-ins, one for each operator that has a kernel for CUDA devices.

    Args:
        *paths: C++ files that include <opbridge/kernel.h>; none: the built-in kernels that have a kernel for CUDA
            devices.
        output: Where to put the library; None leaves it in the cache.
        settings: How to build. With `architectures`, the machine that runs the library needs no NVRTC.

    Returns:
        The library.

    Raises:
        BuildError: There is no compiler, or it does not compile a file.
        KernelError: No operator of the files has a kernel for CUDA devices.
        UsageError: There is no such file.
    """
    given = [Path(path) for path in paths] or builtin_sources()
    settings = settings or Settings()
    made = build_parts(given, (*ADAPTER, _ADAPTER), settings=settings)
    if not settings.sanitize and not plugins(made):
        raise KernelError(
            f"{', '.join(map(str, given))} has no kernel for CUDA devices, which a TensorRT plug-in needs. Register "
            "one with OPBRIDGE_ELEMENT_KERNEL or OPBRIDGE_CPU_CUDA_KERNEL."
        )
    return made if output is None else copied(made, Path(output))


def builtin_sources() -> list[Path]:
    """The files of the built-in kernels that have a kernel for CUDA devices."""
    return [
        each
        for each in sources("_builtin")
        if device_file(each) != each or has_device_functions(read_program(each, str(each), INCLUDE, ()))
    ]


def plugins(library: str | os.PathLike[str]) -> list[Declared]:
    """The operators of a library that are plug-ins: those with a kernel for CUDA devices.

    Raises:
        KernelError: The library cannot be loaded.
    """
    return [each for each in open_library(library).operators if each.cuda]
