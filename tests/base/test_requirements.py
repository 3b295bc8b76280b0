"""What is said of a package that is missing, or in a release that does not work."""

from __future__ import annotations

import ast
import importlib
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import opbridge
from opbridge.base.requirements import REQUIREMENTS, require

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def put(folder: Path, package: str, version: str, module: str = "") -> None:
    """A package as pip installs it: a module, and the metadata of its distribution."""
    (folder / package).mkdir()
    (folder / package / "__init__.py").write_text(module)
    metadata = folder / f"{package}-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")


@pytest.fixture(autouse=True)
def imported():
    """A test that takes a module away puts it back."""
    for package in REQUIREMENTS:
        importlib.import_module(package)


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """The only folder with packages, in which there is no onnxruntime yet."""
    monkeypatch.delitem(sys.modules, "onnxruntime")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    return tmp_path


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Puts a package of a version into the place of the installed one."""
    monkeypatch.syspath_prepend(tmp_path)

    def installed(package: str, version: str) -> None:
        monkeypatch.delitem(sys.modules, package)
        put(tmp_path, package, version)

    return installed


def refused() -> str:
    with pytest.raises(opbridge.RequirementError) as caught:
        require("export")
    assert caught.value.exit_status == 2
    message = str(caught.value)
    assert sys.executable in message and "\n" not in message
    return message


def test_the_releases_are_those_of_the_project():
    declared = [Requirement(text) for text in (*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["torch"])]
    by_name = {canonicalize_name(each.name): each.specifier for each in declared}
    for package, bounds in REQUIREMENTS.items():
        assert by_name[canonicalize_name(package)] == Requirement(package + bounds).specifier


def test_the_installed_packages_work():
    for use in ("export", "files", "run"):
        require(use)


@pytest.mark.parametrize(
    "package, old, needed",
    [
        ("onnx", "1.19.1", "'onnx>=1.20'"),
        ("onnx_ir", "0.1.13", "'onnx_ir>=1.0,<2'"),
        ("onnxruntime", "1.22", "'onnxruntime>=1.23'"),
        ("onnxscript", "0.6.2", "'onnxscript>=0.7'"),
        ("torch", "2.12.1+cpu", "'torch>=2.13'"),
        ("torch", "1.13.1", "'torch>=2.13'"),
        ("torch", "2.12.0a0+git1234567", "'torch>=2.13'"),
    ],
)
def test_an_old_release_is_named_with_those_that_work(installed, package, old, needed):
    installed(package, old)
    message = refused()
    assert f"{package} {needed.partition('>=')[2].split(',')[0].rstrip(chr(39))} or newer" in message
    assert f"({old} is installed)" in message
    assert f"Install with: pip install {needed} (in the environment of" in message


@pytest.mark.parametrize(
    "package, version",
    [
        ("onnx", "1.20.0"),
        ("onnx", "2.0.0"),
        ("onnx_ir", "1.0"),
        ("onnx_ir", "1.99.3"),
        ("onnxruntime", "1.23.0.dev20251001"),
        ("onnxscript", "0.7"),
        ("torch", "2.13"),
        ("torch", "2.13.0rc1"),
        ("torch", "2.14.1+cpu"),
        ("torch", "2.16.0a0+git1234567"),
        ("torch", "3.0"),
        ("torch", "unknown"),
    ],
)
def test_a_release_counts_by_its_number(installed, package, version):
    installed(package, version)
    require("export")


def test_a_release_that_is_too_new(installed):
    installed("onnx_ir", "2.0.0")
    message = refused()
    assert "onnx_ir 1.0 or newer and older than 2 (2.0.0 is installed)" in message
    assert "pip install 'onnx_ir>=1.0,<2' (in" in message


@pytest.mark.parametrize("package", sorted(REQUIREMENTS))
def test_a_package_that_is_missing(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    message = refused()
    assert f"{package} {REQUIREMENTS[package][2:].partition(',')[0]} or newer" in message
    assert "(not installed)" in message
    extra = "opbridge[torch]" if package == "torch" else package + REQUIREMENTS[package]
    assert f"pip install '{extra}' (in" in message
    with pytest.raises(ImportError) as caught:
        require("export")
    assert caught.value.name == package


def test_a_folder_of_the_name_is_no_package(elsewhere):
    (elsewhere / "onnxruntime").mkdir()
    with pytest.raises(opbridge.RequirementError, match=r"onnxruntime 1\.23 or newer \(not installed\)"):
        require("run")


def test_all_that_is_wrong_is_said_at_once(installed, monkeypatch):
    installed("torch", "2.9.1")
    installed("onnx_ir", "2.1")
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    message = refused()
    assert "(2.9.1 is installed) and onnx_ir" in message
    assert "pip install 'torch>=2.13' 'onnx_ir>=1.0,<2' 'onnxscript>=0.7' (in" in message


@pytest.mark.parametrize("version", ["1.23.2", "1.24.0+gpu", ""])
def test_a_package_of_another_name_says_its_release_itself(elsewhere, version):
    """onnxruntime-gpu holds the module onnxruntime, and a tree that was built in place has no metadata."""
    (elsewhere / "onnxruntime.py").write_text(f"__version__ = '{version}'\n" if version else "")
    require("run")


def test_an_old_package_of_another_name(elsewhere):
    (elsewhere / "onnxruntime.py").write_text("__version__ = '1.22.1'\n")
    with pytest.raises(opbridge.RequirementError, match=r"\(1\.22\.1 is installed\)"):
        require("run")


def test_only_what_is_used_is_asked_for(monkeypatch):
    for package in ("torch", "onnxscript"):
        monkeypatch.setitem(sys.modules, package, None)
    require("files")
    for package in ("onnx", "onnx_ir"):
        monkeypatch.setitem(sys.modules, package, None)
    require("run")


# What each public name needs is a table: here it is compared with what it imports.
NAMES = """
import sys
blocked = sys.argv[1].split(",")
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
sys.meta_path.insert(0, Blocker())
import json, opbridge
refused = []
for name in opbridge.__all__:
    try:
        getattr(opbridge, name)
    except opbridge.RequirementError:
        refused.append(name)
