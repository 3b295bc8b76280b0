"""The driver and NVRTC are found at the first launch, and what is missing is named; code is kept in the cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from device import SOURCE, fake, needs_linux, seeming_cuda

import opbridge
from opbridge.kernels.cache import cache_folder

pytestmark = [
    pytest.mark.slow,
    needs_linux,
]

CALL = """
import sys, numpy, onnxruntime
options = onnxruntime.SessionOptions()
options.log_severity_level = 4
options.register_custom_ops_library(sys.argv[1])
session = onnxruntime.InferenceSession(sys.argv[2], options)
try:
    print(session.run(None, {"a": numpy.ones(3, "float32"), "b": numpy.ones(3, "float32")})[0].tolist())
except Exception as error:
    print(error)
"""


@pytest.fixture
def called(tmp_path):
    """What a process prints that calls the kernel of a library: each looks for the driver once."""
    node = onnx.helper.make_node("scaled_add", ["a", "b"], ["y"], domain="elementtest")
    values = [onnx.helper.make_tensor_value_info(name, 1, [3]) for name in "aby"]
    graph = onnx.helper.make_graph([node], "g", values[:2], values[2:])
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("elementtest", 1)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "model.onnx")

    def call(library: Path, **variables: str) -> str:
        command = [sys.executable, "-c", CALL, str(fake("fake_ort")), str(tmp_path / "model.onnx")]
        environment = {**os.environ, "FAKE_ORT_KERNELS": str(library), **variables}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return call


@pytest.mark.skipif(os.path.exists("/dev/nvidiactl"), reason="this machine has a driver, so that none is missing")
def test_a_missing_driver_is_named(called):
    said = called(opbridge.build(SOURCE))
    assert "scaled_add: the CUDA driver's library libcuda.so.1 was not found. Install NVIDIA's driver" in said


def test_a_missing_compiler_is_named(called):
    library = opbridge.build(SOURCE)
    driver = str(fake("fake_cuda"))
    said = called(library, OPBRIDGE_LIBCUDA=driver, OPBRIDGE_NVRTC="/nothing.so")
    assert "scaled_add: OPBRIDGE_NVRTC is /nothing.so, which cannot be loaded" in said


def test_code_is_kept_and_damage_is_found(tmp_path, called):
    library = opbridge.build(SOURCE)
    with seeming_cuda(tmp_path):
        assert called(library) == "[3.0, 3.0, 3.0]"
        compiled = sorted(tmp_path.glob("*/program.so"))
        assert called(library) == "[3.0, 3.0, 3.0]"
        assert sorted(tmp_path.glob("*/program.so")) == compiled  # from the cache
        (kept,) = (tmp_path / "cache" / "device").iterdir()
        kept.write_bytes(kept.read_bytes()[:-1] + b"x")
        assert called(library) == "[3.0, 3.0, 3.0]"
        assert len(list(tmp_path.glob("*/program.so"))) == len(compiled) + 1


def test_a_cache_that_others_may_write_to_is_not_used(tmp_path, called):
    library = opbridge.build(SOURCE)
    with seeming_cuda(tmp_path):
        (tmp_path / "cache").mkdir()
        (tmp_path / "cache").chmod(0o777)
        assert called(library) == "[3.0, 3.0, 3.0]"
        assert not list((tmp_path / "cache").rglob("*.*")) and not list((tmp_path / "cache" / "device").iterdir())


def test_code_that_does_not_load_names_the_driver(tmp_path, called):
    library = opbridge.build(SOURCE)
    with seeming_cuda(tmp_path, {"FAKE_CUDA_FAILS": "cuModuleLoadData", "FAKE_CUDA_VERSION": "12040"}):
        said = called(library)
    assert "could not load code for sm_90" in said and "The driver supports CUDA 12.4; install a newer driver" in said


def test_a_library_with_code_needs_no_compiler(tmp_path, called):
    opbridge.build(SOURCE, flags=["-O0"])
    usual = cache_folder() / "kernels"
    own = tmp_path / "cache" / "kernels"
    shutil.copytree(usual / "index", own / "index", ignore=shutil.ignore_patterns("*.lock"))
    for part in usual.glob("adapter*-*"):  # compiled already
        shutil.copytree(part, own / part.name)
    with seeming_cuda(tmp_path):
        library = opbridge.build(SOURCE, flags=["-DFOR_ARCHITECTURES", "-O0"], architectures=["sm_80", "sm_90"])
        compiled = [each.parent.name for each in sorted(tmp_path.glob("*/program.so"))]
        assert len(compiled) == 3  # and PTX of the newest
        no_compiler = {"OPBRIDGE_NVRTC": "/nothing.so"}
        for capability in ("80", "87", "90", "120"):
            assert called(library, FAKE_CUDA_CAPABILITY=capability, **no_compiler) == "[3.0, 3.0, 3.0]"
        said = called(library, FAKE_CUDA_CAPABILITY="75", **no_compiler)
        assert "OPBRIDGE_NVRTC is /nothing.so" in said
