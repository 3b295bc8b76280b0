"""Operators that the user's runtime has in addition: their patterns, in lint and in exports for a target."""

from __future__ import annotations

import onnx
import pytest
import torch

import opbridge
from opbridge.cli import main
from opbridge.fixing.site import has_repair
from opbridge.targets import find_targets, provided

MODEL = onnx.parser.parse_model(
    '<ir_version: 8, opset_import: ["" : 17, "trt" : 1, "other" : 1]> g (float[4, 8] x) => (float[4, 3] y) '
    "{ z = trt.MyTopK <k = 3> (x) y = other.Scale (z) }"
)
TARGETS = ["tensorrt:10.1", "tensorrt-rtx", "onnxruntime", "web", "webgpu", "openvino", "ncnn"]


class MyTopK(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        return x.topk(k).values

    @staticmethod
    @torch.onnx.symbolic_helper.parse_args("v", "i")
    def symbolic(g, x, k):
        return g.op("trt::MyTopK", x, k_i=k)


class Ranked(torch.nn.Module):
    def forward(self, x):
        return MyTopK.apply(x, 3) * 2, x + 1


X = (torch.rand(4, 8),)


def missing(target: str, *patterns: str) -> list[str]:
    return [each.operator for each in opbridge.lint(MODEL.SerializeToString(), target, provides=patterns)]


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_missing_is_an_error_that_nothing_repairs(target):
    found = [each for each in opbridge.lint(MODEL.SerializeToString(), target) if "::" in each.operator]
    assert {each.operator for each in found} == {"trt::MyTopK", "other::Scale"}
    assert all(each.severity == "error" and not has_repair(each) for each in found)


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("MyTopK", "DOMAIN::OPERATOR"),
        ("trt::", "DOMAIN::OPERATOR"),
        ("trt:MyTopK", "DOMAIN::OPERATOR"),
        ("a::b::c", "DOMAIN::OPERATOR"),
        ("*::*", "DOMAIN::OPERATOR"),
        ("", "DOMAIN::OPERATOR"),
        (3, "DOMAIN::OPERATOR"),
        ("::TopK", "the domain of ONNX itself"),
        ("ai.onnx::TopK", "the domain of ONNX itself"),
    ],
)
def test_what_is_no_pattern_is_a_usage_error(pattern, said):
    with pytest.raises(opbridge.UsageError, match=said) as caught:
        provided.checked([pattern])
    assert f"provides={pattern!r} is invalid" in str(caught.value)


def test_a_pattern_names_a_domain_and_operators_in_it():
    patterns = provided.checked("trt::My*")
    assert patterns == ("trt::My*",)
    assert provided.is_provided("trt", "MyTopK", patterns)
    assert not provided.is_provided("trt", "mytopk", patterns)
    assert not provided.is_provided("", "TopK", provided.checked(["*t::TopK"]))


def test_patterns_need_a_target():
    with pytest.raises(opbridge.UsageError, match="valid only with a target"):
        opbridge.lint(MODEL.SerializeToString(), provides=["trt::*"])
    (target,) = find_targets("tensorrt:10.1", ["trt::*"])
    assert target.provides("trt", "MyTopK") and target.document()["provided"] == ["trt::*"]


@pytest.mark.parametrize("target", TARGETS)
def test_lint_does_not_report_what_the_runtime_provides(target):
    assert missing(target) == ["trt::MyTopK", "other::Scale"]
    assert missing(target, "trt::MyTopK") == ["other::Scale"]
    assert missing(target, "trt::*", "other::Scale") == []


def test_the_remedy_says_how_to_state_it():
    (finding, _) = opbridge.lint(MODEL.SerializeToString(), "tensorrt:10.1")
    assert "--provides trt::MyTopK" in finding.remedy


def test_a_plug_in_is_exported_for_its_target(tmp_path):
    program = opbridge.export(
        Ranked(),
        X,
        tmp_path / "m.onnx",
        target="tensorrt:10.1",
        provides=["trt::*"],
        custom_opsets={"trt": 2},
        output_names=["best", "more"],
    )
    assert program.findings.ok and not program.findings
    assert program.unverified.endswith(
        "has no kernel for trt::MyTopK, so these outputs were not compared with PyTorch: best, more"
    )
    file = onnx.load(tmp_path / "m.onnx")
    assert {each.domain: each.version for each in file.opset_import}["trt"] == 2
    assert [each.op_type for each in file.graph.node if each.domain] == ["MyTopK"]


def test_without_the_statement_the_plug_in_is_missing_and_the_remedy_names_it():
    plan = opbridge.check(Ranked(), X, target="tensorrt:10.1")
    assert 'provides=["trt::MyTopK"] (--provides)' in plan.missing[0].remedy
    assert opbridge.check(Ranked(), X, target="tensorrt:10.1", provides="trt::MyTopK").ok


def test_a_pattern_that_fits_nothing_is_a_note_with_what_was_meant():
    plan = opbridge.check(Ranked(), X, provides=["trt::*", "trt::MyTopk"])
    assert "provides='trt::MyTopk' matches no operator of the model. Did you mean 'trt::MyTopK'?" in plan.notes


@pytest.mark.slow
def test_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    onnx.save(MODEL, "model.onnx")
    given = ["lint", "model.onnx", "--target", "tensorrt:10.1"]
    assert main([*given, "--provides", "trt::*", "--provides", "other::Scale"]) == 0
    assert main([*given, "--provides", "trt::*,other::*"]) == 0
    assert main([*given, "--provides", "MyTopK"]) == 2
    assert "DOMAIN::OPERATOR" in capsys.readouterr().err
    (tmp_path / "net.py").write_text(
        "import torch\nfrom test_provided import Ranked\n\n\ndef build():\n    return Ranked(), (torch.rand(4, 8),)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    options = ["net.py:build", "--target", "tensorrt:10.1", "--provides", "trt::MyTopK"]
    assert main(["check", *options]) == 0
    assert main(["export", *options, "-o", "net.onnx"]) == 0
    assert "not verified: onnxruntime" in capsys.readouterr().out
