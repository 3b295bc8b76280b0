"""`export(target=...)`: the opset, the repairs, what stays, and the error."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
import torch

import opbridge
from opbridge.fixing import site
from opbridge.onnx.versions import ir_version


class Ranked(torch.nn.Module):
    def forward(self, x):
        return x.argmax(-1), x.sort(-1).values, x.isnan().any(-1), x.max(-1).values


class Normed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(8)

    def forward(self, x):
        return self.norm(x)


class Strings(torch.nn.Module):
    def forward(self, x):
        return torch.linalg.det(x)


TARGET = """
name = "mychip"
versions = ["1.0"]
[[opsets]]
oldest = 9
newest = 19
ir_version = 9
source = "published: the manual"
[[fact]]
kind = "missing"
operators = ["Det"]
source = "published: the manual"
"""


@pytest.mark.slow
def test_the_newest_opset_that_both_take_is_chosen(tmp_path):
    path = tmp_path / "m.onnx"
    for target, opset in (("tensorrt:8.6", 17), ("tensorrt:10.1", 20), ("openvino", 21), ("onnx:15", 15)):
        opbridge.export(Normed(), (torch.randn(2, 8),), path, target=target)
        assert onnx.load(path).opset_import[0].version == opset
    assert opbridge.export(Normed(), (torch.randn(2, 8),), path, target="tensorrt:8.6", opset_version=13).findings.ok
    assert onnx.load(path).opset_import[0].version == 13


def test_an_opset_that_the_target_does_not_take_is_refused():
    with pytest.raises(
        opbridge.UsageError, match="opset_version=18 is not supported: tensorrt:8.6 supports opset 9 to 17"
    ):
        opbridge.export(Normed(), (torch.randn(2, 8),), target="tensorrt:8.6", opset_version=18)
    with pytest.raises(opbridge.UsageError, match="Unknown target 'tensort'.*Did you mean 'tensorrt'"):
        opbridge.export(Normed(), (torch.randn(2, 8),), target="tensort")


def test_what_the_target_lacks_is_repaired_in_the_file_that_is_verified(tmp_path):
    program = opbridge.export(Normed(), (torch.randn(2, 8),), tmp_path / "m.onnx", target="tensorrt:8.5")
    assert [each.finding.rule for each in program.repairs] == ["missing-operator"] and not program.findings
    assert program.verification.ok
    written = onnx.load(tmp_path / "m.onnx")
    assert "LayerNormalization" not in {each.op_type for each in written.graph.node}
    assert {each.key: each.value for each in written.metadata_props}["opbridge.target"] == "tensorrt 8.5"
    sources = [{each.key: each.value for each in node.metadata_props}["opbridge.source"] for node in written.graph.node]
    assert all("test_export_for_targets.py" in each for each in sources)


@pytest.mark.parametrize("target", ["tensorrt:8.6", "tensorrt:10.1", "openvino"])
def test_our_translations_make_no_needless_findings(target):
    x = torch.tensor([[3.0, float("nan"), 1.0, float("inf")], [3.0, 2.0, -1.0, 3.0]])
    found = opbridge.export(Ranked(), (x,), target=target).findings
    # OpenVINO was seen to order equal elements otherwise, which is a warning at each TopK.
    assert {(each.operator, each.severity) for each in found} <= {("TopK", "warning")}
    assert target == "openvino" or not found


def test_what_no_repair_mends_is_an_error_that_names_the_line(tmp_path):
    chip = tmp_path / "mychip.toml"
    chip.write_text(TARGET)
    path = tmp_path / "m.onnx"
    with pytest.raises(opbridge.TargetError, match="mychip:1.0 does not support the model, and there is no") as caught:
        opbridge.export(Strings(), (torch.randn(3, 3),), path, target=str(chip))
    lines = Path(__file__).read_text("utf-8").splitlines()
    line = next(at for at, text in enumerate(lines, 1) if "linalg.det" in text)
    assert f"test_export_for_targets.py:{line}: The target does not support the operator Det." in str(caught.value)
    assert not path.exists() and caught.value.file == tmp_path / "m.failed.onnx" and caught.value.file.exists()
    assert [each.rule for each in caught.value.findings] == ["missing-operator"]


def test_the_version_of_the_format_is_the_one_that_onnx_has_for_the_opset():
    for _, version, opset, *_ in onnx.helper.VERSION_TABLE:
        if opset >= 9:
            oldest = min(row[1] for row in onnx.helper.VERSION_TABLE if row[2] == opset)
            assert ir_version(opset) == oldest, (opset, version)


def test_a_repair_that_fails_is_undone_and_the_others_are_made(monkeypatch):
    def failing(found):
        found.node.replace_input_with(0, None)
        raise KeyError("none")

    monkeypatch.setitem(site._REPAIRS, "unsupported-argument", [(frozenset(["LayerNormalization"]), failing)])
    monkeypatch.setitem(site._REPAIRS, "missing-operator", [(frozenset(["LayerNormalization"]), failing)])
    with pytest.raises(opbridge.TargetError, match=r"The repair was undone: it failed \(KeyError"):
        opbridge.export(Normed(), (torch.randn(2, 8),), target="tensorrt:8.5", opset_version=17)
