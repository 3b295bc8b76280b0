"""The files of measured facts, beside those of published ones, and what a target is that has both."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["BY_PATTERNS", "BY_SIZES", "MEASURED", "SINCE", "TARGETS", "combined", "names", "path_of", "taken"]

TARGETS = {
    "openvino": ("openvino", "OpenVINO (ONNX frontend)"),
    "web": ("web", "onnxruntime-web (wasm)"),
    "mnn": ("mnn", "MNN (ONNX converter)"),
    "ncnn": ("ncnn", "ncnn (pnnx converter)"),
    "tensorrt-rtx": ("tensorrt-rtx", "TensorRT-RTX (parser and builder)"),
    "cuda": ("cuda", "ONNX Runtime with CUDA"),
}
"""By the runtime, the name and the title of the target whose facts are measured on it."""

MEASURED = tuple(TARGETS)
"""The runtimes that are measured."""

BY_PATTERNS = ("ncnn",)
"""Those that take patterns of nodes and of what is constant, which tests of single nodes do not show: what none of them
runs is a warning."""

BY_SIZES = {"tensorrt-rtx": ("Attention",)}
"""By the runtime, operators that it has kernels of for some sizes, where tests have small ones: what is not built of
them is a warning."""

SINCE = {"tensorrt-rtx": "1.4"}
"""By the target, the first release in which everything is refused that the measured one refuses, as far as node tests
were tried on it. What it refuses besides stands with the published facts."""

_FOLDER = Path(__file__).parent / "data" / "measured"


def names() -> list[str]:
    """The targets that there are measured facts of."""
    return sorted(each.stem for each in _FOLDER.glob("*.toml"))


def path_of(name: str) -> Path:
    """The file of a target's measured facts, which may not be there."""
    return _FOLDER / f"{name}.toml"


def taken(name: str) -> frozenset[str]:
    """The operators that were seen to run on a target."""
    path = path_of(name)
    return frozenset(tomllib.loads(path.read_text("utf-8"))["taken"]) if path.exists() else frozenset()


def combined(published: Mapping[str, Any] | None, found: Mapping[str, Any]) -> dict[str, Any]:
    """A target's file with its measured facts.

    1. The measured version is one of the target's versions. What is published of the one before holds for it too.
    2. Measured facts hold for their version, and from `SINCE` on.
    3. What is published of that version, and says of an operator what a measurement showed to be wrong
       (`contradicted`), does not hold for that operator there; what was measured by other models than the tests does.
       An operator that was seen to run (`taken`) is one that the target has.
    4. What is published of kinds that a measurement tells completely (`replaces`) does not hold for its version.

    Args:
        published: What is published; None: nothing.
        found: What is measured.
    """
    version = str(found["versions"][0])
    first = SINCE.get(str(found["name"]), version) if published is not None else version
    facts = [{**each, "since": first, "until": version} for each in found.get("fact", ())]
    opsets = [{**each, "since": version, "until": version} for each in found.get("opsets", ())]
    if published is None:
        return {**found, "fact": facts, "opsets": opsets}
    versions = sorted({*published["versions"], version}, key=_order)
    older = [each for each in published["versions"] if _order(each) <= _order(version)]
    nearest = older[-1] if older else version
    wrong = {(str(each["kind"]), name) for each in found.get("contradicted", ()) for name in each["operators"]}
    told = published.get("sources", {})
    own: list[dict[str, Any]] = []
    for each in published.get("fact", ()):
        if each["kind"] in found.get("replaces", ()):
            own += _before(dict(each), versions, version)
            continue
        is_measured = str(told.get(each["source"], each["source"])).startswith("measured")
        own += _without(dict(each), versions, version, nearest, set() if is_measured else wrong)
    lists = [each for each in own if each["kind"] == "only" and _is_of(each, versions, version)]
    listed = {operator for each in lists for operator in each["operators"]}
    if lists and (seen := [each for each in found.get("taken", ()) if each not in listed]):
        facts.append({"kind": "only", "operators": seen, "source": "measured", "since": version, "until": version})
    sources = {**published.get("sources", {}), **found.get("sources", {})}
    whole = {**published, "versions": versions, "sources": sources}
    return {**whole, "fact": [*own, *facts], "opsets": [*published.get("opsets", ()), *opsets]}


def _before(fact: dict[str, Any], versions: list[str], version: str) -> list[dict[str, Any]]:
    """A published fact for the versions before and after the measured one."""
    if not _is_of(fact, versions, version):
        return [fact]
    at = versions.index(version)
    parts = []
    if at and _order(fact.get("since") or versions[0]) <= _order(versions[at - 1]):
        parts.append({**fact, "until": versions[at - 1]})
    if at + 1 < len(versions) and _order(fact.get("until") or versions[-1]) >= _order(versions[at + 1]):
        parts.append({**fact, "since": versions[at + 1]})
    return parts


def _without(
    fact: dict[str, Any], versions: list[str], version: str, nearest: str, wrong: set[tuple[str, str]]
) -> list[dict[str, Any]]:
    """A published fact, which holds for a measured version where it does for the one before, without what is wrong of
    it there."""
    last = fact.get("until")
    if last is not None and last == nearest:
        fact["until"] = last = version
    operators = fact.get("operators", [])
    left = [each for each in operators if (fact["kind"], each) not in wrong]
    first = fact.get("since") or versions[0]
    if not _is_of(fact, versions, version) or left == operators or fact["kind"] == "only":
        return [fact]
    before = versions[: versions.index(version)]
    after = versions[versions.index(version) + 1 :]
    parts = []
    if before and _order(first) <= _order(before[-1]):
        parts.append({**fact, "until": before[-1]})
    if left:
        parts.append({**fact, "operators": left, "since": version, "until": version})
    if after and _order(last or versions[-1]) >= _order(after[0]):
        parts.append({**fact, "since": after[0]})
    return parts


def _is_of(fact: Mapping[str, Any], versions: list[str], version: str) -> bool:
    """Whether a fact holds for a version."""
    first, last = fact.get("since") or versions[0], fact.get("until") or versions[-1]
    return _order(first) <= _order(version) <= _order(last)


def _order(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
