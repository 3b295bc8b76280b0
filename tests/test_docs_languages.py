"""The Chinese pages have the structure of the English ones, so that neither falls behind.

For each page: headings of the same levels, the same blocks of code, tables of the same size, as many items of lists,
and the same links.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from helpers.documents import DOCS, ROOT, load

site = load(DOCS / "pages_of_the_root.py")

CHINESE = [*sorted(DOCS.rglob("*.zh.md")), ROOT / "README.zh-CN.md"]

TRANSLATED = ("Start", "Guides", "Explanation", "Migration")
"""The sections of the site that are in Chinese too."""

_WORD = re.compile(r"[\u4e00-\u9fff]")


def english(page: Path) -> Path:
    """The English form of a Chinese page."""
    return page.with_name(page.name.replace(".zh.md", ".md").replace("README.zh-CN.md", "README.md"))


def split(text: str) -> tuple[list[str], list[str]]:
    """The blocks of code of a page, and its other lines."""
    blocks: list[str] = []
    lines: list[str] = []
    fence, indented = "", False
    for line in text.splitlines():
        mark = re.match(r"(`{3,})", line)
        if fence:
            blocks[-1] += f"{line}\n"
            fence = "" if mark and mark[1] == fence else fence
        elif mark:
            fence = mark[1]
            blocks.append(f"{line}\n")
        elif line.startswith("    ") and (indented or not lines or not lines[-1].strip()):
            if not indented:
                blocks.append("")
            blocks[-1] += f"{line}\n"
            indented = True
        elif not (indented and not line.strip()):
            lines.append(line)
            indented = False
    return blocks, lines


def tables(lines: list[str]) -> list[list[int]]:
    """For each table the number of cells of each row."""
    found: list[list[int]] = []
    within = False
    for line in lines:
        if line.startswith("|"):
            if not within:
                found.append([])
            # A bar within code is no border of a cell.
            found[-1].append(re.sub(r"`[^`]*`", "", line).count("|") - 1)
        within = line.startswith("|")
    return found


def items(lines: list[str]) -> list[str]:
    """The marks of lists, in order: bullets, and numbers."""
    return ["1" if mark[0].isdigit() else "-" for line in lines for mark in re.findall(r"^ *(-|\d+\.) ", line)]


def links(lines: list[str]) -> Counter[str]:
    targets = re.findall(r"\]\(([^)\s]+)\)", "\n".join(lines))
    return Counter(target.replace(".zh.md", ".md").replace("README.zh-CN.md", "README.md") for target in targets)


def paragraphs(lines: list[str]) -> list[str]:
    return [each for each in "\n".join(lines).split("\n\n") if each.strip()]


@pytest.mark.parametrize("page", CHINESE, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_chinese_page_has_the_structure_of_the_english_one(page):
    chinese, original = page.read_text(), english(page).read_text()
    assert [level for _, level, _ in site.headings(chinese)] == [level for _, level, _ in site.headings(original)]
    (code, lines), (original_code, original_lines) = split(chinese), split(original)
    assert code == original_code
    assert tables(lines) == tables(original_lines)
    assert items(lines) == items(original_lines)
    mine, others = links(lines), links(original_lines)
    mine.pop("README.md", None), others.pop("README.md", None)  # of each language to the other
    assert mine == others
    # What is in no language, such as a line of links, is short.
    left = [each for each in paragraphs(lines) if not _WORD.search(each) and len(each.split()) > 6]
    assert left == [], "not translated"


def nav() -> list[tuple[str, str]]:
    """The pages of the sidebar, each with its section."""
    text = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2].partition("\n\n")[0]
    found, section = [], ""
    for line in text.splitlines():
        if top := re.match(r"  - (\w+):", line):
            section = top[1]
        if page := re.search(r"([\w/-]+\.md)$", line):
            found.append((section, page[1]))
    return found


def test_the_sections_that_are_in_chinese_are_so_as_a_whole():
    missing = [
        page for section, page in nav() if section in TRANSLATED and not (DOCS / page).with_suffix(".zh.md").exists()
    ]
    assert missing == []
    assert {section for section, _ in nav()} > set(TRANSLATED)


def test_the_sidebar_has_a_chinese_title_for_every_page():
    text = (ROOT / "mkdocs.yml").read_text()
    titles = re.findall(
        r"^ +- (?:\"?)([^:\n]+(?:::[^:\n]+)?)(?:\"?):(?: |$)",
        text.partition("\nnav:\n")[2].partition("\n\n")[0],
        re.MULTILINE,
    )
    translations = text.partition("nav_translations:\n")[2].partition("\n  - mkdocstrings")[0]
    known = re.findall(r"^ +(?:\"?)([^:\n]+(?:::[^:\n]+)?)(?:\"?): \S", translations, re.MULTILINE)
    assert [title for title in titles if title not in known] == []


def test_a_page_that_falls_behind_is_seen():
    """The parts that the comparison is made of see what they are for."""
    table = "| a | b |\n| --- | --- |\n| `x|y` | 2 |\n\n"
    blocks = "    code\n\n    more\n\n```python\nx = 1  # [no](link)\n```\n\n"
    page = f"# A\n\n- one\n- two\n\n{table}{blocks}[a](b.zh.md#c)\n"
    code, lines = split(page)
    assert code == ["    code\n    more\n", "```python\nx = 1  # [no](link)\n```\n"]
    assert tables(lines) == [[2, 2, 2]]
    assert items(lines) == ["-", "-"]
    assert links(lines) == Counter({"b.md#c": 1})
    assert links(lines) != links(split(page.replace("b.zh.md#c", "b.md"))[1])
