"""Pages of the site that are files outside of docs/, and links to what is no page: a hook of mkdocs.

README.md, CONTRIBUTING.md and so on stand where people look for them in a repository. Here each becomes a page of the
site. A link to a page leads there from every other one; a link to another file of the repository, such as an example,
becomes the file's name.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

__all__ = ["MADE", "PAGES", "on_files", "on_page_markdown"]

ROOT = Path(__file__).parents[1]

PAGES = {
    "README.md": "overview.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "bench/RESULTS.md": "measurements.md",
}
"""A file of the repository -> its page."""

MADE = ("operators.md",)
"""Pages that are made when the site is built."""

_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages."""
    from mkdocs.structure.files import File

    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    files.append(File.generated(config, MADE[0], content=_operators()))
    return files


def _operators() -> str:
    """The page of operators against targets, made of the targets' facts."""
    sys.path.insert(0, str(ROOT / "src"))
    try:
        from opbridge.targets import table

        return table.markdown()
    finally:
        sys.path.pop(0)


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Turns links within the repository into links within the site."""
    sources = {to: source for source, to in PAGES.items()}
    folder = posixpath.dirname(sources.get(page.file.src_uri, f"docs/{page.file.src_uri}"))

    def within_the_site(match: re.Match[str]) -> str:
        text, target = match.groups()
        path, mark, anchor = target.partition("#")
        if "://" in target or not path:
            return match[0]
        source = posixpath.normpath(posixpath.join(folder, path))
        there = PAGES.get(source, source.removeprefix("docs/") if source.startswith("docs/") else None)
        if there is None or not there.endswith(".md"):
            return text if text.startswith("`") or "/" not in source else f"{text} (`{source}`)"
        return f"[{text}]({there}{mark}{anchor})"

    return _LINK.sub(within_the_site, markdown)
