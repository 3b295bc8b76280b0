"""The documentation's code runs, and its links lead somewhere."""

from __future__ import annotations

import functools
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import docs_blocks
import pytest

ROOT = pathlib.Path(__file__).parents[1]
RUN = [ROOT / "docs" / "migration.md", ROOT / "docs" / "kernels.md"]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@functools.cache
def ran(page: pathlib.Path) -> dict[int, str | None]:
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, docs_blocks.__file__, str(page)],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
            cwd=folder,
        )
    assert done.returncode == 0, done.stderr
    return {int(line): error for line, error in json.loads(done.stdout).items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "line"),
    [
        pytest.param(page, line, id=f"{page.stem}-{line}")
        for page in RUN
        for line in sorted(docs_blocks.blocks(page))[1:]
    ],
)
def test_block_runs(page, line):
    assert ran(page)[line] is None, ran(page)[line]


@pytest.mark.slow
def test_a_block_that_fails_is_seen(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 1\n```\n\n```python\nassert x == 1\n```\n\n```python\nassert x == 2\n```\n")
    done = subprocess.run([sys.executable, docs_blocks.__file__, page], capture_output=True, text=True, check=True)
    errors = json.loads(done.stdout)
    assert errors["6"] is None
    assert f'"{page}", line 10' in errors["10"] and "AssertionError" in errors["10"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    text = page.read_text()
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        there = (page.parent / file).resolve() if file else page
        assert there.exists(), f"{page.name} links to {target}"
        if anchor:
            assert anchor in _anchors(there), f"{page.name} links to {target}"


def _anchors(page: pathlib.Path) -> set[str]:
    """The anchors of a page's headings, as forges make them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
