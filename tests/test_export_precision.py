"""`opbridge.export(..., precision=)`."""

from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
import pytest
import torch
from onnxscript import opset18 as op

import opbridge
from opbridge.cli import main
from opbridge.errors import UsageError
from opbridge.fixing import repairing
from opbridge.precision import casting, steps


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


_CHIP = """
name = "chip"
versions = ["1"]

[sources]
sheet = "published: data sheet"

[[fact]]
kind = "{kind}"
source = "sheet"
{fact}
"""


def chip(tmp_path: Path, kind: str, fact: str) -> str:
    """The path of the file of a target with one fact."""
    path = tmp_path / "chip.toml"
    path.write_text(_CHIP.format(kind=kind, fact=fact))
    return str(path)


@pytest.mark.slow
def test_a_target_that_refuses_the_cast_model(tmp_path: Path) -> None:
    target, path = chip(tmp_path, "unstored", 'types = ["float16"]'), tmp_path / "half.onnx"
    path.write_bytes(b"before")
    with pytest.raises(opbridge.TargetError, match="Gelu returns float16") as caught:
        opbridge.export(net(), (torch.randn(2, 4),), path, precision="float16", target=target)
    assert path.read_bytes() == b"before"
    assert caught.value.file == tmp_path / "half.failed.onnx"
    assert "cast to float16 from a model that agrees with PyTorch, was saved" in str(caught.value)
    assert ir.load(caught.value.file).graph.inputs[0].dtype == ir.DataType.FLOAT16
    program = opbridge.export(net(), (torch.randn(2, 4),), path, precision="float16")
    assert program.path == path and not caught.value.file.exists()


@pytest.mark.slow
def test_a_target_that_refuses_float32_only(tmp_path: Path) -> None:
    target = chip(tmp_path, "unstored", 'types = ["float32"]')
    model, args = torch.nn.Tanh(), (torch.randn(4),)
    with pytest.raises(opbridge.TargetError, match="Tanh returns float32"):
        opbridge.export(model, args, target=target)
    program = opbridge.export(model, args, tmp_path / "half.onnx", precision="float16", target=target)
    assert program.findings is not None and program.findings.ok and not program.findings


@pytest.mark.slow
@pytest.mark.parametrize(("fact", "repaired"), [("", 1), ("inputs = [0]", 0)])
def test_what_the_target_has_in_float32_alone_stays_in_it(tmp_path: Path, fact: str, repaired: int) -> None:
    target = chip(tmp_path, "types", f'operators = ["Tanh"]\n{fact}\nallowed = ["float32"]')
    path = tmp_path / "half.onnx"
    model = torch.nn.Sequential(torch.nn.Sigmoid(), torch.nn.Tanh())
    program = opbridge.export(model, (torch.randn(4),), path, precision="float16", target=target)
    assert not program.findings and len(program.repairs) == repaired
    assert [node.op_type for node in ir.load(path).graph] == ["Sigmoid", "Cast", "Tanh", "Cast"]


_POOLED = torch.nn.Sequential(
    torch.nn.Conv2d(2, 3, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Sigmoid()
).eval()


@pytest.mark.slow
def test_what_a_provider_leaves_to_the_cpu_stays_in_float32() -> None:
    program = opbridge.export(_POOLED, (torch.randn(1, 2, 6, 6),), precision="bfloat16", target="cuda")
    assert program.narrowed is not None
    assert [(each.operator, each.kind) for each in program.narrowed.kept] == [("MaxPool", "target")]
    (pool,) = [node for node in program.model.graph if node.op_type == "MaxPool"]
    (conv,) = [node for node in program.model.graph if node.op_type == "Conv"]
    assert (pool.inputs[0].dtype, conv.inputs[0].dtype) == (ir.DataType.FLOAT, ir.DataType.BFLOAT16)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"target": "tensorrt:10.1"}, {"opset_version": 20}])
def test_the_opset_is_not_raised_beyond_the_target_or_what_was_asked_for(options: dict[str, Any]) -> None:
    program = opbridge.export(_POOLED, (torch.randn(1, 2, 6, 6),), precision="bfloat16", **options)
    assert program.model.graph.opset_imports[""] == 20
    types = {node.op_type: node.inputs[0].dtype for node in program.model.graph}
    assert (types["Conv"], types["Sigmoid"]) == (ir.DataType.FLOAT, ir.DataType.BFLOAT16)


@pytest.mark.slow
def test_a_provider_without_the_precision_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "half.onnx"
    with pytest.raises(opbridge.PrecisionError, match="directml:.* is not known to have kernels for it"):
        opbridge.export(_POOLED, (torch.randn(1, 2, 6, 6),), path, precision="bfloat16", target="directml")
    assert not path.exists()


@pytest.mark.slow
def test_a_repair_of_the_cast_model_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(site: object) -> str:
        raise ValueError("a fault")

    monkeypatch.setattr(repairing, "repairs_of", lambda finding: [fail])
    target = chip(tmp_path, "types", 'operators = ["Tanh"]\nallowed = ["float32"]')
    path = tmp_path / "half.onnx"
    model = torch.nn.Sequential(torch.nn.Sigmoid(), torch.nn.Tanh())
    program = opbridge.export(model, (torch.randn(4),), path, precision="float16", target=target)
    assert not program.findings and not program.repairs
    assert [node.op_type for node in ir.load(path).graph] == ["Sigmoid", "Cast", "Tanh", "Cast"]


@pytest.mark.slow
def test_a_model_that_fails_its_verification_is_kept(tmp_path: Path) -> None:
    table = {"aten::tanh": lambda x: op.Sigmoid(x)}
    path = tmp_path / "half.onnx"
    with pytest.raises(opbridge.VerificationError, match="was not written") as caught:
        opbridge.export(torch.nn.Tanh(), (torch.randn(4),), path, precision="float16", custom_translation_table=table)
    assert caught.value.file == tmp_path / "half.failed.onnx" and caught.value.file.exists() and not path.exists()


@pytest.mark.slow
def test_a_cast_beyond_the_tolerance_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "half.onnx"
    real = casting.find_format
    monkeypatch.setattr(casting, "find_format", lambda name: dataclasses.replace(real(name), tolerance=1e-9))
    monkeypatch.setattr(steps.Work, "search", lambda self, tolerance: None)  # nothing is put back
    with pytest.raises(opbridge.PrecisionError, match="saved as .*half.failed.onnx for inspection; .* was not written"):
        opbridge.export(net(), (torch.randn(2, 4),), path, precision="float16")
    assert (tmp_path / "half.failed.onnx").exists() and not path.exists()


def test_an_unknown_precision() -> None:
    with pytest.raises(UsageError, match="'int8' is not supported"):
        opbridge.export(net(), (torch.randn(2, 4),), precision="int8")


@pytest.mark.slow
def test_the_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "spec.py").write_text("import torch\ndef build():\n    return torch.nn.Tanh(), (torch.randn(4),)\n")
    arguments = ["export", f"{tmp_path / 'spec.py'}:build", "-o", str(tmp_path / "half.onnx"), "--precision", "float16"]
    assert main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cast"]["precision"] == "float16"
