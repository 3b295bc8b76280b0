"""What lint finds in small files, for targets and by ONNX itself."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
import torch

import opbridge
from opbridge import rules

HEAD = '<ir_version: 8, opset_import: ["" : 17, "com.example" : 1]>'


def model(text: str, opset: int = 17) -> bytes:
    return onnx.parser.parse_model(HEAD.replace("17", str(opset)) + text).SerializeToString()


CLEAN = model("g (float[n, 4] x) => (float[n, 4] y) { y = Relu (x) }")
SORTED = model(
    "g (float[n, 5000] x) => (float[n, 4000] v, int64[n, 4000] i) <int64[1] k = {4000}> { v, i = TopK (x, k) }"
)
SCATTER = model("g (float[4] x, int64[2, 1] i, double[2] u) => (float[4] y) { y = ScatterND (x, i, u) }")
BRANCHES = model(
    "g (bool c, float[2] x) => (float[k] y) {"
    " y = If (c) <then_branch = t () => (float[2] a) { a = Relu (x) },"
    " else_branch = e () => (float[1, 2] b) { z = Constant <value_ints = [0]> () b = Unsqueeze (x, z) }> }"
)


def found(data: bytes, *targets: str, **settings: object) -> list[str]:
    return [each.rule for each in opbridge.lint(data, targets, **settings)]


@pytest.mark.parametrize("target", ["onnx", "onnxruntime", "tensorrt", "tensorrt:8.5"])
def test_nothing_is_found_in_a_model_that_the_target_takes(target):
    findings = opbridge.lint(CLEAN, target)
    assert findings.ok and not findings
    assert findings.summary().startswith("No findings in the model in memory for ")


def test_a_limit_of_a_target():
    [finding] = opbridge.lint(SORTED, "tensorrt:10.1")
    assert (finding.rule, finding.severity, finding.operator, finding.target) == (
        "too-large",
        "error",
        "TopK",
        "tensorrt:10.1",
    )
    assert "is 4000; the target supports numbers below 3840" in finding.message
    assert finding.source.startswith("published: onnx/onnx-tensorrt")
    assert found(SORTED, "onnxruntime") == []


def test_types_that_differ_are_found_whatever_the_target():
    assert found(SCATTER) == ["mixed-types"]
    assert found(SCATTER, "tensorrt:8.6").count("mixed-types") == 1


def test_bodies_are_looked_at():
    assert found(BRANCHES, "tensorrt:10.1") == ["branch-ranks"]
    assert found(BRANCHES) == []


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("g (float[4] x) => (float[4] y) { y = Gelu (x) }", "not-in-onnx"),
        ("g (string[4] x) => (string[4] y) { y = Relu (x) }", "type-not-in-onnx"),
        ("g (float[4] x) => (float[4] y) <float[2] w = {1, 2}> { y = Relu (x) }", "unused-initializer"),
        ("g (float[4] x) => (float[4] x) { y = Relu (x) }", "input-is-output"),
        ("g (float[4] x) => (float[4] y) { [n] a = Relu (x) [n] y = Relu (a) }", "duplicate-names"),
        (
            "g (float[4] x) => (float[4] y) { d = Cast <to = 11> (x) e = Relu (d) y = Cast <to = 1> (e) }",
            "float64",
        ),
        ("g (float[2] x) => (float[2] y) <float[2] w = {nan, 1}> { y = Add (x, w) }", "undefined-numbers"),
    ],
)
def test_what_onnx_itself_does_not_take(text, rule):
    assert found(model(text)) == [rule]


def test_kernels_are_asked_of_the_installed_onnxruntime():
    assert found(model("g (bool[4] x) => (bool[4] y) { y = com.example.Thing (x) }"), "onnxruntime") == ["no-kernel"]
    # ONNX has Mod of bfloat16, and ONNX Runtime no kernel for it.
    assert found(model("g (bfloat16[4] x) => (bfloat16[4] y) { y = Mod <fmod = 1> (x, x) }"), "onnxruntime") == [
        "no-kernel"
    ]
    # It casts float16 where it has no kernel.
    assert found(model("g (float16[4] x) => (float16[4] y) { y = Mul (x, x) }"), "onnxruntime") == []


@pytest.mark.parametrize(
    ("text", "opset", "newer"),
    [
        ("g (float[4] x) => (float[4] y) { y = Add (x, x) }", 3, 7),
        ("g (float[4] x) => (float[4] y) { y = Dropout (x) }", 3, 7),
        ("g (bfloat16[4] x) => (bfloat16[4] y) { y = Mod <fmod = 1> (x, x) }", 18, None),
    ],
)
def test_the_opset_at_which_the_runtime_has_a_kernel_is_named(text, opset, newer):
    found = [each for each in opbridge.lint(model(text, opset), "onnxruntime").found if each.rule == "no-kernel"]
    wanted = f"Convert the file: opbridge convert MODEL.onnx --opset {newer}." if newer else "Cast to a type"
    assert [each.remedy.startswith(wanted) for each in found] == [True]


@pytest.mark.parametrize("opset", [18, 20, 21])
def test_a_deprecated_form_is_no_operator_that_onnx_lacks(opset):
    text = "g (float[2,4,5] x, float[n] s) => (float[2,4,5] y) { y = GroupNormalization <num_groups = 2> (x, s, s) }"
    found = [each for each in opbridge.lint(model(text, opset)).found if each.operator == "GroupNormalization"]
    assert [(each.rule, each.severity) for each in found] == [("not-in-onnx", "warning")] * (opset < 21)
    assert all(f"GroupNormalization is deprecated at opset {opset}" in each.message for each in found)
    assert all("convert MODEL.onnx --opset 21" in each.remedy for each in found)


def test_types_and_shapes_that_the_file_does_not_have_are_inferred():
    text = "g (float[4] x) => (y) { c = Constant <value_ints = [1, 2]> () s = Shape (x) y = Div (s, c) }"
    data = onnx.ModelProto.FromString(model(text))
    assert not data.graph.value_info
    assert found(data.SerializeToString(), "tensorrt:10.1") == []


def test_rules_are_selected_and_ignored_by_patterns():
    assert found(SCATTER, "tensorrt:8.6", select=["mixed-*"]) == ["mixed-types"]
    assert found(SCATTER, ignore=["mixed-types"]) == []
    with pytest.raises(opbridge.UsageError, match="Unknown rule 'mixed-typ'. Did you mean 'mixed-types'"):
        opbridge.lint(SCATTER, select=["mixed-typ"])


def test_a_finding_has_the_line_of_the_models_code():
    class Sorted(torch.nn.Module):
        def forward(self, x):
            return x.topk(4000).values

    program = opbridge.export(Sorted(), (torch.rand(2, 5000),), verify=False)
    [finding] = [each for each in opbridge.lint(program.to_bytes(), "tensorrt:10.15") if each.rule == "too-large"]
    line = test_a_finding_has_the_line_of_the_models_code.__code__.co_firstlineno + 3
    assert finding.place.endswith(f"test_lint.py:{line}")


def test_a_file_of_torch_onnx_has_its_lines_too():
    data = onnx.ModelProto.FromString(SORTED)
    data.graph.node[0].metadata_props.add(
        key="pkg.torch.onnx.stack_trace", value='File "/a/net.py", line 7, in forward\n    return x.topk(4000)'
    )
    data.graph.node[0].metadata_props.add(key="pkg.torch.onnx.name_scopes", value="['', 'layers.0', 'topk']")
    [finding] = opbridge.lint(data.SerializeToString(), "tensorrt:10.1")
    assert (finding.place, finding.module) == ("/a/net.py:7", "layers.0")


def test_a_damaged_file_is_an_error_of_ours(tmp_path):
    with pytest.raises(opbridge.ModelFileError):
        opbridge.lint(SORTED[: len(SORTED) // 2], "tensorrt")
    with pytest.raises(opbridge.ModelFileError):
        opbridge.lint(tmp_path / "absent.onnx")


def test_sarif_and_annotations():
    findings = opbridge.lint(SORTED, "tensorrt:10.1")
    [run] = json.loads(json.dumps(rules.sarif(findings)))["runs"]
    assert [each["id"] for each in run["tool"]["driver"]["rules"]] == ["too-large"]
    assert run["results"][0]["level"] == "error"
    [line] = rules.github_annotations(findings)
    assert line.startswith("::error file=The model in memory,title=too-large::The input 'K' of TopK is 4000")


def test_every_rule_says_what_it_is():
    catalogue = rules.catalogue()
    assert len({each.identifier for each in catalogue}) == len(catalogue)
    for each in catalogue:
        assert each.title and each.why.endswith(".") and each.remedy.endswith("."), each


def test_a_large_constant_is_not_read(monkeypatch):
    weight = onnx.numpy_helper.from_array(np.ones((1 << 10, 1 << 10), np.float32), "w")
    graph = onnx.ModelProto.FromString(model("g (float[4, 1024] x) => (float[4, 1024] y) { y = MatMul (x, w) }"))
    graph.graph.initializer.append(weight)
    assert found(graph.SerializeToString(), "tensorrt:8.6", "onnxruntime") == []


@pytest.mark.parametrize("dtype", ["FLOAT6E2M3", "FLOAT", "INT64", "BFLOAT16"])
def test_a_constant_with_more_bytes_than_its_sizes_need_is_a_finding(dtype):
    text = """<ir_version: 14, opset_import: ["" : 28]>
    g (float[2, 3] x) => (float[2, 3] y) { y = CastLike (x, c) }"""
    model = onnx.parser.parse_model(text)
    constant = model.graph.initializer.add(name="c", dims=[3], raw_data=bytes(range(64)))
    constant.data_type = getattr(onnx.TensorProto, dtype)
    assert "unreadable-weight" in {each.rule for each in opbridge.lint(model.SerializeToString(), "onnx")}


@pytest.mark.slow
def test_names_of_megabytes_are_cut():
    made = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Relu (x) }'
    )
    made.graph.node[0].op_type = "a" * 20_000_000 + "b"
    (finding,) = (each for each in rules.lint(made.SerializeToString()) if each.operator)
    assert len(str(finding.document())) < 100_000 and finding.operator.endswith("ab")
