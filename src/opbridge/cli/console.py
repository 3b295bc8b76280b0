"""What every view of the command line is printed with.

On a terminal results are drawn with rich; anywhere else they are plain aligned text, neither coloured nor wrapped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from opbridge.errors import printable

__all__ = ["ROUTE_STYLES", "Screen", "aligned", "plain_table", "print_error", "print_plain", "size"]

ROUTE_STYLES = {
    "standard": "green",
    "function": "green",
    "kernel": "cyan",
    "aten": "yellow",
    "fallthrough": "yellow",
    "missing": "bold red",
}


class Screen(Console):
    """A console on which no text controls the terminal: names in files that others made may try to."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """What is written: all but rich's own control codes is made printable."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)


def size(count: int) -> str:
    """A number of bytes, for a person.

    >>> size(340_000_000)
    '340.0 MB'
    """
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} B"


def aligned(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Rows of text in columns two spaces apart; the columns in `right` end in line instead of starting so."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = zip(row, widths, strict=True)
        lines.append("  ".join(f"{cell:{'>' if i in right else '<'}{width}}" for i, (cell, width) in enumerate(cells)))
    return "\n".join(line.rstrip() for line in lines)


def print_error(console: Console, message: str) -> None:
    """An error's paragraph, in red where there are colours."""
    console.print(Text.assemble(("error: ", "bold red"), (message, "red")), soft_wrap=not console.is_terminal)


def print_plain(console: Console, text: str) -> None:
    """Text as it is, neither coloured nor wrapped."""
    console.out(text, highlight=False)


def plain_table() -> Table:
    """A table without borders."""
    return Table(box=None, header_style="bold underline", padding=(0, 2, 0, 0), pad_edge=False)
