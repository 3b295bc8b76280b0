"""Kernels for CUDA devices on a machine without one: a driver, a compiler and runtimes that only seem to have it."""

from __future__ import annotations

import ctypes
import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from opbridge.base.torch_private import torch_operators
from opbridge.errors import BuildError
from opbridge.kernels.compiler import INCLUDE, find_compiler
from opbridge.kernels.device_images import compile_program

__all__ = [
    "FAKES",
    "LAUNCHES",
    "SMALL_CU",
    "SOURCE",
    "Fake",
    "fake",
    "has_nvrtc",
    "needs_linux",
    "seeming_cuda",
    "seeming_libtorch",
    "small",
]

HERE = Path(__file__).parent
SOURCE = HERE / "elements.cpp"
LAUNCHES = HERE / "launches.cpp"
needs_linux = pytest.mark.skipif(
    sys.platform != "linux", reason="the stand-ins for CUDA's libraries and for TensorRT are built as Linux libraries"
)
FAKES = ("fake_cuda", "fake_torch", "fake_ort")


SMALL = """\
#include <opbridge/kernel.h>
using namespace opbridge;
__global__ void twice(const float* x, int64_t count, float* y);
void on_cpu(Input<float> x, Output<float> y) { for (int64_t i = 0; i < x.size(); ++i) y[i] = 2 * x[i]; }
void on_cuda(Input<float> x, Output<float> y, Context& context) {
    launch<twice>(context, blocks_for(x.size(), 32), 32, 0, x.data(), x.size(), y.data());
}
Shape same(Shape x) { return x; }
OPBRIDGE_KERNELS("smalltest::twice(Tensor x) -> Tensor", same, cpu_cuda<on_cpu, on_cuda>);
"""

SMALL_CU = """\
#include <opbridge/device.h>
using namespace opbridge;
__global__ void twice(const float* x, int64_t count, float* y) {
    for (int64_t i = thread_index(); i < count; i += thread_count()) y[i] = 2 * x[i];
}
"""


def small(folder: Path, device_code: str) -> Path:
    """A small source, and its code for CUDA devices beside it."""
    source = folder / "small.cpp"
    source.write_text(SMALL)
    source.with_suffix(".cu").write_text(device_code)
    return source


@functools.cache
def has_nvrtc() -> bool:
    """Whether NVRTC is installed; it compiles without a device."""
    import opbridge

    try:
        compile_program(opbridge.build(SOURCE), 0, "sm_90")
    except BuildError as error:
        if "was not found" not in str(error):
            raise
        return False
    return True


@functools.cache
def fake(name: str) -> Path:
    """One of the libraries that stand for another, built."""
    folder = Path(tempfile.mkdtemp(prefix="opbridge-fakes-"))
    libtorch = Path(torch_operators.library_path())
    linked = [str(libtorch), f"-Wl,-rpath,{libtorch.parent}"] if name == "fake_torch" else []
    path = folder / f"lib{name}.so"
    command = [*find_compiler().command, "-std=c++17", "-O1", "-fPIC", "-shared", "-Wl,--no-as-needed", f"-I{INCLUDE}"]
    subprocess.run([*command, str(HERE / f"{name}.cpp"), "-o", str(path), *linked, "-ldl", "-pthread"], check=True)
    return path


class Fake:
    """The driver that seems to be there, and its compiler."""

    def __init__(self, folder: Path) -> None:
        self.native = ctypes.CDLL(str(fake("fake_cuda")))
        self.native.fake_cuda_record.restype = ctypes.c_char_p
        self.folder = folder

    def record(self) -> list[str]:
        """What it was asked since the last time."""
        found = self.native.fake_cuda_record().decode().splitlines()
        self.native.fake_cuda_clear()
        return found


@contextmanager
def seeming_cuda(folder: Path, more: Mapping[str, str] | None = None) -> Iterator[Fake]:
    """Has libraries that look for the driver or NVRTC find the ones that seem to be them."""
    settings = {
        "OPBRIDGE_LIBCUDA": str(fake("fake_cuda")),
        "OPBRIDGE_NVRTC": str(fake("fake_cuda")),
        "OPBRIDGE_CACHE": str(folder / "cache"),
        "FAKE_CUDA_FOLDER": str(folder),
        "FAKE_CUDA_FLAGS": f"-I{INCLUDE}",
        **(more or {}),
    }
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield Fake(folder)
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def seeming_libtorch() -> Iterator[ctypes.CDLL]:
    """Has libraries that are loaded be registered with the libtorch whose tensors seem to be on CUDA devices."""
    path = str(fake("fake_torch"))
    real = torch_operators.library_path
    torch_operators.library_path = lambda: path
    try:
        yield ctypes.CDLL(path)
    finally:
        torch_operators.library_path = real


def to_torch(values: object) -> list[torch.Tensor]:
    """The tensors among an operator's results."""
    return [values] if isinstance(values, torch.Tensor) else list(values)
