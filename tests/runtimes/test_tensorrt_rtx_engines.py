"""Engines of TensorRT-RTX: the command, the files, and what a run on a GPU passes on."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import onnx
import pytest

import opbridge
from opbridge.cli import main
from opbridge.errors import SaveError
from opbridge.runtimes import tensorrt_rtx
from opbridge.runtimes.tensorrt_rtx.engines import Built, build_engine
from opbridge.runtimes.tensorrt_rtx.profile import parsed
from opbridge.save.engines import save_engine

INSTALLED = pytest.mark.skipif(
    not tensorrt_rtx.version(), reason=f"tensorrt-rtx is not installed: {tensorrt_rtx.INSTALL}"
)

ADD = """<ir_version: 8, opset_import: ["" : 17]>
g (float[n, 3] x, float[3] b) => (float[n, 3] y) { y = Add (x, b) }"""

PRODUCT = """<ir_version: 8, opset_import: ["" : 17]>
g (float[2, 3] x, float[3, 4] w) => (float[2, 4] y) { y = Gemm (x, w) }"""

BUILT = Built(b"engine", ["sm_89"], {"x": ([1, 3], [8, 3], [32, 3])}, {}, "1.7.1.116")


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "add.onnx"
    onnx.save(onnx.parser.parse_model(ADD), path)
    return path


def test_beside_the_engine_stands_what_it_was_built_from_and_for(model):
    files = save_engine(BUILT, model, model.with_suffix(".engine"))
    assert files.engine.read_bytes() == b"engine"
    said = json.loads(files.description.read_text())
    assert files.description.name == "add.engine.json" and said == files.content
    assert said["source"] == {"file": "add.onnx", "sha256": hashlib.sha256(model.read_bytes()).hexdigest()}
    assert said["engine"]["sha256"] == hashlib.sha256(b"engine").hexdigest()
    assert said["architectures"] == ["sm_89"] and said["tensorrt_rtx"] == "1.7.1.116"
    assert said["profile"] == {"x": {"min": [1, 3], "opt": [8, 3], "max": [32, 3]}}


def test_the_files_of_weights_are_told_too(tmp_path):
    path = tmp_path / "weights.onnx"
    proto = onnx.parser.parse_model(ADD)
    weight = onnx.numpy_helper.from_array(np.ones((64, 64), np.float32), "w")
    proto.graph.initializer.append(weight)
    onnx.save(proto, path, save_as_external_data=True, location="weights.data", size_threshold=0)
    files = save_engine(BUILT, path, tmp_path / "w.engine")
    digest = hashlib.sha256((tmp_path / "weights.data").read_bytes()).hexdigest()
    assert files.content["external_data"] == [{"file": "weights.data", "sha256": digest}]


def test_an_engine_is_written_whole_or_not_at_all(model, monkeypatch):
    path = model.with_suffix(".engine")
    save_engine(BUILT, model, path)
    before = {each.name: each.read_bytes() for each in model.parent.iterdir()}
    monkeypatch.setattr("opbridge.save.engines.json.dumps", lambda *_, **__: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(SaveError, match="previous file is unchanged"):
        save_engine(Built(b"other", [], {}, {}, ""), model, path)
    assert {each.name: each.read_bytes() for each in model.parent.iterdir()} == before
    with pytest.raises(SaveError, match="does not exist"):
        save_engine(BUILT, model, model.parent / "no" / "add.engine")


@INSTALLED
@pytest.mark.slow
def test_the_command_builds_an_engine(model, capsys):
    path = model.with_suffix(".engine")
    command = ["engine", str(model), "-o", str(path), "--arch", "sm_89,sm_120", "--profile", "n=1:8:32", "--json"]
    assert main(command) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["architectures"] == ["sm_89", "sm_120"] and said["bytes"] == path.stat().st_size
    assert said["profile"]["x"] == {"min": [1, 3], "opt": [8, 3], "max": [32, 3]}
    assert main(["engine", str(model), "-o", str(path), "--profile", "k=1"]) == 2
    assert "range for 'k'" in capsys.readouterr().err
    assert main(["engine", str(model), "-o", str(path), "--arch", "sm_90"]) == 2
    assert "does not build for the architecture 'sm_90'" in capsys.readouterr().err


@INSTALLED
@pytest.mark.slow
def test_what_an_older_gpu_lacks_is_told(tmp_path):
    path = tmp_path / "product.onnx"
    onnx.save(onnx.parser.parse_model(PRODUCT), path)
    built = build_engine(path)
    assert "sm_75" not in built.architectures and "sm_89" in built.architectures
    assert "FP32 GEMM is not supported" in built.refusing["sm_75"]
    with pytest.raises(opbridge.ModelFileError, match="for Turing"):
        build_engine(path, architectures=["sm_75"])
    with pytest.raises(opbridge.ModelFileError, match="cannot build the model for sm_75: .*It builds for sm_89"):
        build_engine(path, architectures=["sm_75", "sm_89"])


@INSTALLED
@pytest.mark.slow
@pytest.mark.parametrize("damage", ["cut", "cycle", "noise"])
def test_a_damaged_file_ends_no_process_but_its_own(model, damage):
    content = model.read_bytes()
    if damage == "cut":
        model.write_bytes(content[: len(content) // 2])
    elif damage == "noise":
        model.write_bytes(bytes(each ^ (at % 7 == 3) for at, each in enumerate(content)))
    else:
        proto = onnx.load(model)
        proto.graph.node[0].input[1] = "y"
        onnx.save(proto, model)
    with pytest.raises(opbridge.OpbridgeError):
        build_engine(model, profile=parsed("n=2"))
