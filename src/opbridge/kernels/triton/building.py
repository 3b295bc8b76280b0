"""Libraries of Triton kernels, made without nvcc or an SDK: machine code for architectures, PTX for later ones."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path

from opbridge.base import triton_private
from opbridge.errors import KernelError
from opbridge.kernels import library
from opbridge.kernels.build import ADAPTER, build_parts
from opbridge.kernels.cache import Cache, fingerprint
from opbridge.kernels.device_sources import DeviceImage, DeviceProgram, compute_capability, registration
from opbridge.kernels.triton import operators
from opbridge.kernels.triton.launches import settings
from opbridge.kernels.triton.library_source import tables
from opbridge.kernels.triton.specialization import DOMAIN, Specialization

__all__ = ["build_library", "library_for", "load_library", "specializations"]

_ADAPTER = Path(__file__).parent.parent / "adapter" / "adapter_triton.cpp"

_NEWEST_OF_PTX = 89
"""Triton's PTX for later architectures has instructions of one architecture alone."""

_OF_PTX = 80


_loaded: dict[str, tuple[str, ...]] = {}
"""The architectures of the libraries that `load_library` has loaded, by operator."""


def specializations(names: Iterable[str]) -> list[Specialization]:
    """The kernels among some operators, which are named as "triton::add_kernel_1f3a9c2e"."""
    found = (operators.known(name) for name in dict.fromkeys(names))
    return [each for each in found if each is not None]


def build_library(kernels: Sequence[Specialization], architectures: Sequence[str] = ()) -> Path:
    """Builds one library of kernels, or takes it from the cache.

    Args:
        kernels: The kernels.
        architectures: The architectures that it has machine code for; those of `settings` where none are given. There
            is PTX for later ones.

    Raises:
        BuildError: There is no C++ compiler.
        KernelError: A kernel does not compile for one of the architectures.
    """
    wanted = tuple(architectures) or settings().architectures
    texts = {
        f"{kernels[0].name}.cpp": tables(kernels),
        "device_code.cpp": registration([_program(each) for each in kernels], _images(kernels, wanted)),
    }
    cache = Cache()
    folder = cache.folder / "triton" / fingerprint([name + text for name, text in texts.items()], [])
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for name, text in texts.items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            beside = path.with_name(f"{name}.{secrets.token_hex(4)}")  # another process may be reading it
            beside.write_text(text)
            os.replace(beside, path)
    return build_parts([folder / name for name in texts], (*ADAPTER, _ADAPTER))


def load_library(made: Specialization) -> None:
    """Has the library of a kernel at hand in this process, for the architectures of now."""
    wanted = settings().architectures
    if library.find(made.operator) is None or _loaded.get(made.operator) != wanted:
        library.remember(library.open_library(build_library([made], wanted)))
        _loaded[made.operator] = wanted


def library_for(names: Iterable[str], architectures: Sequence[str] = ()) -> Path | None:
    """The library with all Triton kernels among some operators; None where there are none."""
    found = specializations(name for name in names if name.startswith(f"{DOMAIN}::"))
    return build_library(found, architectures) if found else None


def _program(made: Specialization) -> DeviceProgram:
    return DeviceProgram(made.kernel.__name__, made.source)


def _images(kernels: Sequence[Specialization], architectures: Sequence[str]) -> list[DeviceImage]:
    portable = [each for each in architectures if compute_capability(each) <= _NEWEST_OF_PTX]
    of_ptx = max(map(compute_capability, portable), default=_OF_PTX)
    images = []
    for number, each in enumerate(kernels):
        images += [_image(number, each, architecture) for architecture in dict.fromkeys(architectures)]
        images.append(_image(number, each, f"compute_{of_ptx}"))
    return images


def _image(program: int, made: Specialization, architecture: str) -> DeviceImage:
    """The code of a kernel, as `DeviceImage::unpacked` of the header reads it.

    Raises:
        KernelError: It does not compile, or takes other parameters than it is launched with.
    """
    is_ptx = architecture.startswith("compute_")
    compiled = made.compiled(architecture)
    expected = [each for each in made.types.values() if each != "constexpr"]
    given = triton_private.ptx_parameters(compiled.ptx, compiled.name)
    scratch = len(given) - len(expected)
    if not 0 <= scratch <= 4 or any(bits != 64 for bits in given[len(expected) :]):
        raise KernelError(
            f"The Triton kernel {made.kernel.__name__}, compiled by Triton {triton_private.release()}, takes "
            f"parameters of {given} bits for {expected}, which opbridge does not know. Install an earlier release of "
            "Triton."
        )
    symbols = {
        made.kernel.__name__: compiled.name,
        " threads": compiled.threads,
        " shared": compiled.shared,
        " scratch": scratch,
    }
    head = f"opbridge device code 1\n{architecture}\n{len(symbols)}\n"
    head += "".join(f"{name}\t{value}\n" for name, value in symbols.items())
    code = compiled.ptx.encode() + b"\0" if is_ptx else compiled.cubin
    return DeviceImage(program, architecture, head.encode() + code)
