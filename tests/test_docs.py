"""The documentation's code runs, and its links lead somewhere."""

from __future__ import annotations

import functools
import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import types

import docs_blocks
import pytest

ROOT = pathlib.Path(__file__).parents[1]
RUN = [ROOT / "docs" / f"{name}.md" for name in ("architecture", "kernels", "migration", "translations")]
PAGES = [
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG")),
    *sorted((ROOT / "docs").glob("*.md")),
]


def load(file: pathlib.Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


draw = load(ROOT / "docs" / "pictures" / "draw.py")


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
    [pytest.param(page, line, id=f"{page.stem}-{line}") for page in RUN for line in docs_blocks.following(page)],
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


@pytest.mark.slow
def test_what_a_block_prints_is_compared(tmp_path):
    page = tmp_path / "page.md"
    output = '```text title="Output"\n{}\n```\n\n'
    prints = '```python\nprint("x is", x)\n```\n\n'
    page.write_text("```python\nx = 1\n```\n\n" + prints + output.format("x is ...") + prints + output.format("x is 2"))
    done = subprocess.run([sys.executable, docs_blocks.__file__, page], capture_output=True, text=True, check=True)
    right, wrong = json.loads(done.stdout).values()
    assert right is None
    assert "-x is 2" in wrong and "+x is 1" in wrong


@pytest.mark.slow
def test_commands_run_beside_the_files_of_the_page(tmp_path):
    page = tmp_path / "page.md"
    net = "```python\n# net.py\ndef build():\n    return abs, (1,)\n```\n\n"
    page.write_text(
        net + "```python\nimport net\n```\n\n```console\n$ opbridge ops aten::re?u\n...1 operator,...\n```\n"
    )
    done = subprocess.run(
        [sys.executable, docs_blocks.__file__, page], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert list(json.loads(done.stdout).values()) == [None]


@pytest.mark.parametrize("name", sorted(draw.PICTURES))
def test_pictures_are_up_to_date(name):
    picture = (ROOT / "docs" / "pictures" / name).read_text()
    assert picture == draw.PICTURES[name](), "python docs/pictures/draw.py draws it again"


def test_the_architecture_names_every_folder():
    text = (ROOT / "docs" / "architecture.md").read_text()
    folders = {file.parent.name for file in (ROOT / "src" / "opbridge").glob("*/__init__.py")}
    assert folders <= {name for layer in draw.layers() for name in layer}
    for folder in folders:
        assert f"| `{folder}/` |" in text


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
