""".ci/run: it leaves out no campaign of attacks, and what it takes for a folder of tests is one."""

from __future__ import annotations

import re
import runpy
import subprocess
from pathlib import Path

from attack.__main__ import names

ROOT = Path(__file__).parents[1]
SCRIPTS = (ROOT / ".ci" / "run", ROOT / ".ci" / "environment", ROOT / ".ci" / "wheels")


def test_every_campaign_runs_once():
    chosen = re.findall(r'CAMPAIGNS="([^"]*)"', SCRIPTS[0].read_text())
    assert sorted(" ".join(chosen).split()) == names()


def test_what_depends_on_the_release_of_torch_exists():
    tests = ROOT / "tests"
    chosen = runpy.run_path(str(tests / "conftest.py"))["TOUCHING_TORCH"]
    assert chosen and all((tests / each).exists() for each in chosen)


def test_the_scripts_are_scripts():
    for script in SCRIPTS:
        subprocess.run(["bash", "-n", str(script)], check=True)
        assert script.stat().st_mode & 0o100, script
