"""torch is needed to export a model, not to import opbridge or to run what it exported."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
import textwrap
import tomllib
import venv
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import opbridge

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"

MAKE_AND_RUN = """
import numpy, onnx
from onnx import TensorProto, helper
import opbridge

graph = helper.make_graph(
    [helper.make_node("Add", ["x", "x"], ["y"])],
    "double",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None])],
)
onnx.save(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 18)]), "double.onnx")
(result,) = opbridge.session("double.onnx").run(None, {"x": numpy.array([1, 2.5], "f")})
assert result.tolist() == [2, 5], result
"""

# Behaves as an environment without torch does.
BLOCK_TORCH = """
import sys

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)

sys.meta_path.insert(0, NoTorch())
"""


def run_python(
    code: str, folder: Path, python: str = sys.executable, **environment: str
) -> subprocess.CompletedProcess:
    """Runs code in a child, which has to succeed."""
    done = subprocess.run(
        [python, "-c", textwrap.dedent(code)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(SOURCE), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


def test_import_brings_only_itself(tmp_path):
    code = """
        import json, sys
        before = {name.partition(".")[0] for name in sys.modules}
        import opbridge
        opbridge.UsageError, dir(opbridge)
        print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules} - before)))
    """
    imported = set(json.loads(run_python(code, tmp_path).stdout))
    assert "opbridge" in imported
    assert not imported & {"torch", "numpy", "onnx", "onnx_ir", "onnxruntime", "onnxscript", "rich", "typer"}


@pytest.mark.parametrize("code", ["from opbridge import session", "from opbridge.cli import main; main(['--help'])"])
def test_no_torch_is_imported(tmp_path, code):
    run_python(f"{code}\nimport sys\nassert 'torch' not in sys.modules", tmp_path)


def test_import_is_quick(tmp_path):
    code = "import time; start = time.perf_counter(); import opbridge; print(time.perf_counter() - start)"
    fastest = min(float(run_python(code, tmp_path).stdout) for _ in range(3))
    assert fastest < 0.2


def test_every_public_name_is_there():
    for name in opbridge.__all__:
        assert getattr(opbridge, name).__name__ == name
        assert name in dir(opbridge)
    with pytest.raises(AttributeError, match="no attribute 'exprot'"):
        _ = opbridge.exprot


@pytest.mark.slow
def test_session_without_torch(tmp_path):
    run_python(BLOCK_TORCH + MAKE_AND_RUN, tmp_path)
    damaged = """
        open("damaged.onnx", "wb").write(b"not a model")
        import opbridge
        try:
            opbridge.session("damaged.onnx")
        except opbridge.ModelFileError as error:
            print(error)
    """
    assert "damaged.onnx" in run_python(BLOCK_TORCH + textwrap.dedent(damaged), tmp_path).stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [["check", "net.py:build"], ["export", "net.py:build", "-o", "net.onnx"], ["ops"], ["coverage"], ["models"]],
    ids=lambda command: command[0],
)
def test_the_command_line_without_torch_says_what_to_install(tmp_path, command):
    (tmp_path / "net.py").write_text("def build():\n    return abs, (1,)\n")
    code = f"import opbridge.cli\nassert opbridge.cli.main({command}) == 2"
    said = run_python(BLOCK_TORCH + code, tmp_path, COLUMNS="1000").stderr
    assert "Traceback" not in said
    assert "pip install 'opbridge[torch]'" in said


@pytest.mark.slow
def test_the_declared_dependencies_are_enough_to_run_a_model(tmp_path):
    """In an environment that holds what pyproject.toml asks for and nothing else."""
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site_packages = Path(run_python(where, tmp_path, str(python)).stdout.strip())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for name in sorted(closure(project["dependencies"])):
        link(name, site_packages)
    absent = "import importlib.util as u; assert u.find_spec('onnxscript') and not u.find_spec('torch')"
    run_python(absent + MAKE_AND_RUN, tmp_path, str(python))
    run_python("from opbridge.cli import main; main(['--help'])", tmp_path, str(python))


def closure(requirements: list[str]) -> set[str]:
    """The distributions that requirements ask for, and what these ask for."""
    found: set[str] = set()
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name in found or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        found.add(name)
        waiting.extend(map(Requirement, importlib.metadata.requires(name) or ()))
    return found


def link(name: str, site_packages: Path) -> None:
    """Puts an installed distribution into another environment."""
    distribution = importlib.metadata.distribution(name)
    for top in {file.parts[0] for file in distribution.files or () if file.parts[0] not in ("..", "__pycache__")}:
        place = site_packages / top
        if not place.exists():
            place.symlink_to(distribution.locate_file(top))
