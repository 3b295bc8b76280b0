"""Pages that are no files of docs/, links to what is no page, and anchors of Chinese pages: a hook of mkdocs.

CONTRIBUTING.md and so on stand where people look for them in a repository. Here each becomes a page of the site. A link
to a page leads there from every other one, a link to an example to its guide; a link to another file of the repository
becomes the file's name.

NAME.zh.md is the Chinese form of NAME.md and has the same headings in the same order. Each gets the anchor of its
English one, so that a link is the same in both.
"""

from __future__ import annotations

import functools
import posixpath
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = [
    "MADE",
    "PAGES",
    "anchors",
    "headings",
    "on_files",
    "on_page_markdown",
    "on_page_read_source",
    "on_post_page",
]

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
REPORTS = DOCS / "pictures" / "reports"
"""NAME.png is the picture of the report of examples/NAME.py, at the end of its guide."""

PAGES = {
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "bench/RESULTS.md": "measurements.md",
}
"""A file of the repository -> its page."""

MADE = ("command-line.md", "operators.md")
"""Pages that are made when the site is built."""

TARGETS = "sweeps/targets.html"
"""The page of `opbridge targets --html`, which is made too."""

_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")
_LOADED = re.compile(r'<(?:script|img|iframe|link rel="(?:stylesheet|icon|preload)")[^>]* (?:src|href)="(https?:[^"]+)')
_ALTERNATE = re.compile(r'<link rel="alternate"[^>]*>\s*')
_HEADING = re.compile(r"(#{1,6}) +(.*?) *$")


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages, before a plugin looks which languages there are."""
    from mkdocs.structure.files import File

    for page in [*PAGES.values(), *MADE]:
        files.append(File(page, config.docs_dir, config.site_dir, config.use_directory_urls))
    files.append(File(TARGETS, _targets(), config.site_dir, config.use_directory_urls))
    return files


def on_page_read_source(page: Any, config: Any) -> str | None:
    """The text of a page that is no file of docs/; of any other None."""
    if page.file.src_uri in MADE:
        return _made(page.file.src_uri)
    for source, to in PAGES.items():
        if to == page.file.src_uri:
            return (ROOT / source).read_text()
    return None


@functools.cache
def _made(page: str) -> str:
    return {"command-line.md": _command_line, "operators.md": _operators}[page]()


def _command_line() -> str:
    """The page of commands and options, made of the application itself."""
    sys.path[:0] = [str(DOCS), str(ROOT / "src")]
    try:
        import command_line

        return command_line.markdown()
    finally:
        del sys.path[:2]


def _operators() -> str:
    """The page of operators against targets, made of the targets' facts."""
    sys.path.insert(0, str(ROOT / "src"))
    try:
        from opbridge.targets import table

        # Without a table of contents, which it has nothing for, the page is wide enough for its columns.
        return f"---\nhide:\n  - toc\n---\n\n{table.markdown()}"
    finally:
        sys.path.pop(0)


@functools.cache
def _targets() -> str:
    """Makes the page of operators against targets, to filter and search, in a folder of the build, which it returns."""
    sys.path.insert(0, str(ROOT / "src"))
    try:
        from opbridge.pages import rendering
        from opbridge.targets import page

        path = ROOT / "build" / "pages" / TARGETS
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(rendering.render("matrix.html", page.document()))
        return str(path.parents[1])
    finally:
        sys.path.pop(0)


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Turns links within the repository into links within the site, and gives Chinese headings their anchors.

    A guide gets the picture of its report.
    """
    uri = page.file.src_uri
    is_chinese = uri.endswith(".zh.md")
    if is_chinese:
        markdown = _with_anchors(markdown, (DOCS / f"{uri.removesuffix('.zh.md')}.md").read_text())
    if uri.startswith("guides/"):
        markdown += _report(uri.removeprefix("guides/").partition(".")[0], is_chinese)
    sources = {to: source for source, to in PAGES.items()}
    here = sources.get(uri, f"docs/{uri}")

    def within_the_site(match: re.Match[str]) -> str:
        text, target = match.groups()
        path, mark, anchor = target.partition("#")
        if "://" in target or not path:
            return match[0]
        source = posixpath.normpath(posixpath.join(posixpath.dirname(here), path))
        there = _page(source)
        if there is None:
            return text if text.startswith("`") or "/" not in source else f"{text} (`{source}`)"
        return f"[{text}]({posixpath.relpath(there, posixpath.dirname(uri) or '.')}{mark}{anchor})"

    return _LINK.sub(within_the_site, markdown)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Ends the build where a page would load something from a network.

    The links to other languages in a page's head go: for each of them the theme asks for a map of the site that is not
    beside the page. The menu of languages has the same links.
    """
    if found := _LOADED.search(output):
        from mkdocs.exceptions import PluginError

        raise PluginError(f"{page.file.src_uri} loads {found[1]}: put it into docs/assets.")
    return _ALTERNATE.sub("", output)


def _page(source: str) -> str | None:
    """The page of the site that a file of the repository is, if it is one."""
    if source in PAGES:
        return PAGES[source]
    if source.startswith("docs/") and source.endswith((".md", ".html")):
        return source.removeprefix("docs/")
    guide = f"guides/{posixpath.basename(source).removesuffix('.py')}.md"
    if source == f"examples/{posixpath.basename(source)}" and (DOCS / guide).exists():
        return guide
    return {"README.md": "index.md", "README.zh-CN.md": "index.md"}.get(source)


def _report(example: str, is_chinese: bool) -> str:
    """The picture of an example's report, where there is one."""
    if not (REPORTS / f"{example}.png").exists():
        return ""
    script = f"examples/{example}.py"
    heading, words = "The report", f"The report of {script}: summary, and graph with a selected operator"
    if is_chinese:
        heading, words = "报告", f"{script} 的导出报告：摘要，以及模型图和选中的算子"  # noqa: RUF001
    return f"\n## {heading} {{#the-report}}\n\n![{words}](../pictures/reports/{example}.png)\n"


def headings(markdown: str) -> Iterator[tuple[int, int, str]]:
    """The headings of a page: the number of the line, from 0 on, the level and the text. Blocks of code have none."""
    fence = ""
    for number, line in enumerate(markdown.splitlines()):
        mark = re.match(r" *(`{3,})", line)
        if fence:
            fence = "" if mark and mark[1] == fence else fence
        elif mark:
            fence = mark[1]
        elif found := _HEADING.match(line):
            yield number, len(found[1]), found[2]


def anchors(markdown: str) -> list[str]:
    """The anchors of a page's headings, in order, as forges make them, and this site too."""
    seen: dict[str, int] = {}
    found = []
    for _, _, text in headings(markdown):
        anchor = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        count = seen[anchor] = seen.get(anchor, -1) + 1
        found.append(f"{anchor}-{count}" if count else anchor)
    return found


def _with_anchors(chinese: str, english: str) -> str:
    lines = chinese.splitlines()
    for (number, _, _), anchor in zip(headings(chinese), anchors(english), strict=False):
        lines[number] += f" {{#{anchor}}}"
    return "\n".join(lines) + "\n"
