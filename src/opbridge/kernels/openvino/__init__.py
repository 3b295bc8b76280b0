"""Kernels as custom operations of OpenVINO: its source, built with the headers that the installed OpenVINO has.

The library is of one release of OpenVINO, so that no wheel has it: it is built when it is first wanted, in some twenty
seconds, and kept in the cache.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from opbridge.errors import BuildError, KernelError
from opbridge.kernels.build import ADAPTER, build_parts
from opbridge.kernels.compiler import Settings
from opbridge.kernels.library import open_library

__all__ = ["build", "extension", "register"]

_HERE = Path(__file__).parent
_SOURCES = (_HERE / "extension.cpp", _HERE / "node.cpp")
_LIBRARIES = ("libopenvino", "libopenvino_onnx_frontend")


def build(*paths: str | os.PathLike[str], output: str | os.PathLike[str] | None = None, debug: bool = False) -> Path:
    """Builds kernels into an extension of the installed OpenVINO, which `ov::Core::add_extension` takes.

    Args:
        *paths: C++ files that include <opbridge/kernel.h>; none: an extension that others are registered with.
        output: Where to put the library; None leaves it in the cache.
        debug: As for `opbridge.build`.

    Raises:
        BuildError: OpenVINO or its headers are not there, or a file does not compile.
    """
    package = _package()
    found = [next(iter(sorted((package / "libs").glob(f"{each}.so*"))), None) for each in _LIBRARIES]
    include = package / "include"
    if not (include / "openvino" / "core" / "extension.hpp").exists() or None in found:
        raise BuildError(
            f"The OpenVINO in {package} has no headers or libraries, which are needed to build kernels. Install "
            "its wheel for Linux: pip install openvino."
        )
    names = [f"-l:{each.name}" for each in found if each is not None]
    settings = Settings(debug, (), (f"-isystem{include}", f"-L{package / 'libs'}", *names))
    return build_parts([*paths, *_SOURCES], ADAPTER[:1], output=output, settings=settings)


def extension() -> Path:
    """The extension without kernels, for `register`.

    Raises:
        BuildError: As for `build`.
    """
    return build()


def register(built: str | os.PathLike[str], libraries: Iterable[str | os.PathLike[str]]) -> None:
    """Registers libraries of kernels with an extension, for the next time that it is added to OpenVINO.

    OpenVINO is loaded in the process.

    Raises:
        KernelError: A library was built with the header of another opbridge.
    """
    native = ctypes.CDLL(os.fspath(built))
    native.opbridge_openvino_layout.restype = ctypes.c_int64
    layout = native.opbridge_openvino_layout()
    shown: list[int] = []
    for each in libraries:
        library = open_library(each).native
        if not hasattr(library, "opbridge_shown"):
            raise KernelError(f"{each} was built with an older version of opbridge. Build it again.")
        library.opbridge_shown.argtypes, library.opbridge_shown.restype = [ctypes.c_int64], ctypes.c_void_p
        address = library.opbridge_shown(layout)
        if not address:
            raise KernelError(f"{each} was built with a different version of opbridge. Build it again.")
        shown.append(address)
    native.opbridge_openvino_with.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    native.opbridge_openvino_with.restype = None
    native.opbridge_openvino_with(_addresses(shown), len(shown))


def _addresses(values: Sequence[int]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(values))(*values)


def _package() -> Path:
    """The folder of the installed package.

    Raises:
        BuildError: There is none.
    """
    found = importlib.util.find_spec("openvino")
    if found is None or not found.submodule_search_locations:
        raise BuildError("OpenVINO is not installed. Install it with: pip install 'opbridge[openvino]'")
    return Path(next(iter(found.submodule_search_locations)))
