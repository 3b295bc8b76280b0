"""Nodes of Triton kernels in ONNX Runtime, launched through a driver that only seems to be there.

The library, its tables and the launches are the real ones; the code is C++ that does what the kernels do.
"""

from __future__ import annotations

import dataclasses
import subprocess

import numpy as np
import onnxruntime
import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed: pip install 'opbridge[triton]'")

from device import HERE, fake, needs_linux, seeming_cuda
from kernels.triton_kernels.forms import add, blocks, shift_kernel

import opbridge
from opbridge.base import triton_private
from opbridge.kernels.compiler import find_compiler

pytestmark = [
    pytest.mark.slow,
    needs_linux,
]


class Model(torch.nn.Module):
    def forward(self, x, y):
        z = add(x, y)
        shift_kernel[blocks(z.numel())](z, z.numel(), 0.5, BLOCK=64)
        return z


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """The library with the kernels in C++."""
    path = tmp_path_factory.mktemp("kernels") / "launched.so"
    source = HERE / "triton_kernels" / "launched.cpp"
    subprocess.run([*find_compiler().command, "-shared", "-fPIC", str(source), "-o", str(path)], check=True)
    return path


@pytest.fixture
def exported(kernels, tmp_path, monkeypatch):
    """Exports the model so that its library has the C++ in the place of machine code."""
    real = triton_private.compile_for

    def export(**changes):
        def compiled(*args):
            return dataclasses.replace(real(*args), cubin=f"{kernels}\0".encode(), **changes)

        monkeypatch.setattr(triton_private, "compile_for", compiled)
        args = (torch.randn(5, 30), torch.randn(5, 30))
        path = tmp_path / "model.onnx"
        given = {"dynamic_shapes": {0: "rows"}, "architectures": ["sm_90"], "verify": not changes}
        program = opbridge.export(Model(), args, path, **given)
        return path, program.libraries[0]

    return export


def opened(path, library, monkeypatch):
    monkeypatch.setenv("FAKE_ORT_KERNELS", str(library))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.register_custom_ops_library(str(fake("fake_ort")))
    return onnxruntime.InferenceSession(str(path), options)


def test_kernels_are_launched_with_their_arguments(exported, tmp_path, monkeypatch):
    path, library = exported()
    with seeming_cuda(tmp_path) as cuda:
        session = opened(path, library, monkeypatch)
        for rows in (5, 1, 100):
            x, y = (each.copy() for each in np.random.default_rng(rows).normal(size=(2, rows, 30)).astype(np.float32))
            cuda.record()
            (found,) = session.run(None, {"x": x, "y": y})
            np.testing.assert_allclose(found, x + y + np.float32(0.5), rtol=1e-6)
            grid = -(-rows * 30 // 64)
            lines = [each for each in cuda.record() if each.startswith("launch")]
            expected = f"launch grid {grid} 1 1 block 128 1 1 shared 0"
            assert [each.partition(" stream")[0] for each in lines] == [expected] * 2


def test_a_device_of_another_architecture_is_told_what_to_do(exported, tmp_path, monkeypatch):
    path, library = exported()
    with seeming_cuda(tmp_path, {"FAKE_CUDA_CAPABILITY": "75"}):
        session = opened(path, library, monkeypatch)
        said = r"add_kernel.* compute capability 7\.5\. Export the model with --arch sm_75"
        with pytest.raises(Exception, match=said):
            session.run(None, {"x": np.zeros((5, 30), np.float32), "y": np.zeros((5, 30), np.float32)})


def test_too_much_shared_memory_is_an_error(exported, tmp_path, monkeypatch):
    path, library = exported(shared=100_000)
    with seeming_cuda(tmp_path):
        session = opened(path, library, monkeypatch)
        with pytest.raises(Exception, match=r"takes 100000 bytes of shared memory, and the device has 132"):
            session.run(None, {"x": np.zeros((5, 30), np.float32), "y": np.zeros((5, 30), np.float32)})
