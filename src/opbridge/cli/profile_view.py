"""What a person sees of a profile."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from opbridge.cli.console import aligned, plain_table, print_plain
from opbridge.profiling.file_graph import short_name
from opbridge.profiling.grouping import without_folders

if TYPE_CHECKING:
    from opbridge.profiling import Profile, Row

__all__ = ["print_profile"]

_LONGEST = 56
_TITLES = {"operator": "operator", "module": "module", "line": "source line", "node": "node"}


def print_profile(
    console: Console, profile: Profile, by: Sequence[str], depth: int | None, top: int, html: Path | None
) -> None:
    """A profile as tables.

    Args:
        console: Where it is printed.
        profile: The profile.
        by: What the times are added up by; none: by operator, and by line or module.
        depth: By module: how many parts of a module's path are kept.
        top: How many rows a table has.
        html: The page that was written.
    """
    print_plain(console, profile.summary())
    for each in by or ("operator", profile.usual):
        _print_rows(console, profile, each, depth if each == "module" else None, top)
    if profile.torch is not None and (not by or "operator" in by):
        found = profile.torch_rows()
        shown = [[name, f"{calls:g}", f"{spent:.3f}"] for name, calls, spent in found[:top]]
        _print(console, ["PyTorch's operator", "calls", "ms"], shown, [1, 2], len(found) - len(shown))
    own = profile.own()
    if own:
        shown = [
            [_shortened(each.what), str(each.nodes), f"{each.milliseconds:.3f}", _shortened(_places(each.places))]
            for each in own[:top]
        ]
        _print(console, ["not in the file as it is", "nodes", "ms", "for"], shown, [1, 2], len(own) - len(shown))
    if html is not None:
        print_plain(console, f"\nWritten: {html}")


def _print_rows(console: Console, profile: Profile, by: str, depth: int | None, top: int) -> None:
    found = profile.rows(by, depth)
    beside = profile.torch is not None and by != "operator"
    names = ["calls", "ms", "share", *(["PyTorch", "lost"] if beside else [])]
    heads = [_TITLES[by], *names, *([] if by == "operator" else ["operator" if by == "node" else "operators"])]
    heads += ["code"] if by == "line" else []
    shown = []
    for row in found[:top]:
        label = _shortened(without_folders(row.label))
        cells = [label, f"{row.calls:g}", f"{row.milliseconds:.3f}", f"{100 * row.share:.1f}%"]
        cells += _beside(row) if beside else []
        if by != "operator":
            cells.append(_shortened(", ".join(map(short_name, row.operators[:3]))))
        shown.append([*cells, *([_shortened(row.code)] if by == "line" else [])])
    _print(console, heads, shown, list(range(1, 1 + len(names))), len(found) - len(shown))


def _beside(row: Row) -> list[str]:
    if row.torch is None or row.lost is None:
        return ["", ""]
    return [f"{row.torch:.3f}", f"{row.lost:+.3f}"]


def _places(places: Sequence[str]) -> str:
    more = f" and {len(places) - 2} more" if len(places) > 2 else ""
    return without_folders(", ".join(places[:2]) + more)


def _print(console: Console, heads: list[str], rows: list[list[str]], right: list[int], left: int) -> None:
    if console.is_terminal:
        table: Table = plain_table()
        for number, head in enumerate(heads):
            table.add_column(head, justify="right" if number in right else "left", no_wrap=number in right)
        for row in rows:
            table.add_row(*map(_cell, row))
        console.print()
        console.print(table)
    else:
        print_plain(console, "\n" + aligned([heads, *rows], right))
    if left > 0:
        print_plain(console, f"and {left} more; --top {len(rows) + left} shows all of them.")


def _cell(text: str) -> Text:
    is_lost = text.startswith(("+", "-")) and text[1:].replace(".", "").isdecimal()
    return Text(text, style=("red" if text[0] == "+" else "green") if is_lost else "")


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
