"""Tests an installed wheel: `wheel_test.py WHEEL` makes a new environment without a compiler, installs the wheel there,
and runs a model with a built-in kernel and the commands that need no torch.

The environment has its own home and cache, and nothing but its own programs in PATH: what the wheel does not hold is
not there.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

__all__: list[str] = []

RUN = """
import pathlib, sys
import numpy, onnx
import opbridge
from opbridge.errors import BuildError
from opbridge.kernels import compiler, shipped

assert pathlib.Path(opbridge.__file__).is_relative_to(sys.prefix), opbridge.__file__
try:
    compiler.find_compiler()
except BuildError:
    pass
else:
    raise AssertionError("there is a compiler in the environment that is to have none")
for name in shipped.LIBRARIES:
    assert pathlib.Path(shipped.shipped(name)).is_relative_to(sys.prefix), name

text = '''<ir_version: 8, opset_import: ["" : 17, "opbridge_ops" : 1]>
g (float[1, 2, t] x, float[1, 1, 3, t] weight) => (float[1, 2, t] y) {
    y = opbridge_ops.dynamic_conv <padding_l = 1> (x, weight)
}'''
model = onnx.parser.parse_model(text)
model.metadata_props.add(key="opbridge.kernels", value="opbridge_ops::dynamic_conv")
onnx.save(model, "model.onnx")
x = numpy.random.default_rng(0).random((1, 2, 5), numpy.float32)
middle = numpy.zeros((1, 1, 3, 5), numpy.float32)
middle[:, :, 1] = 1
(y,) = opbridge.session("model.onnx").run(None, {"x": x, "weight": middle})
numpy.testing.assert_allclose(y, x)

text = '''<ir_version: 8, opset_import: ["" : 17]>
g (float[n, 3] x, float[3] scale, float[3] bias) => (float[n, 3] y) { y = LayerNormalization (x, scale, bias) }'''
onnx.save(onnx.parser.parse_model(text), "norm.onnx")
print("runs", opbridge.__version__, "on", sys.version.split()[0])
"""

COMMANDS = (
    ["--version"],
    ["lint", "norm.onnx"],
    ["fix", "norm.onnx", "--target", "tensorrt:8.5", "-o", "fixed.onnx"],
    ["convert", "norm.onnx", "--opset", "12", "-o", "older.onnx"],
    ["targets", "tensorrt:10.1"],
)


def main(wheel: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        venv.create(home / "venv", with_pip=True)
        programs = home / "venv" / "bin"
        subprocess.run([programs / "python", "-m", "pip", "install", "--quiet", str(wheel)], check=True)
        environment = {"PATH": str(programs), "HOME": folder, "LC_ALL": "C.UTF-8"}
        subprocess.run([programs / "python", "-c", RUN], check=True, cwd=folder, env=environment)
        for command in COMMANDS:
            subprocess.run(
                [programs / "opbridge", *command], check=True, cwd=folder, env=environment, stdout=subprocess.DEVNULL
            )
        print(f"{wheel.name} runs without a compiler and without torch")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
