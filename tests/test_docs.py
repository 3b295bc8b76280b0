"""The documentation's code runs, and its links lead somewhere."""

from __future__ import annotations

import importlib.util
import pathlib
import re
import types

import pytest
from helpers import docs_blocks
from helpers.scripts import run_script

import opbridge

ROOT = pathlib.Path(__file__).parents[1]
DOCS = ROOT / "docs"
RUN = [DOCS / f"{name}.md" for name in ("architecture", "decisions", "kernels", "migration", "parts", "translations")]
if importlib.util.find_spec("torchao"):  # which the page quantises its models with
    RUN.append(DOCS / "quantised.md")
if importlib.util.find_spec("transformers"):
    RUN.append(DOCS / "generation.md")
PAGES = [
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG", "SECURITY")),
    *sorted(DOCS.glob("*.md")),
]


def _load(file: pathlib.Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


draw = _load(DOCS / "pictures" / "draw.py")
site = _load(DOCS / "pages_of_the_root.py")


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


@pytest.mark.slow
def test_commands_run_beside_the_files_of_the_page(tmp_path):
    page = tmp_path / "page.md"
    net = "```python\n# net.py\ndef build():\n    return abs, (1,)\n```\n\n```python\nimport net\n```\n\n"
    page.write_text(f"{net}```console\n$ opbridge ops aten::re?u\n...1 operator,...\n```\n")
    last = max(docs_blocks.blocks(page))
    done = run_script(docs_blocks.__file__, page, last, folder=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", sorted(draw.PICTURES))
def test_pictures_are_up_to_date(name):
    picture = (DOCS / "pictures" / name).read_text()
    assert picture == draw.PICTURES[name](), "python docs/pictures/draw.py draws it again"


def test_the_architecture_names_every_folder():
    text = (DOCS / "architecture.md").read_text()
    for file in sorted((ROOT / "src" / "opbridge").glob("*/__init__.py")):
        assert f"| `{file.parent.name}/` |" in text


def test_the_reference_has_every_public_name():
    """`make docs` makes an entry of each line from its docstring."""
    named = re.findall(r"^::: opbridge\.(\S+)$", (DOCS / "api.md").read_text(), re.MULTILINE)
    assert sorted(named) == sorted(opbridge.__all__)


def test_every_page_is_in_the_sidebar():
    listed = re.findall(r"^ +- .*?([\w-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted([*(page.name for page in DOCS.glob("*.md")), *site.PAGES.values(), *site.MADE])


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
