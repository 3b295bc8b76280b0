"""The documentation's code runs, and its links lead somewhere."""

from __future__ import annotations

import pathlib
import re

import pytest
from helpers import docs_blocks
from helpers.scripts import run_script

ROOT = pathlib.Path(__file__).parents[1]
RUN = [ROOT / "docs" / "migration.md", ROOT / "docs" / "kernels.md"]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "line"),
    [
        pytest.param(page, line, id=f"{page.stem}-{line}")
        for page in RUN
        for line in sorted(docs_blocks.blocks(page))
        if line != docs_blocks.first_block(page)
    ],
)
def test_block_runs(page, line, tmp_path):
    done = run_script(docs_blocks.__file__, page, line, folder=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_block_that_fails_is_seen(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 1\n```\n\n```python\nassert x == 1\n```\n\n```python\nassert x == 2\n```\n")
    assert run_script(docs_blocks.__file__, page, 6).returncode == 0
    failed = run_script(docs_blocks.__file__, page, 10)
    assert failed.returncode == 1
    assert f'"{page}", line 10' in failed.stderr and "AssertionError" in failed.stderr


@pytest.mark.slow
def test_a_block_that_prints_something_else_is_seen(tmp_path):
    page = tmp_path / "page.md"
    output = '```text title="Output"\n1 ... 3\n```\n'
    page.write_text(
        f"```python\nx = 1\n```\n\n```python\nprint(x, 2, 3)\n```\n\n{output}\n```python\nprint(x)\n```\n{output}"
    )
    first, second = sorted(docs_blocks.blocks(page))[1:]
    assert run_script(docs_blocks.__file__, page, first).returncode == 0
    failed = run_script(docs_blocks.__file__, page, second)
    assert failed.returncode == 1 and "it prints something else" in failed.stderr


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
