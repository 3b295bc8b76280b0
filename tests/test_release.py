"""What a release is made with: the tag, the notes, the citation, and the releases of Python that are declared."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib

import pytest
from helpers.documents import ROOT, load

import opbridge

release = load(ROOT / ".ci" / "release.py")

CHANGELOG = """# Changelog

## Unreleased

- later

## 0.2.0 (2026-11-23)

### Added

- this

## [0.1.0] - 2026-01-01

- first
"""


def test_the_version_is_the_one_that_opbridge_has():
    assert release.version() == opbridge.__version__


def test_the_notes_are_the_section_of_the_version():
    assert release.notes(CHANGELOG, "0.2.0") == "### Added\n\n- this\n"
    assert release.notes(CHANGELOG, "0.1.0") == "- first\n"
    with pytest.raises(SystemExit, match="no section '## 0.2'"):
        release.notes(CHANGELOG, "0.2")


def test_a_tag_has_to_be_the_version():
    release.check("v0.2.0", "0.2.0", CHANGELOG)
    with pytest.raises(SystemExit, match="tag v0.2.0"):
        release.check("v0.1.0", "0.2.0", CHANGELOG)
    with pytest.raises(SystemExit, match="no section"):
        release.check("v0.3.0", "0.3.0", CHANGELOG)


@pytest.mark.slow
def test_the_script_says_how_it_is_called():
    done = subprocess.run([sys.executable, release.__file__], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "release.py check TAG" in done.stderr
    done = subprocess.run([sys.executable, release.__file__, "version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"{opbridge.__version__}\n"


def test_the_citation_has_the_version():
    assert f"\nversion: {opbridge.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_releases_of_python_that_are_declared_are_tested():
    """The first of the classifiers is that of .ci/run and of the package; the tests run on the others too."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = [each for line in project["classifiers"] for each in re.findall(r"Python :: (3\.\d+)$", line)]
    assert project["requires-python"] == f">={declared[0]}"
    ci, wheels = ((ROOT / ".github" / "workflows" / f"{name}.yml").read_text() for name in ("ci", "release"))
    others, run_on = (
        re.findall(r"3\.\d+", each) for text in (ci, wheels) for each in re.findall(r"python: \[.*\]", text)
    )
    assert list(dict.fromkeys([*re.findall(r'python-version: "(.*)"', ci), *others])) == declared
    assert set(declared) <= set(run_on)
    assert f"Python {run_on[0]} to {run_on[-1]}" in (ROOT / "docs" / "start.md").read_text()


def test_workflows_run_scripts_that_are_there():
    for workflow in (ROOT / ".github" / "workflows").glob("*.yml"):
        for script in re.findall(r"\.ci/[\w.]+", workflow.read_text()):
            assert (ROOT / script.rstrip(".")).exists(), f"{workflow.name}: {script}"
