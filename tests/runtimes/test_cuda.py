"""ONNX Runtime on CUDA, as far as a machine without a GPU shows it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import opbridge
from opbridge.errors import RunError, UsageError
from opbridge.runtimes import cuda, known
from opbridge.runtimes.onnxruntime import cuda_driver, cuda_provider
from opbridge.runtimes.onnxruntime.processes import Session

_ADD = '<ir_version: 8, opset_import: ["" : 17]> g (float[n] x, float[n] y) => (float[n] z) { z = Add (x, y) }'

_BOTH = ("CUDAExecutionProvider", "CPUExecutionProvider")


def _model(text: str = _ADD) -> bytes:
    return bytes(onnx.parser.parse_model(text).SerializeToString())


class TestNames:
    def test_a_device_has_a_number(self) -> None:
        assert known.split("cuda:1") == ("cuda", 1)
        assert known.split("cuda") == ("cuda", 0)
        assert known.find("cuda:1") is known.find("cuda")

    @pytest.mark.parametrize("name", ["cuda:", "cuda:x", "cuda:-1", "cuda:1:2", "cuda:²"])
    def test_what_is_no_number_is_refused(self, name: str) -> None:
        with pytest.raises(UsageError, match="expected the number of a device, as in 'cuda:0'"):
            known.split(name)

    def test_other_runtimes_have_no_devices(self) -> None:
        with pytest.raises(UsageError, match="'openvino' has no devices"):
            known.split("openvino:0")

    def test_providers_choose_the_device(self) -> None:
        (name, options), other = cuda_provider.providers(1)
        assert (name, other) == ("CUDAExecutionProvider", "CPUExecutionProvider")
        assert options == {"device_id": "1", "use_tf32": "0"}


class TestMissing:
    @pytest.fixture(autouse=True)
    def without_provider(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])

    def test_a_session_says_what_installs_it(self) -> None:
        with pytest.raises(UsageError, match=r"'cuda:1' \(ONNX Runtime with CUDA\) is not installed.*onnxruntime-gpu"):
            opbridge.session(_model(), runtime="cuda:1")

    def test_so_does_a_provider_by_its_name(self) -> None:
        with pytest.raises(UsageError, match=r"or install the one with CUDA: pip uninstall"):
            opbridge.session(_model(), providers=["CUDAExecutionProvider"])

    def test_so_does_a_verification(self, tmp_path: Path) -> None:
        path = tmp_path / "m.onnx"
        path.write_bytes(_model())
        with pytest.raises(UsageError, match="onnxruntime-gpu"):
            opbridge.verify(path, torch.add, (torch.ones(2), torch.ones(2)), runtime="cuda")

    def test_no_version(self) -> None:
        assert cuda.version() == ""


def test_providers_beside_the_runtime_are_refused() -> None:
    with pytest.raises(UsageError, match="both choose what runs the model"):
        opbridge.session(_model(), runtime="cuda", providers=["CPUExecutionProvider"])


def _driver(tmp_path: Path, *, version: int = 13000, start: int = 0, devices: int = 2) -> str:
    """A library with the functions of NVIDIA's driver that are asked."""
    source, library = tmp_path / "driver.c", tmp_path / "libcuda.so.1"
    source.write_text(
        f"int cuDriverGetVersion(int* v) {{ *v = {version}; return 0; }}\n"
        f"int cuInit(unsigned flags) {{ return {start}; }}\n"
        f"int cuDeviceGetCount(int* n) {{ *n = {devices}; return 0; }}\n"
        'int cuGetErrorString(int e, const char** text) { *text = "system not yet initialized"; return 0; }\n'
    )
    subprocess.run(["gcc", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    return str(library)


class TestDriver:
    def test_none(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("OPBRIDGE_LIBCUDA", str(tmp_path / "libcuda.so.1"))
        assert cuda_driver.problem(0, "13.0").startswith("this machine has no NVIDIA driver")

    @pytest.mark.parametrize(
        ("given", "device", "said"),
        [
            ({}, 0, ""),
            ({}, 1, ""),
            ({}, 2, "this machine has no device cuda:2; its devices are cuda:0 to cuda:1"),
            ({"devices": 1}, 1, "this machine has no device cuda:1; its only device is cuda:0"),
            ({"devices": 0}, 0, "finds no GPU"),
            ({"start": 100}, 0, "finds no GPU"),
            ({"start": 802}, 0, "cannot be used: system not yet initialized (CUDA error 802)"),
            (
                {"version": 12080},
                0,
                "supports CUDA up to 12.8, and the installed onnxruntime-gpu is compiled for CUDA 13.0",
            ),
            ({"version": 13010}, 0, ""),
        ],
    )
    def test_what_is_wrong(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: dict[str, int], device: int, said: str
    ) -> None:
        monkeypatch.setenv("OPBRIDGE_LIBCUDA", _driver(tmp_path, **given))
        found = cuda_driver.problem(device, "13.0")
        assert said in found and bool(said) == bool(found)

    def test_a_session_says_it(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("OPBRIDGE_LIBCUDA", _driver(tmp_path))
        monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: list(_BOTH))
        with pytest.raises(
            UsageError, match=r"ONNX Runtime cannot run models on CUDA: this machine has no device cuda:3"
        ):
            opbridge.session(_model(), runtime="cuda:3")
        with pytest.raises(UsageError, match="device_id='one' is invalid"):
            opbridge.session(_model(), providers=[("CUDAExecutionProvider", {"device_id": "one"})])


class TestErrors:
    @pytest.mark.parametrize(
        ("message", "said"),
        [
            ("Failed to allocate memory for requested buffer of size 12884901888", "for a buffer of 12,884,901,888 B"),
            ("CUDA failure 2: out of memory ; GPU=0", "The memory of the GPU is not enough."),
            ("CUDA failure 700: an illegal memory access was encountered", "where the next run starts a new process"),
            ("no kernel image is available for execution on the device", "no code for the architecture"),
            (
                "CUBLAS failure 1: the library was not initialized ; GPU=0",
                "(CUBLAS failure 1: the library was not initiali",
            ),
            ("Invalid rank for input: x", ""),
        ],
    )
    def test_are_explained(self, message: str, said: str) -> None:
        found = cuda_provider.explained(message)
        assert said in found and bool(said) == bool(found)

    def test_only_some_end_the_process(self) -> None:
        assert cuda_provider.is_fatal("CUDA failure 719: unspecified launch failure")
        assert not cuda_provider.is_fatal("CUDA failure 2: out of memory")

    def test_a_run_explains_them(self, monkeypatch: pytest.MonkeyPatch) -> None:
        session = opbridge.session(_model(), threads=1)
        monkeypatch.setattr(Session, "get_providers", lambda self: ["CUDAExecutionProvider"])

        def run(*_: object) -> None:
            raise RuntimeError("Failed to allocate memory for requested buffer of size 4096")

        monkeypatch.setattr(onnxruntime.InferenceSession, "run", run)
        with pytest.raises(RunError, match=r"The memory of the GPU is not enough for a buffer of 4,096 B"):
            session.run(None, {"x": np.ones(2, np.float32), "y": np.ones(2, np.float32)})


class TestTensors:
    """PyTorch's tensors in a session, here on the CPU."""

    def test_tensors_give_tensors(self) -> None:
        session = opbridge.session(_model(), threads=1)
        x = torch.arange(6.0)
        (z,) = session.run(None, {"x": x[::2], "y": torch.ones(3, requires_grad=True)})
        assert isinstance(z, torch.Tensor)
        assert torch.equal(z, torch.tensor([1.0, 3.0, 5.0]))

    def test_options_of_the_run_hold(self) -> None:
        options = onnxruntime.RunOptions()
        options.terminate = True
        with pytest.raises(Exception, match="terminate"):
            opbridge.session(_model(), threads=1).run(None, {"x": torch.ones(2), "y": torch.ones(2)}, options)

    def test_arrays_give_arrays(self) -> None:
        session = opbridge.session(_model(), threads=1)
        (z,) = session.run(["z"], {"x": np.ones(2, np.float32), "y": np.ones(2, np.float32)})
        assert isinstance(z, np.ndarray)

    @pytest.mark.parametrize(
        "dtype", [torch.float16, torch.float64, torch.int64, torch.bool, torch.uint8, torch.bfloat16]
    )
    @pytest.mark.parametrize("shape", [(), (2, 3), (0, 3)])
    def test_every_type_and_shape(self, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
        kind = {torch.float64: "double"}.get(dtype, str(dtype).removeprefix("torch."))
        sizes = ", ".join(map(str, shape))
        graph = f"g ({kind}[{sizes}] x) => ({kind}[{sizes}] y) {{ y = Identity (x) }}"
        text = f'<ir_version: 8, opset_import: ["" : 17]> {graph}'
        session = opbridge.session(_model(text), threads=1)
        x = torch.randn(shape).to(dtype)
        (y,) = session.run(None, {"x": x})
        assert y.dtype == dtype
        assert torch.equal(y, x)

    @pytest.mark.parametrize(
        ("feeds", "said"),
        [
            (
                {"x": torch.ones(2), "y": np.ones(2, np.float32)},
                "The input 'y' is a ndarray, and another input is a torch",
            ),
            ({"x": torch.ones(2), "w": torch.ones(2)}, "Unknown input 'w'. The inputs of the model are: x, y."),
            ({"x": torch.ones(2), "y": torch.ones(2).double()}, r"'y' has the type tensor\(float\), but torch.float64"),
            (
                {"x": torch.ones(2), "y": torch.ones(2, device="meta")},
                "'y' is on the device meta, but the session runs on cpu",
            ),
        ],
    )
    def test_other_values_are_refused(self, feeds: dict[str, object], said: str) -> None:
        session = opbridge.session(_model(), threads=1)
        with pytest.raises(UsageError, match=said):
            session.run(None, feeds)

    def test_a_text_is_no_tensor(self) -> None:
        text = '<ir_version: 8, opset_import: ["" : 17]> g (float[n] x) => (string[n] y) { y = Cast <to = 8> (x) }'
        with pytest.raises(RunError, match="The output 'y' is no tensor of numbers"):
            opbridge.session(_model(text), threads=1).run(None, {"x": torch.ones(2)})


@pytest.mark.slow
def test_without_torch_nothing_imports_it() -> None:
    code = (
        "import sys, numpy, opbridge\n"
        f"s = opbridge.session({_model()!r}, threads=1)\n"
        "s.run(None, {'x': numpy.ones(2, 'float32'), 'y': numpy.ones(2, 'float32')})\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
