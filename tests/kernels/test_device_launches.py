"""Kernels for CUDA devices, launched from PyTorch and ONNX Runtime through a driver that only seems to be there.

The fakes stand where libcuda, NVRTC, libtorch and ONNX Runtime's execution provider would: the adapters, the search for
code and its cache are the real ones, and the device functions run in the emulation of CUDA's language.
"""

from __future__ import annotations

import shutil

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from device import SOURCE, fake, needs_linux, seeming_cuda, seeming_libtorch
from kernels.references.dynamic_conv import dynamic_conv

import opbridge
from opbridge.kernels.shipped import shipped

pytestmark = [
    pytest.mark.slow,
    needs_linux,
]

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


@pytest.fixture(scope="module")
def cuda(tmp_path_factory):
    """The operators of elements.cpp on what seem to be CUDA devices, and the driver's record."""
    # A library of its own, which asks for the driver once.
    library = opbridge.build(SOURCE, flags=["-O0", "-DSEEMING_CUDA"])
    plain, builtin = opbridge.build(SOURCE), shipped("_builtin")  # in the usual cache
    with seeming_cuda(tmp_path_factory.mktemp("cuda")) as driver, seeming_libtorch() as libtorch:
        driver.ops, driver.libtorch = opbridge.load(library), libtorch
        driver.plain, driver.builtin = plain, builtin
        yield driver


@pytest.mark.parametrize("dtype", DTYPES)
def test_pytorch_launches_a_function_of_an_element(cuda, dtype):
    a, b = torch.randn(2, 3, 5, dtype=dtype)
    cuda.record()
    found = cuda.ops.scaled_add(a, b, alpha=3.0)
    torch.testing.assert_close(found, (3.0 * a.double() + b.double()).to(dtype))
    assert "launch grid 1 1 1 block 256 1 1 shared 0 stream 0x5eed" in cuda.record()
    assert cuda.libtorch.fake_torch_guards() == 0  # none is left


def test_code_is_compiled_and_loaded_once(cuda):
    x = torch.randn(600)
    cuda.ops.scaled_add(x, x)
    cuda.record()
    cuda.ops.scaled_add(x, x)
    assert cuda.record() == ["launch grid 3 1 1 block 256 1 1 shared 0 stream 0x5eed", "cuLaunchKernel"]


def test_inputs_may_have_any_strides_and_be_broadcast(cuda):
    a = torch.randn(4, 3, 2, dtype=torch.float64)
    torch.testing.assert_close(cuda.ops.scaled_add(a.permute(2, 0, 1), a.permute(2, 0, 1)), 3.0 * a.permute(2, 0, 1))
    for other in (torch.randn(3, 1), torch.randn(4, 1, 1), torch.randn(2), torch.randn(()), torch.randn(5, 4, 3, 2)):
        other = other.double()
        torch.testing.assert_close(cuda.ops.broadcast_add(a, other, alpha=0.5), 0.5 * a + other)
    integers = torch.arange(6).reshape(2, 3)
    assert torch.equal(cuda.ops.broadcast_add(integers, integers[:, :1]), 2 * integers + integers[:, :1])


def test_optional_arguments_several_outputs_and_indices(cuda):
    x, shift = torch.randn(3, 4), torch.arange(12).reshape(3, 4)
    value, chosen = cuda.ops.split(x, shift, 2.0, least=1, flip=True)
    torch.testing.assert_close(value, -2 * x.abs() + shift)
    assert torch.equal(chosen, 2 * x.abs() >= 1)
    value, chosen = cuda.ops.split(x)
    torch.testing.assert_close(value, x.abs())
    x = torch.randn(2, 3, 7)
    expected = torch.nn.functional.avg_pool1d(torch.nn.functional.pad(x, (1, 1)), 3, 2)
    torch.testing.assert_close(cuda.ops.smooth(x, 2), expected)


def test_empty_tensors_are_not_launched(cuda):
    cuda.record()
    assert cuda.ops.scaled_add(torch.empty(0, 3), torch.empty(0, 3)).shape == (0, 3)
    assert "cuLaunchKernel" not in cuda.record()


