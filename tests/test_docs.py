"""The documentation's code runs, and its links lead somewhere."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import re
import types

import pytest
from helpers import docs_blocks
from helpers.documents import DOCS, PAGES, ROOT, load
from helpers.scripts import run_script

import opbridge
from opbridge import errors
from opbridge.kernels.builtin import load_builtin

RUN = [
    DOCS / f"{name}.md"
    for name in (
        "architecture",
        "decisions",
        "kernels",
        "migration",
        "parts",
        "routes",
        "runtimes",
        "start",
        "targets",
        "translations",
        "verification",
    )
]
if importlib.util.find_spec("torchao"):  # which the page quantises its models with
    RUN.append(DOCS / "quantised.md")
if importlib.util.find_spec("transformers"):
    RUN.append(DOCS / "generation.md")

draw = load(DOCS / "pictures" / "draw.py")
site = load(DOCS / "pages_of_the_root.py")


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
    load_builtin()  # compiled here, if they are not yet: a script has five minutes
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


def test_a_guide_shows_the_picture_of_its_report(tmp_path, monkeypatch):
    monkeypatch.setattr(site, "REPORTS", tmp_path)
    (tmp_path / "deform_net.png").touch()
    for uri, heading in (("guides/deform_net.md", "The report"), ("guides/deform_net.zh.md", "报告")):
        page = types.SimpleNamespace(file=types.SimpleNamespace(src_uri=uri))
        shown = site.on_page_markdown((DOCS / uri).read_text(), page, None, None)
        assert f"## {heading} {{#the-report}}" in shown and "](../pictures/reports/deform_net.png)" in shown
    page.file.src_uri = "guides/one_cpp_file.md"
    assert "reports" not in site.on_page_markdown("# One\n", page, None, None)


def test_every_example_that_exports_a_model_has_the_picture_of_its_report():
    scripts = {path.stem: path.read_text() for path in (ROOT / "examples").glob("*.py")}
    exporting = {name for name, text in scripts.items() if ".export(" in text}
    pictures = {path.stem for path in site.REPORTS.glob("*.png")}
    assert pictures == exporting, "python docs/pictures/photograph.py NAME takes it"


def test_links_are_those_of_the_site(tmp_path):
    """Of a page elsewhere in the repository too; an example is its guide, and another file its name."""
    text = "[a](examples/deform_net.py) [b](docs/routes.md#permissions) [c](Makefile) [d](https://x.y) [e](#f)"
    page = types.SimpleNamespace(file=types.SimpleNamespace(src_uri="contributing.md"))
    shown = site.on_page_markdown(text, page, None, None)
    assert shown == "[a](guides/deform_net.md) [b](routes.md#permissions) c [d](https://x.y) [e](#f)"
    page.file.src_uri = "guides/index.md"
    assert site.on_page_markdown("[a](../kernels.md) [b](../../README.md)", page, None, None) == (
        "[a](../kernels.md) [b](../index.md)"
    )


def test_a_page_that_would_load_something_is_seen():
    for text in ('<script src="https://x.y/z.js">', '<link rel="stylesheet" href="https://x.y/z.css">'):
        assert site._LOADED.search(text)
    for text in ('<script src="assets/z.js">', '<link rel="stylesheet" href="z.css">', '<a href="https://x.y">'):
        assert not site._LOADED.search(text)


def test_pages_ask_for_no_map_of_the_site():
    head = '<head>\n  <link rel="alternate" href="../zh/a.html" hreflang="zh">\n  <link rel="icon" href="i.png"></head>'
    assert site.on_post_page(head, None, None) == '<head>\n  <link rel="icon" href="i.png"></head>'


def test_the_architecture_names_every_folder():
    text = (DOCS / "architecture.md").read_text()
    for file in sorted((ROOT / "src" / "opbridge").glob("*/__init__.py")):
        assert f"| `{file.parent.name}/` |" in text


def test_the_reference_has_every_public_name():
    """`make docs` makes an entry of each line from its docstring."""
    text = "".join((DOCS / f"{name}.md").read_text() for name in ("api", "errors"))
    assert sorted(re.findall(r"^::: opbridge\.(\w+)$", text, re.MULTILINE)) == sorted(opbridge.__all__)


def test_the_table_of_errors_has_every_error_with_its_status():
    rows = re.findall(r"^\| `(\w+)` \| (\d) \|", (DOCS / "errors.md").read_text(), re.MULTILINE)
    public = [getattr(errors, name) for name in errors.__all__ if name not in ("OpbridgeError", "printable")]
    assert sorted(rows) == sorted((each.__name__, str(each.exit_status)) for each in public)


def test_the_reference_has_every_command_and_option(monkeypatch):
    """The page is made from the application; this runs what makes it, without the packages of the site."""
    monkeypatch.syspath_prepend(str(DOCS))
    import command_line

    page = command_line.markdown()
    for name in ("check", "export", "verify", "lint", "fix", "convert", "targets", "ops", "build", "new", "coverage"):
        assert f"\n## {name}\n" in page
    assert "| `--output OUTPUT`, `-o OUTPUT` |" in page
    assert page.count("\n## ") == page.count("\n```sh\nopbridge ")


def test_the_readme_shows_what_its_example_prints():
    printed = (DOCS / "printed" / "deform_net.txt").read_text()
    for name in ("README.md", "README.zh-CN.md"):
        shown = re.findall(
            r"^    (\w+::\S+ .*|operator .*|\d+ operators, .*)$", (ROOT / name).read_text(), re.MULTILINE
        )
        assert len(shown) == 5
        assert [line for line in shown if line not in printed.splitlines()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_of_a_page_have_their_options(page):
    """In blocks of code, also those that do not run."""
    import typer

    from opbridge.cli.app import app
    from opbridge.cli.running import main

    assert main  # imported for the commands that it adds to the application
    commands = typer.main.get_command(app).commands
    text = page.read_text()
    fenced = "".join(re.findall(r"^```\w*[^\n]*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    for line in [*fenced.splitlines(), *re.findall(r"^    .*$", text, re.MULTILINE)]:
        words = re.fullmatch(r" *(?:\$ )?opbridge ([a-z]+)((?: +[^#]*)?)(?:#.*)?", line)
        if words is None:
            continue
        command = commands.get(words[1])
        assert command is not None, f"{page.name}: {line.strip()}"
        options = {each for parameter in command.params for each in parameter.opts}
        unknown = [each for each in re.findall(r"(?<= )--?[a-z][\w-]*", words[2]) if each not in {*options, "--debug"}]
        assert unknown == [], f"{page.name}: {line.strip()}"


_NET = """
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) if x.sum() > 0 else x

