"""Where nodes run on CUDA, asked of onnxruntime-gpu where it is installed; no test needs a GPU."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest

import opbridge
from opbridge.errors import ModelFileError, UsageError
from opbridge.runtimes.cuda_stand_in import libraries
from opbridge.runtimes.cuda_stand_in.elf import taken
from opbridge.runtimes.onnxruntime import cuda_provider, kernel_table
from opbridge.runtimes.onnxruntime.onnxruntime_private import kernel_definitions
from opbridge.runtimes.placement import asking, placement
from opbridge.verification import on_cuda
from opbridge.verification.report import Verification

_FALLING = """<ir_version: 8, opset_import: ["" : 17]> g (float[3, n] x) => (float[3, n] y, float d, float[m] r) {
    [na] a = Relu (x)
    [nt] t = Transpose (a)
    [np] p = MatMul (a, t)
    [nd] d = Det (p)
    [ns] s = Shape (x)
    [nc] c = Concat <axis = 0> (s, s)
    [nr] r = Cast <to = 1> (c)
    [ny] y = Add (x, d)
}"""


def _model(text: str = _FALLING) -> bytes:
    made = onnx.parser.parse_model(text)
    for node in made.graph.node:
        node.metadata_props.add(key="opbridge.source", value=f"model.py:{len(node.name)}")
    return bytes(made.SerializeToString())


_ANSWER: dict[str, Any] = {
    "nodes": [
        ["CUDAExecutionProvider", "na", "", "Relu"],
        ["CUDAExecutionProvider", "np", "", "MatMul"],
        ["CUDAExecutionProvider", "", "com.microsoft", "FusedMatMul"],
        ["CPUExecutionProvider", "nd", "", "Det"],
        ["CPUExecutionProvider", "nc", "", "Concat"],
        ["CPUExecutionProvider", "", "", "Sinh"],
    ],
    "copies": [
        ["MemcpyToHost", "p", "np", "MatMul", "nd", "Det"],
        ["MemcpyFromHost", "d", "nd", "Det", "ny", "Add"],
    ],
}


class TestPlacement:
    @pytest.fixture
    def found(self, monkeypatch: pytest.MonkeyPatch) -> placement.Placement:
        monkeypatch.setattr(placement, "asked", lambda request, device: _ANSWER)
        return placement.placement(_model())

    def test_nodes_are_counted_by_device(self, found: placement.Placement) -> None:
        assert found.on_gpu == 3
        assert [str(each) for each in found.fallen] == ["Det at model.py:2", "Sinh"]
        assert [each.operator for each in found.on_cpu if each.of_sizes] == ["Concat"]
        assert found.operators == {"Relu": 1, "MatMul": 1, "com.microsoft::FusedMatMul": 1}

    def test_notes_name_lines(self, found: placement.Placement) -> None:
        assert found.notes() == [
            "3 nodes on the GPU, 2 on the CPU and 1 that compute with sizes, 2 copies between them",
            "on the CPU, as CUDA has no kernel: Det at model.py:2, Sinh",
            "copied in each run: 'p' to the CPU for Det at model.py:2, 'd' to the GPU for Add at model.py:2",
        ]

    def test_copies_say_what_they_stand_between(self, found: placement.Placement) -> None:
        first, _ = found.document()["copies"]
        assert first == {"value": "p", "to_cpu": True, "before": "MatMul at model.py:2", "after": "Det at model.py:2"}


class TestVerification:
    def test_a_file_is_loaded_where_it_cannot_run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(placement, "asked", lambda request, device: _ANSWER)
        found = on_cuda.loaded_only("m.onnx", _model(), "cuda", "this machine has no NVIDIA driver", 0.0)
        assert found.ok and found.verdict == "loaded, not run"
        assert found.summary().startswith("the file was loaded, but nothing was compared with PyTorch, because this")
        assert len(found.notes) == 3

    def test_a_run_says_where_nodes_ran(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(placement, "asked", lambda request, device: _ANSWER)
        found = on_cuda.with_placement(Verification("m.onnx", "cuda 1.31.1", (), notes=("own",)), _model())
        assert found.notes[0].startswith("3 nodes on the GPU") and found.notes[-1] == "own"

    def test_it_is_no_failure_where_that_is_not_known(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
        found = on_cuda.with_placement(Verification("m.onnx", "cuda 1.31.1", ()), _model())
        assert found.notes[0].startswith("where the nodes run could not be asked: Where nodes run on CUDA is asked of")


def test_a_library_says_what_it_takes(tmp_path: Path) -> None:
    source, library = tmp_path / "a.c", tmp_path / "liba.so"
    source.write_text("#include <math.h>\nint given(void);\nint made(void) { return given(); }\n")
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-Wl,--no-as-needed", str(source), "-lm", "-o", str(library)], check=True
    )
    found = taken(library)
    assert "libm.so.6" in found.libraries
    assert "given" in found.symbols and "made" not in found.symbols
    with pytest.raises(ValueError, match="no shared library"):
        taken(source)


@pytest.mark.slow
def test_libraries_in_the_place_of_cudas(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Made for a provider that takes two functions, of which one is one that the stand-in knows."""
    capi = tmp_path / "onnxruntime" / "capi"
    capi.mkdir(parents=True)
    needed = tmp_path / "libcudart.so.1"
    (tmp_path / "x.c").write_text("int own;")
    command = ["gcc", "-shared", "-fPIC", str(tmp_path / "x.c"), "-Wl,-soname,libcudart.so.1", "-o", str(needed)]
    subprocess.run(command, check=True)
    (tmp_path / "p.c").write_text(
        "int cudaMalloc(void** p, long n); int cudaAnything(void);\n"
        "int used(void) { void* p; return cudaMalloc(&p, 8) + cudaAnything(); }\n"
    )
    provider = capi / "libonnxruntime_providers_cuda.so"
    subprocess.run(
        ["gcc", "-shared", "-fPIC", str(tmp_path / "p.c"), "-Wl,--no-as-needed", str(needed), "-o", str(provider)],
        check=True,
    )
    monkeypatch.setattr(onnxruntime, "__file__", str(tmp_path / "onnxruntime" / "__init__.py"))
    libraries._folder.cache_clear()
    try:
        environment = libraries.environment("13.0")
    finally:
        libraries._folder.cache_clear()
    folder = Path(environment["LD_LIBRARY_PATH"].partition(":")[0])
    assert {"libcudart.so.1", "libcuda.so.1"} <= {each.name for each in folder.iterdir()}
    library = ctypes.CDLL(str(folder / "libcudart.so.1"))
    assert library.cudaAnything() == 0
    count = ctypes.c_int()
    assert library.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value == 2


