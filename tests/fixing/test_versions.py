"""Repairs of the opset: by conversion, before or after the other repairs, or with the reason why not."""

from __future__ import annotations

import onnx
import pytest

from opbridge.conversion.converting import converted
from opbridge.fixing import attempts, versions
from opbridge.onnx import serialize
from opbridge.rules.lint import chosen_rules
from opbridge.side_by_side import compare
from opbridge.targets import find_target

ROTARY = {
    "four dimensions": (
        "(float[b, 2, s, 8] x, float[b, s, 4] c, float[b, s, 4] n) => (float[b, 2, s, 8] y)"
        " { y = RotaryEmbedding (x, c, n) }"
    ),
    "a part": (
        "(float[b, 2, s, 8] x, float[b, s, 2] c, float[b, s, 2] n) => (float[b, 2, s, 8] y)"
        " { y = RotaryEmbedding <rotary_embedding_dim = 4> (x, c, n) }"
    ),
    "three dimensions": (
        "(float[b, s, 16] x, float[b, s, 4] c, float[b, s, 4] n) => (float[b, s, 16] y)"
        " { y = RotaryEmbedding <num_heads = 2> (x, c, n) }"
    ),
}


def _content(text: str, opset: int) -> bytes:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]> g {text}').SerializeToString()


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch):
    """Models of these tests end no process."""
    for name in ("converted", "converted_in_place"):
        function = getattr(versions, name)
        monkeypatch.setattr(versions, name, lambda *given, f=function, isolated=True: f(*given, isolated=False))


def _made(content: bytes, target: str, ignore: tuple[str, ...] = ()) -> attempts.Attempt:
    return attempts.Attempts(content, "model", [find_target(target)], chosen_rules((), ignore), ()).made()


@pytest.mark.parametrize("opset", [17, 9])
@pytest.mark.parametrize("text", ROTARY.values(), ids=ROTARY)
def test_a_rotary_embedding_of_dynamic_sizes_is_converted(text, opset):
    content = _content(text, 23)
    made = converted(content, "model", opset, isolated=False)
    found = compare(content, serialize.to_bytes(made.model), random=False, isolated=False)
    assert found.runs and found.ok and made.model.opset_imports[""] == opset


def test_fix_converts_to_what_the_target_supports():
    made = _made(_content(ROTARY["four dimensions"], 23), "tensorrt:8.6")
    assert "opset-range" in {each.finding.rule for each in made.changes}
    assert "opset-range" not in {each.rule for each in made.left} and made.model.opset_imports[""] == 17


_LIMITED = """
name = "chip"
versions = ["1.0"]
[[opsets]]
oldest = 9
newest = 16
source = "published: x"
[[fact]]
kind = "missing"
operators = ["DFT"]
source = "published: x"
"""
_TRANSFORM = "(float[1, 8, 2] x) => (float[1, 8, 2] y) { y = DFT <axis = 1> (x) }"

_IMAGE = "(uint8[n] x) => (uint8[h, w, 3] y) { y = ImageDecoder (x) }"


def test_fix_converts_after_other_repairs(tmp_path):
    path = tmp_path / "chip.toml"
    path.write_text(_LIMITED)
    content = _content(_TRANSFORM, 17)
    with pytest.raises(Exception, match="DFT"):
        converted(content, "model", 16, isolated=False)
    made = _made(content, str(path))
    assert [each.finding.rule for each in made.changes] == ["missing-operator", "opset-range"] and not made.left
    assert made.model.opset_imports[""] == 16
    assert compare(content, serialize.to_bytes(made.model), random=False, isolated=False).ok


def test_fix_says_why_it_did_not_convert(tmp_path):
    path = tmp_path / "chip.toml"
    path.write_text(_LIMITED)
    cases = ((_TRANSFORM, 17, ("missing-operator",), "DFT"), (_IMAGE, 20, (), "ImageDecoder"))
    for text, opset, ignore, operator in cases:
        made = _made(_content(text, opset), str(path), ignore)
        (remedy,) = (each.remedy for each in made.left if each.rule == "opset-range")
        assert "The model was not converted. At opset 16: " in remedy and operator in remedy
