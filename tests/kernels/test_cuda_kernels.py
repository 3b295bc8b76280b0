"""Kernels in a .cu file, launched from the C++ file beside it, through a driver that only seems to be there."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from device import LAUNCHES, SMALL_CU, fake, needs_linux, seeming_cuda, seeming_libtorch, small

import opbridge
from opbridge.errors import UsageError

pytestmark = [
    pytest.mark.slow,
    needs_linux,
]

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


@pytest.fixture(scope="module")
def cuda(tmp_path_factory):
    """The operators of launches.cpp on what seem to be CUDA devices, and the driver's record."""
    # Libraries of their own, as each asks for the driver once, in the usual cache.
    library = opbridge.build(LAUNCHES, flags=["-O0", "-DSEEMING_CUDA"])
    checked = opbridge.build(LAUNCHES, debug=True, flags=["-DSEEMING_CUDA"])
    broken = opbridge.build(
        small(tmp_path_factory.mktemp("broken"), SMALL_CU.replace("2 *", "nothing *")), flags=["-O0"]
    )
    with seeming_cuda(tmp_path_factory.mktemp("cuda")) as driver, seeming_libtorch():
        driver.ops, driver.checked, driver.broken = opbridge.load(library), checked, broken
        yield driver


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_kernel_with_shared_memory_and_barriers(cuda, dtype):
    x = torch.randn(3, 70, dtype=dtype)
    cuda.record()
    found = cuda.ops.softmax(x)
    torch.testing.assert_close(
        found.double(), x.double().softmax(1), rtol=1e-2 if dtype.itemsize == 2 else 1e-5, atol=1e-4
    )
    size = 64 * (8 if dtype == torch.float64 else 4)
    assert f"launch grid 3 1 1 block 64 1 1 shared {size} stream 0x5eed" in cuda.record()


def test_several_launches_share_scratch_memory_and_count_with_atomics(cuda):
    x = torch.rand(500) * 3 - 1
    cuda.record()
    found = cuda.ops.histogram(x, 0.0, 1.0)
    assert torch.equal(found, torch.histc(x, 8, 0, 1) / 500)
    launches = [each for each in cuda.record() if each.startswith("launch")]
    assert launches == [
        "launch grid 16 1 1 block 32 1 1 shared 0 stream 0x5eed",
        "launch grid 1 1 1 block 8 1 1 shared 0 stream 0x5eed",
    ]


def test_an_output_whose_size_only_the_kernel_knows(cuda):
    x = torch.randn(300)
    assert torch.equal(cuda.ops.positive(x), torch.ones(int((x > 0).sum())))
    assert cuda.ops.positive(-torch.ones(5)).shape == (0,)
    assert cuda.ops.positive(torch.empty(0)).shape == (0,)


def test_a_tensor_that_the_host_reads(cuda):
    x = torch.arange(3, dtype=torch.float64)
    assert torch.equal(cuda.ops.repeat(x, torch.tensor([2])), x.repeat(2))
    assert cuda.ops.repeat(x, torch.tensor([0])).shape == (0,)
    # 13 rows: what the fake takes for a tensor on the CPU
    assert torch.equal(cuda.ops.repeat(x, torch.full((13,), 3)), x.repeat(3))


def test_onnxruntime_is_told_which_inputs_the_host_reads(cuda, monkeypatch):
    monkeypatch.setenv("FAKE_ORT_KERNELS", str(cuda.ops.path))
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(str(fake("fake_ort")))
    node = onnx.helper.make_node("repeat", ["x", "times"], ["y"], domain="launchtest")
    values = [
        onnx.helper.make_tensor_value_info(name, 7 if name == "times" else 1, None) for name in ("x", "times", "y")
    ]
    graph = onnx.helper.make_graph([node], "g", values[:2], values[2:])
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("launchtest", 1)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    x = np.arange(4, dtype=np.float32)
    assert session.run(None, {"x": x, "times": np.array([3])})[0].tolist() == [*x] * 3


@pytest.mark.parametrize(
    ("what", "words"),
    [
        (0, "a grid of 2147483648 blocks along x; CUDA allows 2147483647"),
        (1, "a grid of 70000 blocks along y; CUDA allows 65535"),
        (2, "a block of 2048 threads along x; CUDA allows 1024"),
        (3, "a block of 2048 threads along all axes; CUDA allows 1024"),
    ],
)
def test_sizes_that_cuda_does_not_allow_are_named(cuda, what, words):
    with pytest.raises(RuntimeError, match=f"launchtest::wrong: {words}"):
        cuda.ops.wrong(torch.ones(3), what)
    assert torch.equal(cuda.ops.repeat(torch.ones(2), torch.tensor([2])), torch.ones(4))  # the next call runs


def test_more_shared_memory_than_the_device_has(cuda, monkeypatch):
    monkeypatch.setenv("FAKE_CUDA_FAILS", "cuFuncSetAttribute")
    with pytest.raises(
        RuntimeError, match="launchtest::wrong: CUDA could not give a kernel 102400 bytes of shared memory"
    ):
        cuda.ops.wrong(torch.ones(3), 4)
    monkeypatch.delenv("FAKE_CUDA_FAILS")
    assert torch.equal(cuda.ops.wrong(torch.ones(3), 4), torch.ones(3))


def test_errors_while_copying_are_raised(cuda, monkeypatch):
    monkeypatch.setenv("FAKE_CUDA_FAILS", "cuMemcpyDtoHAsync")
    with pytest.raises(RuntimeError, match="launchtest::positive: CUDA could not copy to the host: CUDA_ERROR"):
        cuda.ops.positive(torch.ones(3))


def test_a_kernel_that_does_not_compile_is_named_where_it_is_launched(cuda):
    ops = opbridge.load(cuda.broken)
    with pytest.raises(
        RuntimeError, match=r"smalltest::twice: (.|\n)*small\.cu does not compile for CUDA(.|\n)*nothing"
    ):
        ops.twice(torch.ones(3))


def test_a_changed_cu_file_is_built_again(tmp_path):
    source = small(tmp_path, SMALL_CU)
    first = opbridge.build(source, flags=["-O0"])
    assert opbridge.build(source, flags=["-O0"]) == first
    source.with_suffix(".cu").write_text(SMALL_CU + "// changed\n")
    second = opbridge.build(source, flags=["-O0"])
    assert second != first and opbridge.build(source, flags=["-O0"]) == second


def test_a_cu_file_alone_is_refused():
    for call in (opbridge.build, opbridge.load):
        with pytest.raises(UsageError, match=r"launches\.cu is code for CUDA devices(.|\n)*Give launches\.cpp"):
            call(LAUNCHES.with_suffix(".cu"))


def test_a_debug_build_names_an_index_out_of_bounds(cuda, monkeypatch):
    ops = opbridge.load(cuda.checked)
    x, index = torch.arange(4.0), torch.tensor([3, 0, 1])
    assert torch.equal(ops.take(x, index), x[index])
    for wrong in (4, -1, 2**40):
        for name in ("take", "pick"):  # an Array of a kernel, and a View of a function of an element
            with pytest.raises(RuntimeError, match=f"launchtest::{name}: element {wrong} of a tensor with 4 elements"):
                getattr(ops, name)(x, torch.tensor([1, wrong, 2]))
    assert torch.equal(ops.take(x, index), x[index])  # the device goes on
    cuda.record()
    monkeypatch.setenv("FAKE_CUDA_CAPTURING", "1")  # nothing waits for a stream that is captured
    ops.take(x, index)
    assert "cuStreamSynchronize" not in cuda.record()
