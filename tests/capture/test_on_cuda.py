"""Models on a GPU, exported: their file is that of the CPU, and calls of torch.cuda leave nothing in it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import cuda_without_gpu

import opbridge
from opbridge.capture.device_errors import device_advice

Found = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    if not cuda_without_gpu.is_possible():
        pytest.skip("torch is no build with CUDA for Linux, or there is a GPU")
    environment = cuda_without_gpu.environment(tmp_path_factory.mktemp("cuda"))
    environment["PYTHONPATH"] = ":".join(each for each in sys.path if each)
    command = [sys.executable, str(Path(__file__).with_name("cuda_cases.py"))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    made: Found = json.loads(done.stdout)
    return made


@pytest.mark.slow
def test_the_file_is_that_of_the_cpu(found: Found) -> None:
    assert found["net"]["ok"]
    assert found["net"]["hash"] == found["net on the CPU"]["hash"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "operators"),
    [
        ("a named device", ["Gemm", "Add", "Add"]),
        ("moves", ["Gemm", "Mul"]),
        ("back", ["Gemm", "Add"]),
        ("a constant there", ["Gemm", "Add"]),
        ("legacy types", ["Gemm", "Add"]),
        ("stream", ["Gemm", "Mul"]),
        ("autocast", ["Gemm", "Cast", "Cast", "MatMul"]),
        ("calls", ["Gemm", "Add"]),
        ("pinned", ["Gemm", "Add"]),
        ("split", ["Gemm", "Gemm"]),
    ],
)
def test_what_concerns_devices_is_no_node(found: Found, case: str, operators: list[str]) -> None:
    assert found[case].get("ok"), found[case]
    assert found[case]["operators"] == operators


@pytest.mark.slow
def test_decisions_of_values_there(found: Found) -> None:
    assert found["decided"]["ok"]
    assert "If" in found["decided"]["operators"]


@pytest.mark.slow
def test_inputs_elsewhere_are_an_error_in_words(found: Found) -> None:
    said = found["input on the CPU"]["error"]
    assert "Move the example inputs to the device of the model (x.to(device))" in said


class _Named(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.zeros(2, device="cuda")


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there() -> None:
    with pytest.raises(
        opbridge.UsageError, match=r"uses a CUDA device that this machine does not have.*device=x.device"
    ):
        opbridge.export(_Named(), (torch.ones(2),))


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("Found no NVIDIA driver on your system.", "this machine does not have"),
        ("Torch not compiled with CUDA enabled", "this machine does not have"),
        ("CUDA error: invalid device ordinal", "this machine does not have"),
        ("Expected all tensors to be on the same device, but found at least two devices", "on several devices"),
        (
            "Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same",
            "on several devices",
        ),
        # It has no kernel for CUDA either.
        ("Could not run 'prims::no_such_operator' with arguments from the 'CPU' backend.", ""),
        ("0 active drivers ([]). There should only be one.", "Leave capture= at its default"),
        ("mat1 and mat2 shapes cannot be multiplied", ""),
    ],
)
def test_advice(message: str, said: str) -> None:
    found = device_advice(RuntimeError(message))
    assert said in found and bool(said) == bool(found)


def test_pinned_memory_is_a_copy() -> None:
    class Pinned(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x.pin_memory()
            y += 1
            return y * x

    program = opbridge.export(Pinned(), (torch.ones(2),), verify=False)
    assert [node.op_type for node in program.model.graph] == ["Add", "Mul"]