def build():
    return Net(), (torch.randn(2, 3),)
"""


@pytest.mark.slow
def test_the_page_of_formats_has_the_keys_of_each_document(tmp_path, monkeypatch):
    """No key that a command prints is missing from the page, and none of the page's tables is made up."""
    from opbridge.cli import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(_NET)
    text = (DOCS / "formats.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", text.partition("### A plan")[0], re.MULTILINE))

    def keys(section):
        table = text.partition(f"### {section}\n")[2].partition("\n#")[0]
        return {
            key for row in re.findall(r"^\| (`.*?`) \|", table, re.MULTILINE) for key in re.findall(r"`(\w+)`", row)
        }

    def printed(*command):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            main([*command, "--json"])
        return json.loads(out.getvalue())

    assert printed("check", "net.py:build").keys() == keys("A plan")
    exported = printed("export", "net.py:build", "-o", "net.onnx")
    assert exported["plan"].keys() == keys("A plan")
    assert printed("verify", "net.onnx", "net.py:build").keys() == keys("A verification")
    several = printed("verify", "net.onnx", "net.py:build", "--runtime", "onnxruntime,reference")
    for command, document in {
        "export": exported,
        "verify": several,
        "lint": printed("lint", "net.onnx", "--target", "tensorrt:8.5"),
        "fix": printed("fix", "net.onnx", "--target", "tensorrt:8.5", "-o", "fixed.onnx"),
        "convert": printed("convert", "net.onnx", "--opset", "12", "-o", "older.onnx"),
        "targets": printed("targets"),
        "ops": printed("ops", "gelu"),
    }.items():
        assert [key for key in document if f"`{key}`" not in rows[command]] == [], command


def test_every_page_is_in_the_sidebar():
    listed = re.findall(r"^ +- (?:.*: )?([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    english = [str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if not page.name.endswith(".zh.md")]
    assert sorted(listed) == sorted([*english, *site.PAGES.values(), *site.MADE])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    text = page.read_text()
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        there = (page.parent / file).resolve() if file else page
        made = there.parent == DOCS and there.name in site.MADE
        assert there.exists() or made, f"{page.name} links to {target}"
        if anchor:
            # A heading of a Chinese page has the anchor of its English one.
            english = there.with_name(there.name.replace(".zh.md", ".md"))
            assert anchor in site.anchors(english.read_text()), f"{page.name} links to {target}"
