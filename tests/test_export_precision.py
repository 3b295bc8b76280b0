"""`opbridge.export(..., precision=)`."""

from __future__ import annotations

import io
import json
from pathlib import Path

import onnx
import onnx_ir as ir
import pytest
import torch

import opbridge
from opbridge.cli import main
from opbridge.errors import UsageError


def net() -> torch.nn.Module:
    """A small network."""
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.GELU(), torch.nn.Linear(32, 4)).eval()


@pytest.mark.slow
def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "half.onnx"
    program = opbridge.export(net(), (torch.randn(2, 4),), path, precision="float16")
    assert program.verification is not None and program.verification.ok
    assert program.narrowed is not None and program.narrowed.ok and program.narrowed.given
    assert program.files == [path] and ir.load(path).graph.inputs[0].dtype == ir.DataType.FLOAT16
    (y,) = program.session().run(None, {program.model.graph.inputs[0].name: torch.randn(2, 4).half().numpy()})
    assert y.shape == (2, 4)


@pytest.mark.slow
def test_bfloat16_in_memory() -> None:
    stream = io.BytesIO()
    program = opbridge.export(net(), (torch.randn(2, 4),), stream, precision="bfloat16")
    assert program.model.graph.outputs[0].dtype == ir.DataType.BFLOAT16
    assert onnx.load_from_string(stream.getvalue()).graph.output[0].type.tensor_type.elem_type == 16


def test_an_unknown_precision() -> None:
    with pytest.raises(UsageError, match="'int8' is not supported"):
        opbridge.export(net(), (torch.randn(2, 4),), precision="int8")


@pytest.mark.slow
def test_the_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "spec.py").write_text("import torch\ndef build():\n    return torch.nn.Tanh(), (torch.randn(4),)\n")
    arguments = ["export", f"{tmp_path / 'spec.py'}:build", "-o", str(tmp_path / "half.onnx"), "--precision", "float16"]
    assert main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cast"]["precision"] == "float16"