def test_tensors_of_several_devices_are_refused(cuda):
    with pytest.raises(RuntimeError, match="scaled_add: the tensors are on cuda:0 and on cuda:1. Move"):
        cuda.ops.scaled_add(torch.ones(3), torch.ones(11))
    with pytest.raises(RuntimeError, match="the tensors are on cuda:0 and on cpu"):
        cuda.ops.scaled_add(torch.ones(3), torch.ones(13))
    assert cuda.libtorch.fake_torch_guards() == 0


def test_an_error_of_the_driver_is_raised_and_the_next_call_runs(cuda, monkeypatch):
    x = torch.randn(5)
    monkeypatch.setenv("FAKE_CUDA_FAILS", "cuLaunchKernel")
    words = r"scaled_add: CUDA could not launch a kernel: CUDA_ERROR_OUT_OF_MEMORY \(out of memory\)"
    with pytest.raises(RuntimeError, match=words):
        cuda.ops.scaled_add(x, x)
    monkeypatch.delenv("FAKE_CUDA_FAILS")
    torch.testing.assert_close(cuda.ops.scaled_add(x, x), 3 * x)


def model_of(op_type: str, dtype: int, inputs: int, domain: str = "elementtest", **attributes: object) -> bytes:
    names = [f"x{i}" for i in range(inputs)]
    node = onnx.helper.make_node(op_type, names, ["y"], domain=domain, **attributes)
    values = [onnx.helper.make_tensor_value_info(name, dtype, None) for name in (*names, "y")]
    graph = onnx.helper.make_graph([node], "g", values[:-1], values[-1:])
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid(domain, 1)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()


def test_onnxruntime_launches_a_function_of_an_element(cuda, monkeypatch):
    monkeypatch.setenv("FAKE_ORT_KERNELS", str(cuda.ops.path))
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(str(fake("fake_ort")))
    a, b = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    for op_type, other in (("scaled_add", b), ("broadcast_add", b[:1])):
        session = onnxruntime.InferenceSession(model_of(op_type, 1, 2, alpha=3.0), options)
        cuda.record()
        np.testing.assert_allclose(session.run(None, {"x0": a, "x1": other})[0], 3 * a + other, rtol=1e-6)
        assert "launch grid 1 1 1 block 256 1 1 shared 0 stream (nil)" in cuda.record()
    with pytest.raises(Exception, match=r"scaled_add: the tensors must have the same shape: \(3, 4\), \(3\)"):
        session = onnxruntime.InferenceSession(model_of("scaled_add", 1, 2), options)
        session.run(None, {"x0": a, "x1": a[:, 0]})


def test_onnxruntime_without_cuda_is_not_given_kernels_for_it(cuda):
    """A CPU build of ONNX Runtime gets the kernels for the CPU alone, and runs them."""
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(str(cuda.plain))
    session = onnxruntime.InferenceSession(model_of("scaled_add", 11, 2, alpha=3.0), options)
    x = np.arange(5.0)
    np.testing.assert_allclose(session.run(None, {"x0": x, "x1": x})[0], 4 * x)


def test_the_built_in_dynamic_conv_is_launched(cuda, monkeypatch, tmp_path):
    # A library of its own: the one that other tests use may have found the real NVRTC.
    monkeypatch.setenv("FAKE_ORT_KERNELS", str(shutil.copy(cuda.builtin, tmp_path / "builtin.so")))
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(str(fake("fake_ort")))
    generator = np.random.default_rng(0)
    for dtype, type_number, limit in ((np.float64, 11, 1e-12), (np.float32, 1, 1e-5), (np.float16, 10, 5e-3)):
        x = generator.standard_normal((2, 6, 9)).astype(dtype)
        weight = generator.standard_normal((2, 3, 4, 9)).astype(dtype)
        model = model_of("dynamic_conv", type_number, 2, "opbridge_ops", padding_l=1)
        session = onnxruntime.InferenceSession(model, options)
        cuda.record()
        (found,) = session.run(None, {"x0": x, "x1": weight})
        assert "launch grid 1 1 1 block 256 1 1 shared 0 stream (nil)" in cuda.record()
        np.testing.assert_allclose(found, dynamic_conv(x, weight, 1), rtol=limit, atol=limit)
        with pytest.raises(Exception, match="which is not a multiple of the 3 heads"):
            session.run(None, {"x0": x[:, :5], "x1": weight})
