"""What the package declares: its dependencies, its extras, its types."""

from __future__ import annotations

import ast
import functools
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "opbridge"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

# Packages whose distribution has another name.
DISTRIBUTIONS = {"google": "protobuf", "_tools": "mnn", "tensorrt_rtx_bindings": "tensorrt-rtx-cu13-bindings"}

# Imported only for a model that uses it, which has imported it already.
THE_MODELS_OWN = {"transformers"}

USERS_EXTRAS = ("torch", "coverage", "ray", "models", "openvino", "mnn", "ncnn", "tensorrt-rtx", "triton", "genai")

# Imported on behalf of opbridge by torch.testing's sample database; imported by name, module by module; a program;
# libraries of another package; what runs the folders that opbridge writes.
INDIRECT = {
    "expecttest",
    "diffusers",
    "kornia",
    "onnxruntime-genai",
    "pnnx",
    "speechbrain",
    "stable-baselines3",
    "tensorrt-rtx-cu13-libs",
    "torchmetrics",
}


def imports(tree: ast.Module) -> set[str]:
    """The top-level packages that a file imports, at its top, in functions and for types alone."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            found.add(node.module)
    return {name.partition(".")[0] for name in found} - sys.stdlib_module_names - {"opbridge", "__future__"}


def names(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(text).name) for text in requirements}


@functools.cache
def imported() -> dict[str, list[str]]:
    """The distributions that opbridge imports -> the files that do."""
    found: dict[str, list[str]] = {}
    for file in sorted(SOURCE.rglob("*.py")):
        for package in imports(ast.parse(file.read_text())):
            name = canonicalize_name(DISTRIBUTIONS.get(package, package))
            found.setdefault(name, []).append(str(file.relative_to(SOURCE)))
    return found


def declared() -> set[str]:
    """The distributions that opbridge needs, and those of its extras for users."""
    extras = PROJECT["optional-dependencies"]
    return names(PROJECT["dependencies"]).union(*(names(extras[name]) for name in USERS_EXTRAS))


@pytest.mark.slow
def test_every_imported_package_is_declared():
    undeclared = {name: files for name, files in imported().items() if name not in declared() | THE_MODELS_OWN}
    assert not undeclared


@pytest.mark.slow
def test_every_declared_package_is_imported():
    assert declared() - INDIRECT - THE_MODELS_OWN == imported().keys() - THE_MODELS_OWN


@pytest.mark.parametrize(
    ("extra", "folder"),
    [
        ("coverage", "coverage"),
        ("ray", "coverage"),
        ("models", "coverage/models/families"),
        ("openvino", "runtimes/openvino"),
        ("mnn", "runtimes/mnn"),
        ("ncnn", "runtimes/ncnn"),
        ("tensorrt-rtx", "runtimes/tensorrt_rtx"),
    ],
)
def test_what_an_extra_holds_is_imported_by_its_folder_alone(extra, folder):
    for name in names(PROJECT["optional-dependencies"][extra]) - INDIRECT - THE_MODELS_OWN:
        assert all(file.startswith(f"{folder}/") for file in imported()[name])


def test_the_types_are_announced():
    """Type checkers read the annotations of packages with this file (PEP 561)."""
    assert (SOURCE / "py.typed").read_bytes() == b""
    assert "Typing :: Typed" in PROJECT["classifiers"]


def test_imports_are_found_wherever_they_stand():
    code = "import os, a.b\nfrom c.d import e\nfrom . import f\nif typing:\n    import g\ndef h():\n    from i import j"
    assert imports(ast.parse(code)) == {"a", "c", "g", "i"}
