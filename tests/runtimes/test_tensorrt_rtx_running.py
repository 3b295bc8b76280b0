"""What a run on a GPU passes on: with a driver and an engine in this process's own memory, as tests have no GPU."""

from __future__ import annotations

import ctypes
import sys
import types

import numpy as np
import onnx
import pytest

import opbridge
from opbridge.runtimes.tensorrt_rtx import driver, running, wheel
from opbridge.runtimes.tensorrt_rtx.building import Attempt

SUM = """<ir_version: 8, opset_import: ["" : 17]>
g (double[n] x, int64[1] k) => (double[n] y, int64[1] z) { y = Add (x, x) z = Identity (k) }"""


class Library:
    """A driver whose GPU is this process's memory."""

    def __init__(self) -> None:
        self.blocks: dict[int, ctypes.Array] = {}
        self.capability = {75: 8, 76: 9}

    def cuInit(self, _):
        return 0

    def cuDeviceGetCount(self, count):
        count._obj.value = 1
        return 0

    def cuDeviceGetAttribute(self, found, attribute, _):
        found._obj.value = self.capability[attribute]
        return 0

    def cuMemAlloc_v2(self, found, size):
        block = ctypes.create_string_buffer(size)
        found._obj.value = ctypes.addressof(block)
        self.blocks[found._obj.value] = block
        return 0

    def cuMemFree_v2(self, address):
        del self.blocks[address]
        return 0

    def cuMemcpyHtoD_v2(self, to, start, size):
        ctypes.memmove(to, start, size)
        return 0

    cuMemcpyDtoH_v2 = cuMemcpyHtoD_v2

    def __getattr__(self, name):
        return lambda *_: 0


class Context:
    """An engine that adds its floats to themselves, and gives back its integers."""

    engine: Engine

    def __init__(self) -> None:
        self.addresses: dict[str, int] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.allocators: dict[str, object] = {}

    def set_input_shape(self, name, shape):
        self.shapes[name] = tuple(shape)
        return all(size <= 4 for size in shape)

    def set_tensor_address(self, name, address):
        self.addresses[name] = address

    def set_output_allocator(self, name, allocator):
        self.allocators[name] = allocator

    def get_tensor_shape(self, name):
        return (1,)

    def infer_shapes(self):
        return []

    def execute_async_v3(self, _):
        x = np.ctypeslib.as_array((ctypes.c_float * self.shapes["x"][0]).from_address(self.addresses["x"]))
        place = self.allocators["y"].reallocate_output_async("y", 0, x.nbytes, 256, 0)
        ctypes.memmove(place, (x + x).ctypes.data, x.nbytes)
        self.allocators["y"].notify_shape("y", x.shape)
        ctypes.memmove(self.addresses["z"], self.addresses["k"], 8)
        return True


class Engine:
    num_io_tensors = 4

    def get_tensor_name(self, at):
        return "xkzy"[at]  # not in the model's order

    def get_tensor_dtype(self, name):
        return types.SimpleNamespace(name="FLOAT" if name in "xy" else "INT64")

    def get_tensor_mode(self, name):
        return "in" if name in "xk" else "out"

    def get_tensor_location(self, name):
        return "device" if name in "xy" else "host"

    def create_execution_context(self):
        made = Context()
        made.engine = self
        return made


@pytest.fixture
def gpu(monkeypatch):
    library = Library()
    monkeypatch.setattr(driver, "_library", lambda: library)
    trt = types.SimpleNamespace(
        TensorIOMode=types.SimpleNamespace(INPUT="in"),
        TensorLocation=types.SimpleNamespace(HOST="host"),
        IOutputAllocator=object,
        ILogger=object,
        ComputeCapability=types.SimpleNamespace(__members__={"NONE": 0, "SM80": 80, "SM89": 89}),
        Runtime=lambda log: types.SimpleNamespace(deserialize_cuda_engine=lambda content: Engine()),
    )
    monkeypatch.setitem(sys.modules, "tensorrt_rtx_bindings", trt)
    monkeypatch.setattr(running, "version", lambda: "1.7")
    return library


@pytest.fixture
def engine():
    model = onnx.parser.parse_model(SUM).SerializeToString()
    return running.Engine(Attempt("built", b"engine", ("sm_89",)), model)


def test_arrays_go_to_the_gpu_and_come_back_in_the_types_of_the_model(gpu, engine):
    assert running.obstacle() == ""
    y, z = engine.run({"x": np.float64([1, 2, 3]), "k": np.int64([7])})
    assert y.dtype == np.float64 and y.tolist() == [2, 4, 6]
    assert z.dtype == np.int64 and z.tolist() == [7]
    engine.run({"x": np.zeros(1), "k": np.int64([7])})
    assert len(gpu.blocks) == 1  # that of the output stays with the engine until the next run


def test_sizes_outside_of_the_profile_are_an_error(gpu, engine):
    with pytest.raises(RuntimeError, match=r"shape \(5,\) of the input 'x' is outside of the engine's profile"):
        engine.run({"x": np.zeros(5), "k": np.int64([7])})


def test_a_gpu_that_it_does_not_support_is_named(gpu, engine):
    gpu.capability = {75: 9, 76: 0}
    with pytest.raises(RuntimeError, match="was built and cannot run: .* does not support this machine's GPU .sm_90."):
        engine.run({"x": np.zeros(2), "k": np.int64([7])})


def test_without_a_driver_that_is_said(monkeypatch):
    monkeypatch.setattr(driver, "_library", lambda: None)
    assert driver.architecture() == ("", "this machine has no NVIDIA driver (libcuda.so.1)")


def test_the_runtime_that_is_not_installed_names_the_extra(monkeypatch):
    monkeypatch.setattr(wheel, "_NAMES", ("no-such-package",))
    with pytest.raises(opbridge.UsageError, match=r"opbridge\[tensorrt-rtx\]"):
        opbridge.session(onnx.parser.parse_model(SUM).SerializeToString(), runtime="tensorrt-rtx")
