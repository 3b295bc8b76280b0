"""Nodes of kernels in a model for TensorRT carry what its parser finds their plug-ins by."""

from __future__ import annotations

import onnx_ir as ir
import pytest

import opbridge
from opbridge.fit import plugins
from opbridge.fit.target import find_target
from opbridge.kernels import library
from opbridge.kernels.library import Declared

ADD = "planned::add(Tensor a, Tensor b, *, int step=1) -> Tensor"
SPLIT = "planned::split(Tensor a, int[] sizes) -> (Tensor, Tensor[])"
ON_CPU = "planned::on_cpu(Tensor a) -> Tensor"


class Loaded:
    """A library with kernels, two of them for CUDA devices."""

    operators = (
        Declared(ADD, "planned", "add", "", cuda=True),
        Declared(SPLIT, "planned", "split", "", cuda=True),
        Declared(ON_CPU, "planned", "on_cpu", ""),
    )


@pytest.fixture(autouse=True)
def loaded(monkeypatch):
    names = {each.name for each in Loaded.operators}
    monkeypatch.setattr(library, "find", lambda name: Loaded() if name in names else None)


def model(node: str, domain: str = "planned") -> ir.Model:
    header = f'<ir_version: 9, opset_import: ["" : 18, "{domain}" : 1]>'
    return ir.from_onnx_text(f"{header} g (float[n] a, float[n] b) => (float[n] y) {{ {node} }}")


def marked(node: str, target: str | None = "tensorrt:10.15", **settings) -> tuple[dict[str, object], dict]:
    made = model(node)
    problems = plugins.mark(made, find_target(target, None, **settings))
    return {name: each.value for name, each in made.graph.node(0).attributes.items()}, problems


def test_a_kernel_with_cuda_becomes_a_plug_in():
    found, problems = marked("y = planned.add <step = 2> (a, b)")
    assert found == {"step": 2, "plugin_namespace": "planned", "plugin_version": "1"}
    assert not problems


def test_a_list_of_results_tells_how_many_outputs_there_are():
    found, _ = marked("z, y, x = planned.split <sizes = [1, 2]> (a)")
    assert found["plugin_outputs"] == 3


@pytest.mark.parametrize("target", [None, "tensorrt-rtx", "tensorrt:8.6", "openvino:2026.2", "cuda"])
def test_other_targets_have_no_plug_ins(target):
    assert marked("y = planned.add (a, b)", target)[0] == {}


def test_other_nodes_are_left_as_they_are():
    assert marked("y = planned.on_cpu (a)")[0] == {}
    assert marked("y = planned.other (a)")[0] == {}
    assert marked("y = Add (a, b)")[0] == {}
    assert marked("y = planned.add (a, b)", provides=["planned::add"])[0] == {}


@pytest.mark.parametrize("attribute", ["step = 2147483648", "step = -2147483649", "sizes = [1, 9223372036854775807]"])
def test_an_integer_that_the_parser_would_cut_is_a_problem(attribute):
    name, _, value = attribute.partition(" = ")
    _, problems = marked(f"y = planned.add <{attribute}> (a, b)")
    problem = problems["planned::add"]
    number = value.strip("[]").split(", ")[-1]
    assert problem.reason == (
        f"The attribute '{name}' of planned::add is {number}, of which TensorRT's parser gives only 32 bits to the "
        "plug-in."
    )
    assert not marked("y = planned.add <step = 2147483647> (a, b)")[1]


def test_an_input_that_is_left_out_before_others_is_a_problem():
    reason = "planned::add is called without an input that precedes others, which is not supported in plug-ins."
    assert marked('y = planned.add ("", b)')[1]["planned::add"].reason == reason
    assert marked('y = planned.add (a, "", b, "")')[1]["planned::add"].reason == reason
    assert not marked('y = planned.add (a, "")')[1]


def findings(made: ir.Model, target: str, **settings) -> list:
    return [each for each in opbridge.lint(ir.to_proto(made).SerializeToString(), target, **settings) if each.operator]


def test_lint_says_which_library_a_plug_in_needs():
    made = model("y = planned.add (a, b)")
    (before,) = findings(made, "tensorrt:10.15")
    assert (before.rule, before.severity) == ("missing-operator", "error")
    plugins.mark(made, find_target("tensorrt:10.15", None))
    (found,) = findings(made, "tensorrt:10.15")
    assert (found.rule, found.severity) == ("needs-plugin", "warning")
    assert found.message == "planned::add is a plug-in."
    assert "trtexec --dynamicPlugins=LIBRARY" in found.remedy
    assert "opbridge build FILE.cpp --tensorrt" in found.remedy
    assert not findings(made, "tensorrt:10.15", provides=["planned::*"])
    (before,) = findings(made, "tensorrt:8.6")
    assert (before.rule, before.severity) == ("missing-operator", "error")
    (refused,) = findings(made, "tensorrt-rtx")
    assert (refused.rule, refused.severity) == ("needs-plugin", "error")
    assert "the process ends when it is added to the network" in refused.message
    assert refused.remedy == "Use other operators, or another runtime."


def test_lint_says_how_a_built_in_kernel_becomes_a_plug_in():
    made = model("y = opbridge_ops.add (a, b)", "opbridge_ops")
    (found,) = findings(made, "tensorrt:10.15")
    assert (found.rule, found.severity) == ("missing-operator", "error")
    assert found.remedy.startswith("Export the model with --target tensorrt:10.15, which marks the node as a plug-in")


def test_lint_names_the_library_of_the_built_in_kernels():
    made = model('y = opbridge_ops.add <plugin_namespace = "opbridge_ops"> (a, b)', "opbridge_ops")
    (found,) = findings(made, "tensorrt:11.1")
    assert (
        "opbridge build --tensorrt, and load it with trtexec --dynamicPlugins=opbridge_ops.tensorrt.so" in found.remedy
    )