print(json.dumps(refused))
"""


def child(*arguments: str, path: Path | None = None, cwd: Path | None = None) -> subprocess.CompletedProcess:
    places = [str(ROOT / "src"), *([] if path is None else [str(path)])]
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places), "COLUMNS": "1000"},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "package, some, others",
    [
        ("torch", {"check", "export", "load", "record", "verify"}, {"build", "convert", "fix", "lint", "session"}),
        ("onnx", {"export", "convert", "fix", "lint", "translation"}, {"build", "session", "Limits"}),
        ("onnx_ir", {"export", "convert", "fix", "lint", "translation"}, {"build", "session", "Limits"}),
        ("onnxruntime", {"export", "convert", "fix", "lint", "session"}, {"build", "Limits"}),
        ("onnxscript", {"check", "export", "load"}, {"build", "convert", "fix", "lint", "session"}),
    ],
)
def test_no_name_fails_otherwise_without_a_package(package, some, others):
    done = child("-c", NAMES, package)
    assert done.returncode == 0, done.stderr
    refused = set(json.loads(done.stdout))
    assert some <= refused
    assert not others & refused


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ["check", "net.py:build"],
        ["export", "net.py:build", "-o", "net.onnx"],
        ["ops", "cummax"],
        ["coverage"],
        ["models"],
    ],
    ids=lambda command: command[0],
)
def test_the_command_line_with_an_old_torch(tmp_path, command):
    put(tmp_path, "torch", "2.11.0", "raise AssertionError('imported')\n")
    (tmp_path / "net.py").write_text("def build():\n    return abs, (1,)\n")
    done = child("-m", "opbridge", *command, "--json", path=tmp_path, cwd=tmp_path)
    assert done.returncode == 2
    error = json.loads(done.stdout)["error"]
    assert error["kind"] == "RequirementError"
    for text in (done.stderr, error["message"]):
        assert "torch 2.13 or newer (2.11.0 is installed)" in text
        assert "pip install 'torch>=2.13'" in text
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_the_command_line_with_a_new_onnx_ir(tmp_path):
    put(tmp_path, "onnx_ir", "2.0.1", "raise AssertionError('imported')\n")
    for command in (
        ["lint", "model.onnx"],
        ["fix", "model.onnx"],
        ["convert", "model.onnx", "--opset", "18"],
        ["profile", "model.onnx"],
        ["compare", "model.onnx", "model.onnx"],
        ["bisect", "model.onnx", "model.onnx"],
        ["extract", "model.onnx", "--node", "n", "-o", "part.onnx"],
    ):
        done = child("-m", "opbridge", *command, path=tmp_path, cwd=tmp_path)
        assert done.returncode == 2
        assert "(2.0.1 is installed)" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_what_needs_no_torch_goes_on_beside_an_old_one(tmp_path):
    put(tmp_path, "torch", "2.11.0", "raise AssertionError('imported')\n")
    done = child("-m", "opbridge", "targets", "onnx", path=tmp_path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = child("-m", "opbridge", "new", "my_add", path=tmp_path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_an_older_python_is_told_so(monkeypatch):
    source = (ROOT / "src" / "opbridge" / "__init__.py").read_text()
    ast.parse(source, feature_version=(3, 7))
    declared = PROJECT["requires-python"].removeprefix(">=")
    monkeypatch.setattr(sys, "version_info", (3, 10, 13, "final", 0))
    monkeypatch.setattr(sys, "version", "3.10.13 (main)")
    with pytest.raises(ImportError, match=f"opbridge needs Python {declared} or newer, and this is Python 3.10.13."):
        exec(compile(source, "opbridge/__init__.py", "exec"), {"__name__": "opbridge"})
