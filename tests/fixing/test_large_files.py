"""Models of more than 2 GB, whose weights are beside the file: a file with a hole, which takes no room."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import numpy as np
import onnx
import pytest

_ROWS = 9_000_000  # of 64 numbers of four bytes: 2.3 GB

_RUN = """
import json, sys
import opbridge

folder = sys.argv[1]
model = f"{folder}/m.onnx"
said = {"left": [each.rule for each in opbridge.lint(model, "tensorrt:8.5")]}
fixed = opbridge.fix(model, "tensorrt:8.5", f"{folder}/fixed.onnx")
said["fixed"] = [fixed.comparison.ok, len(fixed.comparison.runs), fixed.left.ok]
older = opbridge.convert(f"{folder}/fixed.onnx", opset_version=13, output=f"{folder}/older.onnx")
said["older"] = [older.comparison.ok, len(older.comparison.runs)]
with open("/proc/self/status") as status:
    said["peak"] = next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))
print(json.dumps(said))
"""

_EXPORT = """
import json, sys
import torch
import opbridge

rows = int(sys.argv[2])

class Table(torch.nn.Module):
    def __init__(self):
        super().__init__()
        weight = torch.from_file(f"{sys.argv[1]}/w.bin", shared=True, size=rows * 64).view(rows, 64)
        self.weight = torch.nn.Parameter(weight, requires_grad=False)
        self.norm = torch.nn.LayerNorm(64)

    def forward(self, places):
        return self.norm(torch.nn.functional.embedding(places, self.weight))

program = opbridge.export(
    Table().eval(), (torch.tensor([1, 2, 3]),), f"{sys.argv[1]}/m.onnx", target="tensorrt:8.5", opset_version=17
)
print(json.dumps([program.verification.ok, len(program.repairs), len(program.files)]))
"""


@pytest.fixture
def folder(tmp_path):
    """A folder with a file of 2.3 GB of zeros, which is removed with all that is written beside it."""
    if shutil.disk_usage(tmp_path).free < 12 << 30:
        pytest.skip("there is no room for copies of the weights")
    with open(tmp_path / "w.bin", "wb") as file:
        file.truncate(_ROWS * 64 * 4)
    yield tmp_path
    shutil.rmtree(tmp_path)


def _said(code: str, *arguments: str) -> object:
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.thorough
def test_a_file_is_linted_repaired_and_converted_in_little_memory(folder):
    made = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 18]> g (int64[n] i) => (float[n, 64] z) { a = Gather (w, i) b = Pow (a, k)'
        " z = LayerNormalization (b, s) }"
    )
    tensor = made.graph.initializer.add(name="w", data_type=1, data_location=onnx.TensorProto.EXTERNAL)
    tensor.dims.extend([_ROWS, 64])
    for key, value in (("location", "w.bin"), ("offset", "0"), ("length", str(_ROWS * 64 * 4))):
        tensor.external_data.add(key=key, value=value)
    for name, array in (("k", np.int64(2)), ("s", np.ones(64, "f"))):
        made.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), name))
    (folder / "m.onnx").write_bytes(made.SerializeToString())
    said = _said(_RUN, str(folder))
    assert {"mixed-pow", "missing-operator", "opset-range"} <= set(said["left"])
    assert said["fixed"] == [True, 4, True] and said["older"] == [True, 4]
    assert said["peak"] < 600_000  # of kB: a quarter of the weights


@pytest.mark.slow
@pytest.mark.thorough
def test_a_model_is_exported_for_a_target(folder):
    assert _said(_EXPORT, str(folder), str(_ROWS)) == [True, 1, 2]
