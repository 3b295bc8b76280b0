"""The examples run, as a user runs them."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"

# What must be seen, by example.
SEEN = {
    "deform_net": ["torchvision::deform_conv2d", "aten::cdist", "verified", "five images"],
    "own_mapping": ["['Asinh']", "aten::asinh", "verified"],
    "onnxscript_function": ["custom-onnx-script::Selu", "1 function", "verified"],
    "mapping_by_opset": ["opset 19: user translation, opset 18", "opset 20: user translation, opset 20: ['Gelu']"],
    "missing_operators": ["MISSING", "2 of 3 operators have no route", "in the schema's order", "verified"],
    "supported_operators": ["torchvision::deform_conv2d", "aten::cummax"],
}
NEEDS_TORCHVISION = {"deform_net"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.torchvision) if name in NEEDS_TORCHVISION else name for name in SEEN],
)
def test_example(name):
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py"], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    for text in SEEN[name]:
        assert text in done.stdout


def test_every_example_is_run():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(SEEN)
