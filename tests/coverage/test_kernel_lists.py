"""Facts of a runtime that lists its kernels."""

from __future__ import annotations

import tomllib

import onnx
import pytest

from opbridge.coverage.measuring.kernel_lists import Listed, text_of
from opbridge.targets import find_target
from opbridge.targets.facts import Only, Pattern, Revision, Types
from opbridge.targets.measured import combined

_NEWEST = onnx.defs.onnx_opset_version()
_FLOATS = frozenset({"float16", "float32"})


@pytest.fixture(scope="module")
def document() -> dict:
    kernels = [
        Listed("", "Relu", 14, _NEWEST, {"T": _FLOATS}),
        Listed("", "Relu", 6, 13, {"T": frozenset({"float64"})}),
        Listed("", "Resize", 13, 18, {"T1": _FLOATS}),
        Listed("", "Shape", 21, _NEWEST, {}),
        Listed("", "MemcpyToHost", 1, _NEWEST, {}),
        Listed("com.microsoft", "Inverse", 1, 1, {"T": _FLOATS}),
    ]
    text, count = text_of("cuda", "1.31.1", "measured: a test", kernels)
    found = tomllib.loads(text)
    assert count == len(found["fact"])
    return found


def _of(document: dict, kind: str) -> list[dict]:
    return [each for each in document["fact"] if each["kind"] == kind]


def test_operators_with_kernels_are_there(document: dict) -> None:
    listed = _of(document, "only")[0]["operators"]
    assert listed == ["Constant", "Relu", "Resize", "Shape", "com.microsoft::Inverse"]
    assert document["versions"] == ["1.31"]


def test_a_newer_form_without_kernel_is_not(document: dict) -> None:
    assert [(each["operators"], each["newest"]) for each in _of(document, "revision")] == [(["Resize"], 18)]


def test_types_are_those_of_all_kernels_of_one_form(document: dict) -> None:
    found = {each["operators"][0]: (each["inputs"], each["allowed"]) for each in _of(document, "types")}
    assert found["Relu"] == (["X"], ["float16", "float32", "float64"])
    assert "Shape" not in found


def test_what_is_published_of_these_kinds_does_not_hold_for_the_version(document: dict) -> None:
    published = {
        "name": "cuda",
        "versions": ["1.27", "1.28"],
        "fact": [
            {"kind": "only", "operators": ["Abs"], "source": "published: a table"},
            {
                "kind": "types",
                "operators": ["Abs"],
                "allowed": ["float32"],
                "until": "1.27",
                "source": "published: a table",
            },
            {"kind": "pattern", "rule": "uneven-average-pool", "source": "published: an issue"},
        ],
    }
    found = combined(published, document)
    own = [each for each in found["fact"] if each["source"].startswith("published")]
    assert [(each["kind"], each.get("until")) for each in own] == [
        ("only", "1.28"),
        ("types", "1.27"),
        ("pattern", None),
    ]


def test_the_newest_facts_of_cuda_are_measured() -> None:
    target = find_target("cuda")
    kinds = (Only, Revision, Types)
    assert all(each.source.startswith("measured") for kind in kinds for each in target.of_kind(kind))
    assert {"Add", "Constant"} <= {name for each in target.of_kind(Only) for name in each.operators}
    older = find_target("cuda:1.28")
    assert all(each.source.startswith("published") for kind in kinds for each in older.of_kind(kind))
    assert find_target("cuda:1.27").of_kind(Pattern)