class TestAsking:
    def test_without_the_provider_it_says_what_installs_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
        with pytest.raises(UsageError, match="which is not installed. Install it with: pip uninstall"):
            placement.placement(_model())

    def test_elsewhere_it_needs_a_gpu(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cuda_provider, "has_provider", lambda: True)
        monkeypatch.setattr(cuda_provider, "obstacle", lambda device: "there is no driver")
        monkeypatch.setattr("sys.platform", "win32")
        with pytest.raises(UsageError, match="cannot be asked on this machine: without a GPU"):
            asking.asked({"model": "m.onnx"})

    def test_a_missing_file_is_named(self) -> None:
        with pytest.raises(ModelFileError, match=r"nothing.onnx does not exist"):
            placement.placement("nothing.onnx")


needs_provider = pytest.mark.skipif(not cuda_provider.has_provider(), reason="onnxruntime-gpu is not installed")


@needs_provider
@pytest.mark.slow
class TestWithTheProvider:
    """With onnxruntime-gpu in an environment of its own: it has the files of onnxruntime."""

    def test_nodes_without_kernels_are_on_the_cpu(self) -> None:
        found = placement.placement(_model())
        assert [str(each) for each in found.fallen] == ["Det at model.py:2"]
        assert [(each.value, each.to_cpu) for each in found.copies] == [("p", True), ("d", False)]
        assert found.operators["Relu"] == 1

    def test_a_refused_model(self) -> None:
        text = '<ir_version: 8, opset_import: ["" : 17]> g (double[2] q) => (double[2] r) { [n] r = Sinh (q) }'
        with pytest.raises(
            ModelFileError, match=r"^The model in memory uses the operator Sinh \(node 'n'\) with types"
        ):
            placement.placement(_model(text))

    def test_kernels_are_listed_without_ending_the_process(self) -> None:
        assert kernel_table.cpu_kernels()["Add"]
        assert any(each.op_type == "Relu" for each in kernel_definitions("", cuda_provider.CUDA))

    def test_a_damaged_file(self, tmp_path: Path) -> None:
        (tmp_path / "m.onnx").write_bytes(b"nothing")
        with pytest.raises(ModelFileError):
            placement.placement(tmp_path / "m.onnx")

    def test_a_session_says_why_it_cannot_be(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("OPBRIDGE_LIBCUDA", str(tmp_path / "libcuda.so.1"))
        for options in ({}, {"isolated": True}):
            with pytest.raises(UsageError, match="ONNX Runtime cannot run models on CUDA: this machine has no NVIDIA"):
                opbridge.session(_model(), runtime="cuda", **options)
