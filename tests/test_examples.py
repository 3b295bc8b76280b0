"""The examples run, as a user runs them, and print what their guides show."""

from __future__ import annotations

import difflib
import importlib.util
import re

import pytest
from helpers.documents import DOCS, ROOT, load
from helpers.scripts import run_script

EXAMPLES = ROOT / "examples"
GUIDES = DOCS / "guides"

printed = load(DOCS / "printed.py")

# What must be seen, by example.
SEEN = {
    "one_cpp_file": ["verified"],
    "dynamic_convolution": ["opbridge_ops::dynamic_conv", "verified", "'plugin_namespace': 'opbridge_ops'"],
    "deform_net": ["torchvision::deform_conv2d", "aten::cdist", "verified", "five images"],
    "own_mapping": ["['Asinh']", "aten::asinh", "verified"],
    "onnxscript_function": ["custom-onnx-script::Selu", "1 function", "verified"],
    "mapping_by_opset": ["opset 19: user translation, opset 18", "opset 20: user translation, opset 20: ['Gelu']"],
    "symbolic_asinh": ["aten::asinh: user symbolic function, opset 9", "opset 9: ['Asinh'], 1 output agrees"],
    "symbolic_deform_conv2d": [
        "nothing registered, opset 19",
        "custom::deform_conv2d, for which onnxruntime",
        "no file was written",
        "not verified: onnxruntime",
        "with a kernel: ['Conv', 'Constant', 'custom::deform_conv2d'], 1 output agrees",
        "another image: equal to PyTorch",
    ],
    "function_symbolic": ["python::MyAdd", "['Constant', 'Mul', 'Add']", "verified: "],
    "pybind11_operator": ["python::MyAdd", "verified: ", "another shape, (5, 7): equal to PyTorch"],
    "symbolic_onnxscript": ["functions: ['custom-onnx-script::Selu']", "verified: "],
    "symbolic_resize": ["opset 11", "scale 3.0 x 3.0: (1, 3, 36, 30), equal to PyTorch"],
    "python_op_handler": ["python::MyClip", "python::MyRelu", "::prim_PythonOp: ", "verified: "],
    "symbolic_attributes": [
        "custom_domain::Foo {'attr1': 0.5, 'attr2': 3}",
        "'custom_domain': 2",
        "not verified: onnx",
    ],
    "symbolic_by_opset": ["opset 13: ", "opset 14: ", "['HardSwish'], 1 output agrees"],
    "missing_operators": ["MISSING", "2 of 3 operators have no route", "in the schema's order", "verified"],
    "frozen_values": [
        "both branches exercised",
        "refused: The model cannot be captured: at ",
        "in forward (`if x.sum() > 0:`): a condition on the values of a tensor",
        "in forward (`scale = (1.0, 2.0, 3.0)[int(x.abs().max() * 0) + 1]`): a tensor becomes a Python int",
        "verified: ",
        "MISMATCH: ",
        "captured by a trace, because capture='export' failed",
    ],
    "export_modes": [
        "aten::mul.Tensor standard, aten::triu standard\n  ONNX::Mul, ONNX::Trilu\n  verified",
        "1 of 3 operators have no route",
        "aten::mul.Tensor aten, aten::triu aten",
        "standard, folding::fold aten\n  ONNX::Mul, ONNX::Trilu, org.pytorch.aten::ATen\n  verified",
        "it does not belong to aten",
        "aten=['folding::*']: equal to PyTorch",
        "standard, folding::fold fallthrough",
        "  aten::mul.Tensor, aten::triu, folding::fold\n  not verified: onnxruntime",
        "arguments      self:Tensor=tensor diagonal:SymInt=int",
        "triu = aten::triu(mul, 1)       float32[3, 3]",
    ],
    "text_generation": ["past_key_values.0.key ['batch', 2, 'past_sequence', 16]", "equal to model.generate"],
    "encoder_decoder": [
        "decoder: 1 output agrees with PyTorch",
        "run: 1 output agrees with PyTorch on 3 runs (example, inputs 1, inputs 2)",
        "encoder.onnx, decoder.onnx; weights stored once: True",
        "states (2, 7, 32)",
    ],
    "recorded_calls": [
        "calls 1, 2, 3 and 3 more (2 shapes)",
        "sample: float32 [batch=2..3, 4, height=4..6, width=4..8]",
        "verified: ",
        "The 6 calls of Denoiser have 2 signatures, but a file can have only one: 'scale' is left out in calls",
        "the second group: 1 output agrees",
    ],
    "triton_kernel": [
        "triton::gate_kernel_",
        "verified: ",
        "model.onnx, model.kernels.so",
        "equal to PyTorch's own operators",
    ],
    "supported_operators": ["torchvision::deform_conv2d", "aten::cummax"],
}
NEEDS_TORCHVISION = {"deform_net", "symbolic_deform_conv2d"}
WITH_TRITON = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton is not installed: pip install 'opbridge[triton]'"
)
MARKS = {**dict.fromkeys(NEEDS_TORCHVISION, pytest.mark.torchvision), "triton_kernel": WITH_TRITON}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=MARKS[name]) if name in MARKS else name for name in SEEN],
)
def test_example(name):
    done = run_script(EXAMPLES / f"{name}.py", folder=ROOT, COLUMNS="120")
    assert done.returncode == 0, done.stderr
    for text in SEEN[name]:
        assert text in done.stdout
    shown = printed.comparable((printed.FOLDER / f"{name}.txt").read_text())
    found = printed.comparable(printed.tidied(done.stdout))
    changes = difflib.unified_diff(shown.splitlines(), found.splitlines(), "the guide", "printed", lineterm="")
    assert shown == found, "\n".join([f"python docs/printed.py {name} writes it again", *changes])


@pytest.mark.parametrize("name", SEEN)
def test_what_is_printed_is_the_same_in_each_run(name):
    text = (EXAMPLES / f"{name}.py").read_text()
    assert not re.search(r"\brand(n|int|perm)?\(", text) or "torch.manual_seed(" in text


def test_every_example_is_run():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(SEEN)


@pytest.mark.parametrize("ending", [".md", ".zh.md"])
def test_every_example_is_a_guide(ending):
    """Its code and what it prints are included, so that they cannot fall behind."""
    listed = (GUIDES / f"index{ending}").read_text()
    for name in SEEN:
        guide = (GUIDES / f"{name}{ending}").read_text()
        assert f'--8<-- "examples/{name}.py"' in guide
        assert f'--8<-- "docs/printed/{name}.txt"' in guide
        assert f"]({name}.md)" in listed


def test_no_guide_or_output_is_without_an_example():
    assert {path.stem for path in printed.FOLDER.iterdir()} == set(SEEN)
    assert {path.name.partition(".")[0] for path in GUIDES.glob("*.md")} == {*SEEN, "index"}


def test_what_differs_between_runs_is_not_compared():
    once = "error 6.6e-07, loss 1.945 -> 0.638, onnxruntime 1.32.0, torch 2.15.0+cpu, lib-eb05f5c21dec331d.so  12 of 12"
    again = "error 1.2e-06, loss 1.9 -> 0.7, onnxruntime 1.31.1, torch 2.13.0+cu130, lib-0123456789abcdef.so 12 of 12"
    assert printed.comparable(once) == printed.comparable(again)
    assert printed.comparable(once) != printed.comparable(once.replace("12 of 12", "11 of 12"))
