"""Libraries of plug-ins in TensorRT-RTX, which finds them and makes plug-ins of nodes, but runs none.

Its registry and its parser are those of TensorRT. Each is asked in a process of its own, which it ends when it adds the
plug-in to its network.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
import torch
from device import SOURCE

import opbridge
from opbridge.kernels import tensorrt
from opbridge.kernels.compiler import Settings
from opbridge.runtimes import tensorrt_rtx

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not tensorrt_rtx.version(), reason=f"tensorrt-rtx is not installed: {tensorrt_rtx.INSTALL}"),
]

SCRIPT = Path(__file__).with_name("rtx_plugins.py")


@pytest.fixture(scope="module")
def library() -> Path:
    return tensorrt.build(SOURCE, settings=Settings(debug=True))


def asked(*arguments: str | Path) -> list[str]:
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return done.stdout.splitlines()


def parsed(
    library: Path, folder: Path, op_type: str, *, domain: str = "elementtest", **attributes: object
) -> list[str]:
    """What is logged when a model of one node is parsed."""
    inputs = ["x0", "x1"] if op_type == "scaled_add" else ["x0"]
    node = onnx.helper.make_node(op_type, inputs, ["y"], domain=domain, **attributes)
    values = [onnx.helper.make_tensor_value_info(name, 1, [2, 3, 7]) for name in inputs]
    graph = onnx.helper.make_graph([node], "g", values, [onnx.helper.make_tensor_value_info("y", 1, None)])
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid(domain, 1)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9), folder / "model.onnx")
    return asked(library, "parse", folder / "model.onnx")


def test_the_registry_finds_the_creators_and_makes_plug_ins(library):
    lines = asked(library, "creators")
    found = [json.loads(each.removeprefix("CREATOR ")) for each in lines if each.startswith("CREATOR ")]
    assert ["elementtest", "scaled_add", "1", {"alpha": "FLOAT32"}] in found
    assert ["elementtest", "split", "1", {"scale": "FLOAT32", "least": "INT64", "flip": "INT64"}] in found
    assert 'PLUGIN ["elementtest", "scaled_add", "1", 1, "alpha=3.5", "alpha=3.5", 100]' in lines
    assert "VERBOSE elementtest::scaled_add: made a plug-in with alpha=3.5" in lines
    assert "ERROR elementtest::scaled_add: there is no field 'alpa', only alpha" in lines
    assert lines[-1] == "WRONG None"  # and the process goes on


def test_the_parser_finds_a_plug_in_by_the_domain_of_a_node(library, tmp_path):
    lines = parsed(library, tmp_path, "scaled_add", alpha=2.5)
    assert "VERBOSE elementtest::scaled_add: made a plug-in with alpha=2.5" in lines
    assert "INFO Successfully created plugin: scaled_add" in lines


def test_the_parser_finds_a_plug_in_by_the_attributes_that_opbridge_writes(library, tmp_path):
    marks = {"plugin_namespace": "elementtest", "plugin_version": "1"}
    lines = parsed(library, tmp_path, "split", domain="other", scale=0.5, least=-3, flip=1, **marks)
    assert "VERBOSE elementtest::split: made a plug-in with scale=0.5, least=-3, flip=1" in lines


def test_the_parser_finds_the_plug_ins_of_an_exported_file(library, tmp_path):
    ops = opbridge.load(library)
    path = tmp_path / "exported.onnx"
    x = torch.randn(2, 3, 7)
    assert opbridge.export(lambda x: torch.relu(ops.smooth(x, 2)), (x,), path, target="tensorrt:10.15").verification.ok
    assert "VERBOSE elementtest::smooth: made a plug-in with step=2" in asked(library, "parse", path)


def test_the_parser_cuts_integers_to_32_bits(library, tmp_path):
    lines = parsed(library, tmp_path, "smooth", step=(1 << 40) + 2)
    assert "VERBOSE elementtest::smooth: made a plug-in with step=2" in lines


def test_an_attribute_that_is_missing_is_an_error_in_words(library, tmp_path):
    lines = parsed(library, tmp_path, "smooth")
    assert "ERROR elementtest::smooth: the node has no attribute 'step' of the type int" in lines
    assert lines[-1] == "PARSED False"


def test_an_operator_without_a_kernel_for_cuda_says_so(library, tmp_path):
    lines = parsed(library, tmp_path, "total")
    assert any("ERROR elementtest::total: it has no kernel for CUDA devices" in each for each in lines)
    assert lines[-1] == "PARSED False"
